"""Removes what a run of the nodes leaves behind: processes, cgroups, links, folders. All of it has
fixed names, and one run at a time may have them.

A run starts it as a process of its own, which sweeps when the run is over, however that was; it
holds the run's lock until it is done. ``python -m tests.kubelet.harness.sweeper`` (``make
clean-kubelet``) sweeps if that process was killed, too.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Self

from tests.kubelet.harness import cache

CGROUP = "eventsched-kubelet"
LINKS = "evs-node-"
"""What the names of links begin with."""
FOLDERS = ("run", "import")
"""Folders of a run in the cache: programs that work there are ended."""
_WAIT_SECONDS = 30.0
"""Seconds for processes to be gone."""
_ROOT = Path(__file__).resolve().parents[3]
_SWEEP = "--when-input-ends"


class Sweeper:
    """The process that sweeps after this one."""

    def __init__(self, lock: int) -> None:
        """``lock`` is the file that the run has locked."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.kubelet.harness.sweeper", _SWEEP],
            stdin=subprocess.PIPE,
            cwd=_ROOT,
            pass_fds=[lock],
            start_new_session=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Sweeps, and waits until it is done."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(180)


def sweep() -> list[str]:
    """Removes everything, and returns what there was, in words."""
    found: list[str] = []
    for pid in {*_workers(), *_members()}:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            found.append(f"process {pid}")
    deadline = time.monotonic() + _WAIT_SECONDS
    while ({*_workers(), *_members()}) and time.monotonic() < deadline:
        time.sleep(0.05)
    for folder in _cgroups():
        with suppress(OSError):  # one that still has processes stays
            folder.rmdir()
            found.append(f"cgroup {folder}")
    for link in Path("/sys/class/net").glob(f"{LINKS}*"):
        subprocess.run(["ip", "link", "delete", link.name], check=False, timeout=60)
        found.append(f"link {link.name}")
    for path in _leftovers():
        with suppress(FileNotFoundError):
            cache.remove(path)
            found.append(f"folder {path}")
    return found


def _workers() -> Iterator[int]:
    """First processes of nodes, and importing containerds: they name a file in a run's folder."""
    folders = [f"{cache.place() / name}/".encode() for name in FOLDERS]
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            arguments = path.read_bytes().split(b"\0")
            words = [argument.rpartition(b"=")[2] for argument in arguments]
            if any(word.startswith(folder) for word in words for folder in folders):
                yield int(path.parent.name)


def _members() -> Iterator[int]:
    """Processes of containers."""
    for folder in _cgroups():
        with suppress(OSError):
            yield from map(int, (folder / "cgroup.procs").read_text().split())


def _cgroups() -> list[Path]:
    """Those of nodes and their pods, the innermost first."""
    top = Path("/sys/fs/cgroup")
    roots = [top / CGROUP, *top.glob(f"*/{CGROUP}")]
    found = [path for root in roots for path in (root, *root.rglob("*")) if path.is_dir()]
    return sorted(found, key=lambda path: len(path.parts), reverse=True)


def _leftovers() -> list[Path]:
    place = cache.place()
    halves = [*place.glob("*/*.half"), *place.glob("tmp*")]
    return [path for path in [*halves, *(place / name for name in FOLDERS)] if path.exists()]


def _main() -> None:
    if sys.argv[1:] == [_SWEEP]:
        for ending in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(ending, signal.SIG_IGN)  # the run's end is its end, and nothing else
        sys.stdin.read()
        sweep()
    elif not cache.is_free():
        sys.exit("a run is under way: nothing was removed")
    else:
        print("\n".join(sweep()) or "nothing is left behind")


if __name__ == "__main__":
    _main()
