"""The schedulers that are compared: processes, and what they use of the machine."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

_TICKS = os.sysconf("SC_CLK_TCK")


class Use(NamedTuple):
    """CPU seconds of the scheduler, and of its database (0 without one); the memory (MiB)
    that the scheduler held at its most."""

    cpu: float
    database_cpu: float
    memory: float


class Contender:
    """A scheduler as a process."""

    def __init__(self, name: str, command: list[str], folder: Path, data: str = "") -> None:
        """``data`` is the folder of its database, "" without one."""
        self.name = name
        self.data = data
        self._log = (folder / f"{name}.log").open("wb")
        self._process = subprocess.Popen(
            command, stdout=self._log, stderr=subprocess.STDOUT, start_new_session=True
        )

    def use(self) -> Use:
        """What it has used so far."""
        database = _database(self.data) if self.data else set()
        return Use(
            sum(cpu_of(pid) for pid in _family({self._process.pid}) - database),
            sum(cpu_of(pid) for pid in database),
            _peak(self._process.pid),
        )

    def check(self) -> None:
        """Raises RuntimeError if it has ended."""
        if self._process.poll() is not None:
            said = Path(self._log.name).read_text(errors="replace")[-2000:]
            raise RuntimeError(f"{self.name} ended with {self._process.returncode}:\n{said}")

    def pause(self) -> None:
        """Lets it stand still; its database, which has nothing to do then, goes on."""
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Ends a pause."""
        self._process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        """Ends it, and waits until it is gone."""
        self.go_on()
        for signalled in (signal.SIGTERM, signal.SIGKILL):
            if self._process.poll() is None:
                os.killpg(self._process.pid, signalled)
                end = time.monotonic() + 15
                while self._process.poll() is None and time.monotonic() < end:
                    time.sleep(0.05)
        self._log.close()
        if self.data:
            command = [sys.executable, "-m", "eventsched", "db", "stop", f"--data-dir={self.data}"]
            subprocess.run(command, check=False, capture_output=True)
            shutil.rmtree(self.data, ignore_errors=True)


def kube_scheduler(
    binary: Path, kubeconfig: Path, folder: Path, more: Mapping[str, Any] | None = None
) -> Contender:
    """kube-scheduler with its defaults, but no limit on its client; ``more`` are fields of its
    configuration."""
    connection = {"kubeconfig": str(kubeconfig), "qps": 5000, "burst": 5000}
    config = _configuration(
        folder, "kube-scheduler", {"clientConnection": connection, **(more or {})}
    )
    command = [str(binary), f"--config={config}", "--secure-port=0", "--v=0"]
    return Contender("kube-scheduler", command, folder)


def eventsched(kubeconfig: Path, folder: Path) -> Contender:
    """eventsched with its defaults, on an embedded Postgres of its own."""
    return _ours("run", _configuration(folder, "eventsched", {}), kubeconfig, folder)


def extender(kubeconfig: Path, folder: Path, port: int, profile: Mapping[str, Any]) -> Contender:
    """eventsched as an extender that answers on a port of loopback with a profile's plugins, on an
    embedded Postgres of its own."""
    config = _configuration(folder, "extender", {"profiles": [profile]})
    return _ours("extender", config, kubeconfig, folder, f"--port={port}")


def shadow(kubeconfig: Path, folder: Path) -> Contender:
    """eventsched as a shadow of kube-scheduler, on an embedded Postgres of its own."""
    return _ours("run", _configuration(folder, "shadow", {}), kubeconfig, folder, "--shadow")


def agreeing(folder: Path, port: int) -> Contender:
    """An extender that agrees with everything."""
    line = [sys.executable, "-m", "benchmarks.cluster.agreeing", str(port)]
    return Contender("agreeing", line, folder)


def _configuration(folder: Path, name: str, more: Mapping[str, Any]) -> Path:
    """A KubeSchedulerConfiguration without election, as JSON."""
    path = folder / f"{name}.yaml"
    content = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        **more,
    }
    path.write_text(json.dumps(content))
    return path


def _ours(command: str, config: Path, kubeconfig: Path, folder: Path, *more: str) -> Contender:
    # Not in the run's folder: as root Postgres runs under another account, which has to get there.
    data = f"/var/tmp/eventsched-bench-{os.getpid()}-{time.time_ns()}"
    line = [
        sys.executable, "-m", "eventsched", command, f"--config={config}",
        f"--kubeconfig={kubeconfig}", f"--data-dir={data}", "--secure-port=0", *more,
    ]  # fmt: skip
    return Contender("eventsched", line, folder, data)


def _database(data: str) -> set[int]:
    """The processes of the Postgres whose data are in a folder."""
    found = set()
    for entry in _processes():
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue  # it has ended meanwhile
        if b"postgres" in words[0] and any(word.startswith(data.encode()) for word in words[1:]):
            found.add(int(entry.name))
    return _family(found)


def _family(roots: set[int]) -> set[int]:
    """Processes and all that come from them."""
    children: dict[int, list[int]] = {}
    for entry in _processes():
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended meanwhile
        children.setdefault(int(fields[1]), []).append(int(entry.name))
    found = list(roots)
    for each in found:
        found += children.get(each, [])
    return set(found)


def _processes() -> list[Path]:
    return [entry for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def cpu_of(pid: int) -> float:
    """CPU seconds of a process and its children that have ended; 0 if the process itself has
    ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(int(fields[n]) for n in (11, 12, 13, 14)) / _TICKS


def _peak(pid: int) -> float:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM")), 0.0)
