"""Whether a server that does not let us in ever will, by SQLSTATE.

Of an error of connecting libpq hands out the words alone, and these are in the server's language.
The SQLSTATE stands beside them in the server's message, which one more try, traced, shows (libpq 18
or newer, on Linux; elsewhere nothing is known).
"""

import os
import re
import select
import time
from functools import lru_cache

import psycopg
from psycopg import pq

from eventsched.eventlog.addresses import libpq_url

_ANSWERED = ":  "
"""Stands between severity and words of what a server says, in every language (libpq
fe-protocol3.c, pqBuildErrorMessage3)."""
_FINAL = ("28", "3D000", "42501")
"""What the SQLSTATE begins with: no such user, a wrong password, no line for it in pg_hba.conf; no
such database; no right to connect to it."""
_CODE = re.compile(rb'ErrorResponse\t S "[^"]*" V "[^"]*" C "(\w{5})"')
_LIMIT = 5.0
"""Seconds for the try."""
_PAUSE = 60.0
"""Seconds between two tries: each leaves the buffer of its trace behind."""


def is_closed(address: str, said: str) -> bool:
    """Whether somebody has to change something before this user gets in. ``said`` is libpq's word
    of a connection that did not come about."""
    if _ANSWERED not in said:
        return False
    return _sqlstate(address, said, time.monotonic() // _PAUSE).startswith(_FINAL)


@lru_cache(maxsize=16)
def _sqlstate(address: str, said: str, minute: float) -> str:
    """The server's last word now; "" where it lets us in, says nothing, or is not understood."""
    reading, writing = os.pipe()
    try:
        for end in (reading, writing):
            os.set_blocking(end, False)
        _try(address, writing)
        found: list[bytes] = _CODE.findall(os.read(reading, 2**16))
    except (psycopg.Error, BlockingIOError):  # libpq cannot trace; nothing was traced
        return ""
    finally:
        os.close(reading)
        os.close(writing)
    return found[-1].decode() if found else ""


def _try(address: str, trace: int) -> None:
    """Connects, and writes down what is said on the way."""
    pgconn = pq.PGconn.connect_start(libpq_url(address).encode())
    try:
        pgconn.trace(trace)
        deadline = time.monotonic() + _LIMIT
        while (state := pgconn.connect_poll()) in _EVENTS:
            waiting = select.poll()
            waiting.register(pgconn.socket, _EVENTS[pq.PollingStatus(state)])
            if not waiting.poll(max(0.0, deadline - time.monotonic()) * 1000):
                return
    finally:
        pgconn.untrace()
        pgconn.finish()


_EVENTS = {
    pq.PollingStatus.READING: select.POLLIN,
    pq.PollingStatus.WRITING: select.POLLOUT,
}
