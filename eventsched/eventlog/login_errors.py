"""Whether a failed login is permanent, by SQLSTATE.

For a failed connection libpq returns only the message, in the server's language. The SQLSTATE is in
the server's response but not in libpq's API, so the connection is tried once more with libpq's
protocol trace enabled (libpq 18 or newer, on Linux; elsewhere the SQLSTATE is unknown).
"""

import os
import re
import select
import time
from functools import lru_cache

import psycopg
from psycopg import pq

from eventsched.eventlog.addresses import libpq_url

_SEPARATOR = ":  "
"""libpq puts it between severity and text of a server's error, in every language
(fe-protocol3.c, pqBuildErrorMessage3). A message without it is not from the server."""
_PERMANENT = ("28", "3D000", "42501")
"""Beginnings of SQLSTATEs: unknown user, wrong password or no line in pg_hba.conf (class 28);
unknown database; no privilege to connect to it."""
_SQLSTATE = re.compile(rb'ErrorResponse\t S "[^"]*" V "[^"]*" C "(\w{5})"')
_CONNECT_LIMIT = 5.0
"""Seconds for the traced connection."""
_TRACE_INTERVAL = 60.0
"""Seconds between two traced connections: each leaks the buffer of its trace."""


def is_permanent(address: str, message: str) -> bool:
    """Whether an operator has to change something before this user can log in. ``message`` is
    libpq's message of the failed connection."""
    if _SEPARATOR not in message:
        return False
    return _sqlstate(address, message, time.monotonic() // _TRACE_INTERVAL).startswith(_PERMANENT)


@lru_cache(maxsize=16)
def _sqlstate(address: str, message: str, interval: float) -> str:
    """The SQLSTATE of a new login; "" if it succeeds, gets no answer, or cannot be traced.
    ``message`` and ``interval`` are part of the cache's key only."""
    read_end, write_end = os.pipe()
    try:
        for end in (read_end, write_end):
            os.set_blocking(end, False)
        _connect_traced(address, write_end)
        states: list[bytes] = _SQLSTATE.findall(os.read(read_end, 2**16))
    except (psycopg.Error, BlockingIOError):  # libpq cannot trace; nothing was traced
        return ""
    finally:
        os.close(read_end)
        os.close(write_end)
    return states[-1].decode() if states else ""


def _connect_traced(address: str, trace: int) -> None:
    """Connects and closes again; writes libpq's protocol trace to the file descriptor."""
    pgconn = pq.PGconn.connect_start(libpq_url(address).encode())
    try:
        pgconn.trace(trace)
        deadline = time.monotonic() + _CONNECT_LIMIT
        while (state := pgconn.connect_poll()) in _EVENTS:
            poll = select.poll()
            poll.register(pgconn.socket, _EVENTS[pq.PollingStatus(state)])
            if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
                return
    finally:
        pgconn.untrace()
        pgconn.finish()


_EVENTS = {
    pq.PollingStatus.READING: select.POLLIN,
    pq.PollingStatus.WRITING: select.POLLOUT,
}
