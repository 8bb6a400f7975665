"""HTTP on a connection of the pages: uvicorn's protocol, which says to the listener at which stage
its connection is, and refuses what a proxy in front could read in another way.
"""

import asyncio

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from eventsched.web.http import listener
from eventsched.web.http.listener import Connection


class Pages(H11Protocol):
    """The protocol on one connection."""

    def __init__(
        self, config: uvicorn.Config, server_state: ServerState, connection: Connection
    ) -> None:
        super().__init__(config=config, server_state=server_state, app_state={})
        self._connection = connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Waits for a request."""
        super().connection_made(transport)
        self._connection.made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forgets it."""
        self._connection.lost()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Takes in a part of a request."""
        self._connection.receiving()
        super().data_received(data)
        self._say()

    def on_response_complete(self) -> None:
        """Waits for the next request, or for what is missing of this one."""
        if self.conn.their_state is not h11.SEND_BODY:
            self._connection.answered(listener.PATIENCE)
        super().on_response_complete()
        self._say()

    def pause_writing(self) -> None:
        """The client does not read."""
        super().pause_writing()
        self._connection.blocked()

    def resume_writing(self) -> None:
        """It does again."""
        super().resume_writing()
        self._connection.unblocked()

    def send_400_response(self, msg: str) -> None:
        """For a request that cannot be read. Nothing more is said where an answer has begun, or is
        over and the rest of the request's body is what cannot be read."""
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if self.conn.our_state is h11.IDLE or self.conn.our_state is h11.SEND_RESPONSE:
            super().send_400_response(msg)
        else:
            self.transport.close()

    def _say(self) -> None:
        """Whether a request is whole now."""
        if self.conn.their_state not in (h11.IDLE, h11.SEND_BODY):
            self._connection.answering()
