"""The server of ``eventsched extender``: questions one after the other, hundreds a second.

It is aiohttp's, which is here anyway for the API server and whose parser is compiled: with a
thousand names of nodes a question costs it 0.25 ms, and 0.45 to 0.6 ms what serves the other pages
(``server.py``).
"""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import NamedTuple

from aiohttp import StreamReader, web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http_parser import RawRequestMessage
from aiohttp.web_protocol import RequestHandler

LONGEST = 256 * 2**20
"""Bytes that a body may have: 15,000 whole nodes come to about 150 MB."""
MOST = 512
"""Connections at a time; the oldest makes way for the newest."""
PATIENCE = 10.0
"""Seconds that a connection may take for its handshake, and for a body."""
IDLE = 120.0
"""Seconds that a connection may wait for the next request. Go's clients give theirs up after 90:
whoever closes first at the same moment as the other asks makes that question fail."""
_END = 5.0
"""Seconds that questions under way get when the server ends."""


class Asked(NamedTuple):
    """A request."""

    method: str
    path: str
    body: bytes


class Answer(NamedTuple):
    """Status, body, and whether the body is JSON; ``last`` ends the connection, so that the next
    question may reach another server."""

    status: HTTPStatus
    body: bytes
    is_json: bool = False
    last: bool = False


Handle = Callable[[Asked], Awaitable[Answer]]
"""Answers a request; raises nothing but what is a defect."""


class _Server(web.Server):
    """Lets the oldest connection go where there are too many."""

    def connection_made(self, handler: RequestHandler, transport: asyncio.Transport) -> None:
        super().connection_made(handler, transport)
        if len(self.connections) > MOST:
            self.connections[0].force_close()


async def _answer(request: web.BaseRequest, handle: Handle) -> Answer:
    try:
        async with asyncio.timeout(PATIENCE):
            body = await request.read()
    except TimeoutError:
        return Answer(HTTPStatus.REQUEST_TIMEOUT, b"the body does not come\n", last=True)
    except web.HTTPRequestEntityTooLarge:
        said = f"a request has at most {LONGEST} bytes\n"
        return Answer(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, said.encode(), last=True)
    return await handle(Asked(request.method, request.path, body))


@asynccontextmanager
async def accepting(
    listening: socket.socket, tls: ssl.SSLContext | None, handle: Handle
) -> AsyncIterator[None]:
    """Answers while the block runs, with ``tls`` where it is given; then what is under way gets
    some seconds."""
    loop = asyncio.get_running_loop()

    def request(
        message: RawRequestMessage,
        payload: StreamReader,
        protocol: RequestHandler,
        writer: AbstractStreamWriter,
        task: "asyncio.Task[None]",
    ) -> web.BaseRequest:
        return web.BaseRequest(
            message, payload, protocol, writer, task, loop, client_max_size=LONGEST
        )

    async def respond(request: web.BaseRequest) -> web.StreamResponse:
        answer = await _answer(request, handle)
        kind = "application/json" if answer.is_json else "text/plain"
        response = web.Response(body=answer.body, status=answer.status, content_type=kind)
        if answer.last:
            response.force_close()
        return response

    server = _Server(
        respond,
        request_factory=request,
        access_log=None,
        keepalive_timeout=IDLE,
        auto_decompress=False,
    )
    patience = None if tls is None else PATIENCE
    accepted = await loop.create_server(
        server, sock=listening, ssl=tls, ssl_handshake_timeout=patience,
        ssl_shutdown_timeout=patience,
    )  # fmt: skip
    try:
        yield
    finally:
        accepted.close()
        server.pre_shutdown()
        await server.shutdown(_END)
