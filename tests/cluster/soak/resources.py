"""A small disk for Postgres that can be full, and memory that a process has no more of. Both need
root; without it they are absent, and the soak says so."""

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.waiting import until

_MEMORY_V1 = Path("/sys/fs/cgroup/memory")
_MEMORY_V2 = Path("/sys/fs/cgroup")
_LIMIT = 256 * 1024
"""Bytes that a process may still take: the next pages that it touches are too many."""
_SIZE = "4g"


class SmallDisk:
    """A tmpfs in a folder that the account which runs Postgres can enter; an ordinary folder if it
    cannot be mounted (``can_be_full``)."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="evs-soak-", dir="/var/tmp"))
        command = [
            "mount",
            "-t",
            "tmpfs",
            "-o",
            f"size={_SIZE},mode=0755",
            "tmpfs",
            str(self.folder),
        ]
        done = subprocess.run(command, capture_output=True, check=False, timeout=30)
        self.can_be_full = done.returncode == 0
        self.folder.chmod(0o755)

    def fill(self) -> None:
        """From now on there is no space for another page."""

        def is_full() -> bool:
            found = os.statvfs(self.folder)
            used = (found.f_blocks - found.f_bfree) * found.f_frsize
            with suppress(subprocess.CalledProcessError):  # more was written just then
                self._resize(str(used))
                return True
            return False

        until(is_full, "a full disk", 10.0)

    def empty(self) -> None:
        """There is space again."""
        self._resize(_SIZE)

    def close(self) -> None:
        """Removes it with everything in it."""
        if self.can_be_full:
            subprocess.run(["umount", "--lazy", self.folder], check=True, timeout=30)
            self.folder.rmdir()

    def _resize(self, size: str) -> None:
        command = ["mount", "-o", f"remount,size={size}", str(self.folder)]
        subprocess.run(command, check=True, capture_output=True, timeout=30)


def memory_can_be_limited() -> bool:
    """Whether this process may make a cgroup with a limit of memory, of version 1 or 2."""
    with suppress(OSError), _cgroup():
        return True
    return False


@contextmanager
def out_of_memory(pid: int) -> Iterator[None]:
    """A process gets no more memory: the kernel kills it when it asks for some. It has to have
    ended at the end of the block."""
    with _cgroup() as group:
        with suppress(ProcessLookupError):  # it has just ended by itself
            (group / "cgroup.procs").write_text(str(pid))
        yield


@contextmanager
def _cgroup() -> Iterator[Path]:
    """What its processes had before is not counted."""
    is_first = (_MEMORY_V1 / "memory.limit_in_bytes").exists()
    group = (_MEMORY_V1 if is_first else _MEMORY_V2) / f"eventsched-soak-{os.getpid()}"
    group.mkdir()
    try:
        limit = group / ("memory.limit_in_bytes" if is_first else "memory.max")
        limit.write_text(str(_LIMIT))
        yield group
    finally:
        group.rmdir()
