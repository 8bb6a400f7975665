"""The HTTP server of ``eventsched extender``: hundreds of POST requests a second.

It is aiohttp's server, because aiohttp is loaded anyway and its parser is compiled. A request with
a thousand node names costs 0.25 ms, against 0.45 to 0.6 ms on the server of the pages
(``https_server.py``; ADR 20).
"""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any, NamedTuple

import structlog
from aiohttp import StreamReader, web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.http_parser import RawRequestMessage
from aiohttp.web import RequestPayloadError

from eventsched.web.http import listener
from eventsched.web.http.descriptors import MAX_CONNECTIONS
from eventsched.web.http.listener import Connection, Listener

MAX_BODY_BYTES = 256 * 2**20
"""Largest body in bytes; 15,000 complete nodes have about 150 MB."""
IDLE_SECONDS = 120.0
"""Seconds that a connection may wait for the next request. Longer than the 90 s of Go's clients: a
request fails if the server closes the connection at the moment it is sent."""
_END_SECONDS = 5.0
"""Seconds that requests in flight get when the server stops."""
_LINGER_SECONDS = 1.0
"""Seconds for which the rest of a refused body is read, so that the client sees the answer."""

logger = structlog.get_logger()


class PostedRequest(NamedTuple):
    """A request."""

    method: str
    path: str
    body: bytes


class PostAnswer(NamedTuple):
    """``last`` closes the connection: the next request can then reach another server."""

    status: HTTPStatus
    body: bytes
    is_json: bool = False
    last: bool = False


Handle = Callable[[PostedRequest], Awaitable[PostAnswer]]
"""Answers a request. An exception is a defect."""


class _Protocol(web.RequestHandler):
    """aiohttp's protocol; it reports the stage of its connection to the listener."""

    __slots__ = ("connection",)

    def __init__(self, connection: Connection, server: web.Server) -> None:
        super().__init__(
            server,
            loop=asyncio.get_running_loop(),
            access_log=None,  # type: ignore[arg-type]
            keepalive_timeout=IDLE_SECONDS,
            lingering_time=_LINGER_SECONDS,
            auto_decompress=False,
        )
        self.connection = connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Starts waiting for a request."""
        super().connection_made(transport)
        assert isinstance(transport, asyncio.Transport)
        self.connection.made(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Notifies the listener."""
        self.connection.lost()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Receives a part of a request."""
        if not self.connection.answers:
            self.connection.receiving()
        super().data_received(data)

    def pause_writing(self) -> None:
        """The client does not read."""
        super().pause_writing()
        self.connection.blocked()

    def resume_writing(self) -> None:
        """The client reads again."""
        super().resume_writing()
        self.connection.unblocked()

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """Sends an answer; then waits for the next request."""
        try:
            return await super().finish_response(request, resp, start_time)
        finally:
            self.connection.answered(IDLE_SECONDS)

    def log_exception(self, *args: Any, **kw: Any) -> None:
        """A malformed request is the client's error: logged at debug only."""
        problem = kw.get("exc_info")
        if isinstance(problem, HttpProcessingError | RequestPayloadError | ConnectionError):
            logger.debug("a request cannot be read", reason=str(problem))
        else:
            super().log_exception(*args, **kw)


async def _answer(request: web.BaseRequest, connection: Connection, handle: Handle) -> PostAnswer:
    if {"Content-Length", "Transfer-Encoding"} <= request.headers.keys():
        return PostAnswer(HTTPStatus.BAD_REQUEST, b"two lengths of a body\n", last=True)
    connection.untimed()
    try:
        async with asyncio.timeout(listener.TRANSFER_SECONDS):
            body = await request.read()
    except TimeoutError:
        return PostAnswer(HTTPStatus.REQUEST_TIMEOUT, b"the body does not come\n", last=True)
    except RequestPayloadError:
        return PostAnswer(HTTPStatus.BAD_REQUEST, b"the body cannot be read\n", last=True)
    except web.HTTPRequestEntityTooLarge:
        problem = f"a request has at most {MAX_BODY_BYTES} bytes\n"
        return PostAnswer(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, problem.encode(), last=True)
    connection.answering()
    return await handle(PostedRequest(request.method, request.path, body))


@asynccontextmanager
async def serve(
    listening_socket: socket.socket,
    tls: ssl.SSLContext | None,
    handle: Handle,
    most: int = MAX_CONNECTIONS,
) -> AsyncIterator[None]:
    """Serves while the block runs, with at most ``most`` connections at a time; with ``tls`` over
    HTTPS. Afterwards requests in flight get a few seconds."""
    loop = asyncio.get_running_loop()

    def request(
        message: RawRequestMessage,
        payload: StreamReader,
        protocol: web.RequestHandler,
        writer: AbstractStreamWriter,
        task: "asyncio.Task[None]",
    ) -> web.BaseRequest:
        return web.BaseRequest(
            message, payload, protocol, writer, task, loop, client_max_size=MAX_BODY_BYTES
        )

    async def respond(request: web.BaseRequest) -> web.StreamResponse:
        protocol = request.protocol
        assert isinstance(protocol, _Protocol)
        answer = await _answer(request, protocol.connection, handle)
        kind = "application/json" if answer.is_json else "text/plain"
        response = web.Response(body=answer.body, status=answer.status, content_type=kind)
        if answer.last:
            response.force_close()
        return response

    server = web.Server(respond, request_factory=request)
    port_listener = Listener(
        listening_socket, tls, most, lambda connection: _Protocol(connection, server)
    )
    port_listener.start()
    try:
        yield
    finally:
        port_listener.close()
        server.pre_shutdown()
        await server.shutdown(_END_SECONDS)
        port_listener.drop_all()
