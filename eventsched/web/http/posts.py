"""The server of ``eventsched extender``: questions one after the other, hundreds a second.

It is aiohttp's, which is here anyway for the API server and whose parser is compiled: with a
thousand names of nodes a question costs it 0.25 ms, and 0.45 to 0.6 ms what serves the other pages
(``https_server.py``).
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
from eventsched.web.http.descriptors import MOST
from eventsched.web.http.listener import Connection, Listener

LONGEST = 256 * 2**20
"""Bytes that a body may have: 15,000 whole nodes come to about 150 MB."""
IDLE = 120.0
"""Seconds that a connection may wait for the next request. Go's clients give theirs up after 90:
whoever closes first at the same moment as the other asks makes that question fail."""
_END = 5.0
"""Seconds that questions under way get when the server ends."""
_LINGER = 1.0
"""Seconds for which the rest of a body is read that was refused, so that the client sees why."""

logger = structlog.get_logger()


class PostedRequest(NamedTuple):
    """A request."""

    method: str
    path: str
    body: bytes


class PostAnswer(NamedTuple):
    """Status, body, and whether the body is JSON; ``last`` ends the connection, so that the next
    question may reach another server."""

    status: HTTPStatus
    body: bytes
    is_json: bool = False
    last: bool = False


Handle = Callable[[PostedRequest], Awaitable[PostAnswer]]
"""Answers a request; raises nothing but what is a defect."""


class _Protocol(web.RequestHandler):
    """aiohttp's protocol, which says to the listener at which stage its connection is."""

    __slots__ = ("connection",)

    def __init__(self, connection: Connection, server: web.Server) -> None:
        super().__init__(
            server,
            loop=asyncio.get_running_loop(),
            access_log=None,  # type: ignore[arg-type]
            keepalive_timeout=IDLE,
            lingering_time=_LINGER,
            auto_decompress=False,
        )
        self.connection = connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Waits for a request."""
        super().connection_made(transport)
        assert isinstance(transport, asyncio.Transport)
        self.connection.made(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Forgets it."""
        self.connection.lost()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Takes in a part of a request."""
        if not self.connection.answers:
            self.connection.receiving()
        super().data_received(data)

    def pause_writing(self) -> None:
        """The client does not read."""
        super().pause_writing()
        self.connection.blocked()

    def resume_writing(self) -> None:
        """It does again."""
        super().resume_writing()
        self.connection.unblocked()

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """Sends an answer; then waits for the next request."""
        try:
            return await super().finish_response(request, resp, start_time)
        finally:
            self.connection.answered(IDLE)

    def log_exception(self, *args: Any, **kw: Any) -> None:
        """What cannot be read is the client's mistake, and no more than that."""
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
        async with asyncio.timeout(listener.PATIENCE):
            body = await request.read()
    except TimeoutError:
        return PostAnswer(HTTPStatus.REQUEST_TIMEOUT, b"the body does not come\n", last=True)
    except RequestPayloadError:
        return PostAnswer(HTTPStatus.BAD_REQUEST, b"the body cannot be read\n", last=True)
    except web.HTTPRequestEntityTooLarge:
        said = f"a request has at most {LONGEST} bytes\n"
        return PostAnswer(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, said.encode(), last=True)
    connection.answering()
    return await handle(PostedRequest(request.method, request.path, body))


@asynccontextmanager
async def serve(
    listening: socket.socket,
    tls: ssl.SSLContext | None,
    handle: Handle,
    most: int = MOST,
) -> AsyncIterator[None]:
    """Answers while the block runs, with ``tls`` where it is given, at most ``most`` connections at
    a time; then what is under way gets some seconds."""
    loop = asyncio.get_running_loop()

    def request(
        message: RawRequestMessage,
        payload: StreamReader,
        protocol: web.RequestHandler,
        writer: AbstractStreamWriter,
        task: "asyncio.Task[None]",
    ) -> web.BaseRequest:
        return web.BaseRequest(
            message, payload, protocol, writer, task, loop, client_max_size=LONGEST
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
    accepted = Listener(listening, tls, most, lambda connection: _Protocol(connection, server))
    accepted.start()
    try:
        yield
    finally:
        accepted.close()
        server.pre_shutdown()
        await server.shutdown(_END)
        accepted.drop_all()
