"""The server of many small questions: what it takes, what it refuses, and how it ends."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus

import pytest

from eventsched.web.http import listener, posts
from eventsched.web.http.descriptors import MAX_CONNECTIONS
from eventsched.web.http.https_server import Options, answering
from eventsched.web.http.posts import PostAnswer, PostedRequest
from tests.kube import skipping_time


class Server:
    """Answers with what it was asked; questions wait while it is ``held``."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.asked: list[PostedRequest] = []
        self.held = asyncio.Event()
        self.held.set()

    async def answer(self, asked: PostedRequest) -> PostAnswer:
        self.asked.append(asked)
        await self.held.wait()
        if asked.path == "/defect":
            raise RuntimeError("oh")
        last = asked.path == "/last"
        return PostAnswer(HTTPStatus.OK, asked.body, is_json=True, last=last)

    async def say(self, *parts: bytes) -> bytes:
        """What comes back for what is sent on one connection, until the server ends it."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            for part in parts:
                writer.write(part)
                await writer.drain()
                await asyncio.sleep(0)
            return await asyncio.wait_for(reader.read(), 20)
        finally:
            writer.close()
            await writer.wait_closed()


@asynccontextmanager
async def served(most: int = MAX_CONNECTIONS) -> AsyncIterator[Server]:
    made: list[Server] = []
    options = Options(port=None, plain_health_port=0, most=most)
    async with answering(options, lambda asked: made[0].answer(asked)) as url:
        made.append(Server(int(url.rpartition(":")[2])))
        yield made[0]


def said(*parts: bytes) -> bytes:
    """What a fresh server says."""

    async def story() -> bytes:
        async with served() as server:
            return await server.say(*parts)

    return asyncio.run(story())


POST = b"POST /a?x=1 HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n"


def test_a_connection_is_kept() -> None:
    """Whatever the pieces."""
    answers = said(POST + b"\r\nhi" + POST.replace(b"/a", b"/last") + b"\r\nho")
    first, second = (each.partition(b"\r\n\r\n") for each in answers.split(b"HTTP/1.1 ")[1:])
    assert (first[2], second[2]) == (b"hi", b"ho")
    assert first[0].startswith(b"200 OK")
    assert b"Content-Type: application/json" in first[0]
    assert b"Connection: close" not in first[0]
    assert b"Connection: close" in second[0]
    last = POST.replace(b"/a", b"/last")
    assert said(last[:9], last[9:] + b"\r", b"\nh", b"i").endswith(b"\r\n\r\nhi")


def test_a_request_without_a_body() -> None:
    async def story() -> list[PostedRequest]:
        async with served() as server:
            await server.say(b"GET /last HTTP/1.1\r\nHost: h\r\n\r\n")
            return server.asked

    assert asyncio.run(story()) == [PostedRequest("GET", "/last", b"")]


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"hello\r\n\r\n", b"400"),
        (b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: -1\r\n\r\n", b"400"),
        (POST + b"Connection: close\r\nContent-Encoding: gzip\r\n\r\nhi", b"200"),
        (POST.replace(b" 2", b" 9") + b"Connection: close\r\n\r\n123456789", b"413"),
    ],
)
def test_requests_that_are_accepted_and_refused(
    sent: bytes, status: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A compressed body is not decompressed: no client sends one, and it could be huge."""
    monkeypatch.setattr(posts, "MAX_BODY_BYTES", 8)
    assert said(sent).split()[1] == status


def test_a_defect_is_reported() -> None:
    """Also to the client, with status 500."""
    answer = said(POST.replace(b"/a", b"/defect") + b"Connection: close\r\n\r\nhi")
    assert answer.startswith(b"HTTP/1.1 500 Internal Server Error")


def test_open_requests_are_answered_when_the_server_ends() -> None:
    async def story() -> bytes:
        async with served() as server:
            server.held.clear()
            asking = asyncio.create_task(server.say(POST + b"\r\nhi"))
            async with asyncio.timeout(20):
                while not server.asked:
                    await asyncio.sleep(0.001)
            asyncio.get_running_loop().call_later(0.05, server.held.set)
        return await asking

    assert asyncio.run(asyncio.wait_for(story(), 20)).endswith(b"\r\n\r\nhi")


def test_slow_connections_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """And of too many connections the oldest."""
    monkeypatch.setattr(listener, "TRANSFER_SECONDS", 2.0)  # is passed over

    async def story() -> list[bytes]:
        async with served(most=2) as server:
            found = [await server.say(POST + b"\r\n")]
            ends = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(3)]
            found.append(await asyncio.wait_for(_read(ends[0][0]), 20))
            for _, writer in ends:
                writer.close()
                await writer.wait_closed()
            return found

    late, crowded = skipping_time.run(story())
    assert late.split()[1] == b"408"
    assert crowded == b""


async def _read(reader: asyncio.StreamReader) -> bytes:
    """Until the other side ends it, in whatever way."""
    came = b""
    try:
        while part := await reader.read(1000):
            came += part
    except ConnectionResetError:
        pass
    return came
