"""Process 1 of a node: ``unshare`` runs it by path in namespaces of its own (processes, mounts,
network, host name), so that everything the node has started, mounted and configured ends with it,
however it ends. It needs only the standard library.

It starts containerd, kube-proxy and kubelet, starts them again when they end, and reaps the
processes of containers.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

Spec = Mapping[str, Any]
"""As ``nodes.Node`` writes it."""

LIMIT = 120.0
"""Seconds that each step may take."""


def main(spec: Spec) -> None:
    """Prepares the node, then runs its programs until it is killed."""
    socket.sethostname(spec["name"])
    for source, target in spec["mounts"].items():
        _run("mount", "--bind", source, target)
    _run("mount", "--make-rshared", "/")
    _wait(lambda: all(Path(f"/proc/sys/net/ipv4/conf/{link}").exists() for link in spec["links"]))
    for command in spec["network"]:
        _run(*command)
    for name, value in spec["settings"].items():
        Path("/proc/sys", name.replace(".", "/")).write_text(value)
    _make_cgroups(spec["cgroup"])
    programs = dict(spec["programs"])
    running = {_start(spec, "containerd"): "containerd"}
    _wait(lambda: _answers(spec["socket"]))
    Path(spec["prepared"]).touch()
    _wait(lambda: Path(spec["go"]).exists())
    for name in programs:
        if name != "containerd":
            running[_start(spec, name)] = name
    while True:
        ended, _ = os.wait()
        if ended in running:
            name = running.pop(ended)
            print(f"{name} has ended", flush=True)
            time.sleep(1)  # one that cannot start must not use a processor
            running[_start(spec, name)] = name


def _start(spec: Spec, name: str) -> int:
    with _log(spec, name) as log:
        process = subprocess.Popen(
            spec["programs"][name],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    process.returncode = 0  # it is waited for with all others
    return process.pid


def _log(spec: Spec, name: str) -> IO[bytes]:
    return Path(spec["logs"], f"{spec['name']}-{name}.log").open("ab")


def _run(*command: str) -> None:
    subprocess.run(command, check=True, timeout=60)


def _wait(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LIMIT
    while not condition():
        if time.monotonic() > deadline:
            sys.exit(f"not within {LIMIT:g} s")
        time.sleep(0.05)


def _answers(path: str) -> bool:
    with socket.socket(socket.AF_UNIX) as tried:
        return tried.connect_ex(path) == 0


def _make_cgroups(name: str) -> None:
    """The node's own group in each hierarchy; below it kubelet puts its pods."""
    top = Path("/sys/fs/cgroup")
    if (top / "cgroup.controllers").exists():
        (top / name).mkdir(parents=True, exist_ok=True)
        for folder in (top, (top / name).parent, top / name):
            controllers = (folder / "cgroup.controllers").read_text().split()
            (folder / "cgroup.subtree_control").write_text(" ".join(f"+{c}" for c in controllers))
        return
    for hierarchy in top.iterdir():
        if hierarchy.is_dir() and not hierarchy.is_symlink():
            (hierarchy / name).mkdir(parents=True, exist_ok=True)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    main(json.loads(Path(sys.argv[1]).read_text()))
