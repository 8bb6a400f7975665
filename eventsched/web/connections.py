"""What a client may take of the server: a connection without a whole request ends after some
seconds, and where there are too many the oldest one makes way for the newest.

So nobody can keep a probe out by holding connections: kubelets probe over fresh ones.
"""

import asyncio
import socket
import ssl

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

MOST = 512
"""Connections at a time."""
PATIENCE = 10.0
"""Seconds that a connection may take for its handshake, and until a request is complete."""


class Connection(H11Protocol):
    """One connection. ``open_`` holds all of the server's, the oldest first."""

    def __init__(
        self, config: uvicorn.Config, server_state: ServerState, open_: "dict[Connection, None]"
    ) -> None:
        super().__init__(config=config, server_state=server_state, app_state={})
        self._open = open_
        self._overdue: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Lets the oldest go where there are too many."""
        super().connection_made(transport)
        self._open[self] = None
        if len(self._open) > MOST:
            next(iter(self._open)).drop()
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forgets it."""
        self._open.pop(self, None)
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Takes in a part of a request."""
        super().data_received(data)
        self._wait()

    def on_response_complete(self) -> None:
        """Waits for the next request."""
        super().on_response_complete()
        self._wait()

    def drop(self) -> None:
        """Ends it at once, whatever it is at."""
        self._open.pop(self, None)
        self._stop_waiting()
        self.transport.abort()

    def _wait(self) -> None:
        """What comes in pieces has no more time than what does not come."""
        if self.conn.their_state not in (h11.IDLE, h11.SEND_BODY):
            self._stop_waiting()
        elif self._overdue is None and self in self._open:
            self._overdue = self.loop.call_later(PATIENCE, self.drop)

    def _stop_waiting(self) -> None:
        if self._overdue is not None:
            self._overdue.cancel()
            self._overdue = None


async def accepting(
    server: uvicorn.Server, listening: socket.socket, tls: ssl.SSLContext | None
) -> asyncio.Server:
    """Begins to accept connections for a uvicorn server, with ``tls`` where it is given."""
    open_: dict[Connection, None] = {}
    patience = None if tls is None else PATIENCE
    return await asyncio.get_running_loop().create_server(
        lambda: Connection(server.config, server.server_state, open_),
        sock=listening,
        ssl=tls,
        ssl_handshake_timeout=patience,
        ssl_shutdown_timeout=patience,
    )
