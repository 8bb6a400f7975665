"""Chooses the kind of dynamic shared memory for the embedded Postgres.

Postgres keeps its statistics and the shared data of parallel queries in POSIX shared memory, which
on Linux is a file in /dev/shm. Containers often have little of it: Docker's default is 64 MB.
Without any, even initdb fails; with little, parallel queries sometimes fail with "could not resize
shared memory segment". Memory-mapped files in the data folder work instead, with more disk writes.
"""

import os
import sys
from pathlib import Path

PLACE = Path("/dev/shm")
ENOUGH_BYTES = 256 * 1024 * 1024
"""The free bytes in PLACE that are required to use it: some concurrent parallel hash joins, each
with up to work_mem times hash_mem_multiplier per process (by default 24 MB)."""


def settings() -> dict[str, str]:
    """The Postgres settings for this machine; empty if the defaults work."""
    if sys.platform != "linux" or _free(PLACE) >= ENOUGH_BYTES:
        return {}
    return {"dynamic_shared_memory_type": "mmap"}


def _free(place: Path) -> int:
    try:
        status = os.statvfs(place)
    except OSError:  # it does not exist, or may not be read
        return 0
    return status.f_bavail * status.f_frsize
