"""How many clients the ports may have, by the file descriptors that the process may open.

The API server, the database and files come first: a part is kept for them, and the ports share
the rest. So no number of clients keeps the scheduler from its work.
"""

import resource
from typing import NamedTuple

MOST = 512
"""Connections of a port at a time."""
RESERVE = 256
"""Descriptors that are kept for the database, files, watches and what libraries open."""


class Descriptors(NamedTuple):
    """``limit`` is the process's (RLIMIT_NOFILE), ``reserved`` is what clients never get, and
    ``connections`` is what each port may have."""

    limit: int
    reserved: int
    connections: int

    @property
    def are_few(self) -> bool:
        """Whether less had to be reserved than is wanted."""
        return self.reserved < RESERVE


def shared(ports: int, requests: int) -> Descriptors:
    """Divides the descriptors, ``requests`` of which may be needed for the API server at a time.
    Raises the soft limit before as far as that is of use, and as the hard limit allows."""
    wanted = RESERVE + requests + ports * MOST
    limit = _raised(wanted)
    reserved = min(RESERVE + requests, limit // 2)
    each = (limit - reserved) // max(1, ports)
    return Descriptors(limit, reserved, max(1, min(MOST, each)))


def _raised(wanted: int) -> int:
    """The soft limit, after it was raised to what is wanted if that may be had."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return wanted
    target = wanted if hard == resource.RLIM_INFINITY else min(hard, wanted)
    if soft >= target:
        return soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))
    except (ValueError, OSError):  # some systems have lower limits of their own
        return soft
    return target
