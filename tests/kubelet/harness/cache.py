"""What lasts from one run to the next, in ``~/.cache/eventsched/kubelet``: images and filled
containerd folders, each under the digest of what it is made from. One run at a time uses it."""

import fcntl
import hashlib
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.waiting import until

LOCK_LIMIT = 3600.0
"""Seconds to wait for another run on this machine."""


def place() -> Path:
    """The folder; it exists."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = base / "eventsched" / "kubelet"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def digest(*parts: str | bytes) -> str:
    """A short name for what something is made from."""
    made = hashlib.sha256()
    for part in parts:
        content = part.encode() if isinstance(part, str) else part
        made.update(f"{len(content)}:".encode())
        made.update(content)
    return made.hexdigest()[:16]


def digest_of_files(folder: Path, names: Iterable[str], *parts: str) -> str:
    """Of files below a folder, with their modes, and of more."""
    found: list[str | bytes] = [*parts]
    for name in sorted(names):
        path = folder / name
        found += [f"{name} {path.stat().st_mode & 0o111:o}", path.read_bytes()]
    return digest(*found)


def once(path: Path, make: Callable[[Path], None]) -> Path:
    """The path, which ``make`` makes if it is missing: beside it, so that there is never half of
    it."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        half = path.with_name(f"{path.name}.half")
        remove(half)
        make(half)
        half.rename(path)
    return path


def remove(path: Path) -> None:
    """A file or a folder, if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


@contextmanager
def locked() -> Iterator[int]:
    """The file that one run at a time has locked. The lock lasts as long as any process has the
    file open, so the process that cleans up after a run inherits it."""
    lock = os.open(place() / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        until(lambda: _taken(lock), "the other run is over", LOCK_LIMIT, every=0.5)
        yield lock
    finally:
        os.close(lock)


def is_free() -> bool:
    """Whether no run is under way."""
    lock = os.open(place() / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        return _taken(lock)
    finally:
        os.close(lock)


def _taken(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
