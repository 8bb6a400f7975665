"""Which dynamic shared memory the embedded Postgres uses.

Postgres keeps its statistics and what parallel queries share in POSIX shared memory, which on Linux
is a file in /dev/shm. Containers often have little of it: Docker gives 64 MB. Without any, not even
initdb ends well; with little, parallel queries fail now and then with "could not resize shared
memory segment". Memory-mapped files in the data folder do as well, for some more writing.
"""

import os
import sys
from pathlib import Path

PLACE = Path("/dev/shm")
ENOUGH = 256 * 1024 * 1024
"""Free bytes in PLACE from which on it is used: some parallel hash joins at a time, each with up to
work_mem times hash_mem_multiplier for each of its processes (24 MB as Postgres is delivered)."""


def settings() -> dict[str, str]:
    """The Postgres settings that the machine asks for; none where its default is fine."""
    if sys.platform != "linux" or _free(PLACE) >= ENOUGH:
        return {}
    return {"dynamic_shared_memory_type": "mmap"}


def _free(place: Path) -> int:
    try:
        status = os.statvfs(place)
    except OSError:  # there is none, or it is closed to us
        return 0
    return status.f_bavail * status.f_frsize
