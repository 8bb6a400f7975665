"""Connections that are closed when their client is.

aiohttp's own loses some of those with TLS: one that was given up stays open in older Pythons
(python/cpython#118960), and one whose handshake ends in the very moment in which its request is
given up is known to asyncio alone, which takes its leave of the server in its own time.
"""

import asyncio
import os
import socket
import ssl
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from weakref import WeakSet

import aiohttp

SocketFactory = Callable[[aiohttp.AddrInfoType], socket.socket]

_LEFT_OPEN = sys.version_info < (3, 12, 8)
_FAREWELL = 1.0
"""Seconds within which connections that were cut have to be closed."""
_LOOK = 0.001
"""Seconds."""


def connect_failure(error: aiohttp.ClientConnectorError) -> str:
    """Why no connection came about, for people. aiohttp's own words show Python objects."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return f"its certificate is not accepted: {error.certificate_error}"
    cause = error.os_error
    if isinstance(cause, ssl.SSLError):  # its number is none of the system's
        return cause.reason or str(cause)
    if cause.errno is not None and cause.errno > 0:  # asyncio has words of its own for it
        return os.strerror(cause.errno)
    return cause.strerror or str(cause) or type(cause).__name__


def _plain(address: aiohttp.AddrInfoType) -> socket.socket:
    return socket.socket(*address[:3])


class Connector(aiohttp.TCPConnector):
    """aiohttp's pool of connections for a session. When its ``close`` returns all are closed, also
    those that it had handed out or given up."""

    def __init__(self, *, socket_factory: SocketFactory = _plain, **options: Any) -> None:
        """All are aiohttp's."""
        self._made: WeakSet[socket.socket] = WeakSet()
        self._make = socket_factory
        super().__init__(**options, enable_cleanup_closed=_LEFT_OPEN, socket_factory=self._new)

    def _new(self, address: aiohttp.AddrInfoType) -> socket.socket:
        made = self._make(address)
        self._made.add(made)
        return made

    async def close(self, *, abort_ssl: bool = False) -> None:
        """Closes all connections, within a second."""
        await super().close(abort_ssl=abort_ssl)
        for each in self._made:
            with suppress(OSError):  # it is closed already, or not connected yet
                each.shutdown(socket.SHUT_RDWR)
        clock = asyncio.get_running_loop().time
        until = clock() + _FAREWELL
        while any(each.fileno() >= 0 for each in self._made) and clock() < until:
            await asyncio.sleep(_LOOK)
