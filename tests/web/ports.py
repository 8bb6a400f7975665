"""One port of each kind that eventsched listens on, and clients that send it raw bytes."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import urlsplit

from eventsched.web import extender_paths, pages
from eventsched.web.authorization import Reviews
from eventsched.web.http.descriptors import MAX_CONNECTIONS
from eventsched.web.http.https_server import Options, answering, serving
from eventsched.web.metrics import Metrics
from tests.web.facts import Facts, trusting

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
KINDS = ("pages over https", "pages over http", "extender over http", "extender over https")


@dataclass(frozen=True)
class Port:
    """A listening port. ``whole`` is a request that is answered 200 and keeps its connection open.
    ``half_body`` is a request whose body is incomplete."""

    number: int
    tls: ssl.SSLContext | None
    whole: bytes
    half_body: bytes

    async def connect(self) -> Streams:
        """A connection after its handshake."""
        return await asyncio.open_connection("127.0.0.1", self.number, ssl=self.tls)

    async def knock(self) -> Streams:
        """A connection that has not begun its handshake."""
        return await asyncio.open_connection("127.0.0.1", self.number)


PROBE = b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"
LEVEL = b"PUT /debug/flags/v HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nde"
QUESTION = b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\n{}  "


async def _agree(verb: str, body: bytes) -> tuple[int, bytes]:
    return HTTPStatus.OK, b"{}"


@asynccontextmanager
async def listening(
    kind: str,
    most: int = MAX_CONNECTIONS,
    review: Callable[[str, bytes], Awaitable[tuple[int, bytes]]] | None = None,
    ask: extender_paths.Ask = _agree,
) -> AsyncIterator[Port]:
    """A port of this kind. ``review`` decides who may read pages; ``ask`` answers schedulers."""
    service, _, scheme = kind.partition(" over ")
    secure = scheme == "https"
    options = Options(
        port=0 if secure else None, plain_health_port=None if secure else 0, most=most
    )
    tls = trusting() if secure else None
    if service == "pages":
        facts = Facts()
        app = pages.application(facts, Metrics(), dict, Reviews(review) if review else None)
        async with serving(options, app, pages.public(facts)) as addresses:
            yield Port(urlsplit(addresses.secure or addresses.plain).port or 0, tls, PROBE, LEVEL)
    else:
        async with answering(
            options, extender_paths.application({"filter": "/filter"}, ask)
        ) as url:
            yield Port(urlsplit(url).port or 0, tls, QUESTION, QUESTION[:-2])


async def answer(streams: Streams, request: bytes) -> bytes:
    """The status of a request over a connection that stays open; b"" if the connection ended."""
    reader, writer = streams
    try:
        writer.write(request)
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 20)
        for line in head.lower().split(b"\r\n"):
            name, _, value = line.partition(b":")
            if name == b"content-length":
                await asyncio.wait_for(reader.readexactly(int(value)), 20)
        return head.split()[1]
    except (OSError, asyncio.IncompleteReadError):
        return b""


async def ended(streams: Streams) -> bytes:
    """The bytes received until the server ends a connection."""
    received = b""
    try:
        async with asyncio.timeout(20):
            while part := await streams[0].read(65536):
                received += part
    except (ConnectionError, ssl.SSLError):
        pass
    return received


def leave(*connections: Streams) -> None:
    """Closes connections at once, from the client's side."""
    for _, writer in connections:
        writer.transport.abort()
