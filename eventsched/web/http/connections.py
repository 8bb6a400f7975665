"""HTTP on one connection of the pages: uvicorn's protocol. It reports the stage of its connection
to the listener. It refuses requests that a proxy in front could read in another way.
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
        """The connection is open; a request is expected."""
        super().connection_made(transport)
        self._connection.made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is closed: the listener stops counting it."""
        self._connection.lost()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Receives a part of a request."""
        self._connection.receiving()
        super().data_received(data)
        self._report_complete_request()

    def on_response_complete(self) -> None:
        """The response is sent. If the whole request was read, the client may send the next one;
        otherwise the rest of its body is still expected."""
        if self.conn.their_state is not h11.SEND_BODY:
            self._connection.answered(listener.TRANSFER_SECONDS)
        super().on_response_complete()
        self._report_complete_request()

    def pause_writing(self) -> None:
        """The client does not read."""
        super().pause_writing()
        self._connection.blocked()

    def resume_writing(self) -> None:
        """The client reads again."""
        super().resume_writing()
        self._connection.unblocked()

    def send_400_response(self, msg: str) -> None:
        """A request cannot be parsed. Sends 400 if no response has begun; otherwise closes the
        connection. (A response may even be complete: then the rest of the body is malformed.)"""
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if self.conn.our_state is h11.IDLE or self.conn.our_state is h11.SEND_RESPONSE:
            super().send_400_response(msg)
        else:
            self.transport.close()

    def _report_complete_request(self) -> None:
        """Notifies the listener once the request is complete."""
        if self.conn.their_state not in (h11.IDLE, h11.SEND_BODY):
            self._connection.answering()
