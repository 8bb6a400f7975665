"""How many client connections each port may have, by the process's limit of file descriptors.

Some descriptors are reserved for the API server, the database and files. The ports share the rest.
So clients cannot stop the scheduler's work, however many they are.
"""

import resource
from typing import NamedTuple

MAX_CONNECTIONS = 512
"""Connections of a port at a time."""
RESERVED_DESCRIPTORS = 256
"""Descriptors that are reserved for the database, files, watches and libraries."""


class Descriptors(NamedTuple):
    """``limit`` is the process's (RLIMIT_NOFILE). ``reserved`` descriptors are never used for
    clients. Each port may have ``connections`` connections at a time."""

    limit: int
    reserved: int
    connections: int

    @property
    def are_few(self) -> bool:
        """Whether fewer descriptors are reserved than the scheduler should have."""
        return self.reserved < RESERVED_DESCRIPTORS


def shared(ports: int, requests: int) -> Descriptors:
    """Divides the descriptors between the scheduler and ``ports`` ports. At most ``requests``
    requests to the API server are under way at a time. If the soft limit is too low for all this,
    it is raised first, at most to the hard limit."""
    wanted = RESERVED_DESCRIPTORS + requests + ports * MAX_CONNECTIONS
    limit = _raised(wanted)
    reserved = min(RESERVED_DESCRIPTORS + requests, limit // 2)
    per_port = (limit - reserved) // max(1, ports)
    return Descriptors(limit, reserved, max(1, min(MAX_CONNECTIONS, per_port)))


def _raised(wanted: int) -> int:
    """Raises the soft limit to ``wanted``, or to the hard limit if that is lower. Returns the soft
    limit now in force."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return wanted
    target = wanted if hard == resource.RLIM_INFINITY else min(hard, wanted)
    if soft >= target:
        return soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))
    except (ValueError, OSError):  # some systems enforce a lower limit of their own
        return soft
    return target
