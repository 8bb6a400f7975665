"""A pool whose connections are closed when the pool is closed.

aiohttp's pool misses some TLS connections. In older Pythons an abandoned one stays open
(python/cpython#118960). If a handshake ends at the moment its request is cancelled, only asyncio
knows the connection, and asyncio closes it late.
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
_CLOSE_TIMEOUT = 1.0
"""Seconds that ``close`` waits for connections that were shut down."""
_POLL_INTERVAL = 0.001
"""Seconds."""


def connect_failure(error: aiohttp.ClientConnectorError) -> str:
    """Why a connection failed, for people. aiohttp's own messages show Python objects."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return f"its certificate is not accepted: {error.certificate_error}"
    cause = error.os_error
    if isinstance(cause, ssl.SSLError):  # its number is not an errno
        return cause.reason or str(cause)
    if cause.errno is not None and cause.errno > 0:  # asyncio replaces the system's message
        return os.strerror(cause.errno)
    return cause.strerror or str(cause) or type(cause).__name__


def _plain(address: aiohttp.AddrInfoType) -> socket.socket:
    return socket.socket(*address[:3])


class Connector(aiohttp.TCPConnector):
    """aiohttp's connection pool for a session. When ``close`` returns, all connections are closed,
    including those that are in use or were abandoned."""

    def __init__(self, *, socket_factory: SocketFactory = _plain, **options: Any) -> None:
        """``options`` are those of ``aiohttp.TCPConnector``."""
        self._sockets: WeakSet[socket.socket] = WeakSet()
        self._make = socket_factory
        super().__init__(**options, enable_cleanup_closed=_LEFT_OPEN, socket_factory=self._new)

    def _new(self, address: aiohttp.AddrInfoType) -> socket.socket:
        new_socket = self._make(address)
        self._sockets.add(new_socket)
        return new_socket

    async def close(self, *, abort_ssl: bool = False) -> None:
        """Closes all connections, within a second."""
        await super().close(abort_ssl=abort_ssl)
        for open_socket in self._sockets:
            with suppress(OSError):  # it is closed already, or not connected yet
                open_socket.shutdown(socket.SHUT_RDWR)
        clock = asyncio.get_running_loop().time
        until = clock() + _CLOSE_TIMEOUT
        while any(open_socket.fileno() >= 0 for open_socket in self._sockets) and clock() < until:
            await asyncio.sleep(_POLL_INTERVAL)
