"""Clients that hold connections: they keep no probe out, and do not stay forever."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import pytest

from eventsched.web import pages
from eventsched.web.http import listener
from eventsched.web.http.https_server import Addresses
from tests.web.facts import ask, trusting
from tests.web.test_server import running

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@asynccontextmanager
async def held(at: Addresses, number: int, sent: bytes = b"") -> AsyncIterator[list[Streams]]:
    """Connections with their handshake done, over which something was sent."""
    where = urlsplit(at.secure)
    made = [
        await asyncio.open_connection(where.hostname, where.port, ssl=trusting())
        for _ in range(number)
    ]
    try:
        for _, writer in made:
            writer.write(sent)
        yield made
    finally:
        for _, writer in made:
            writer.transport.abort()


async def ended(streams: Streams) -> bytes:
    """What comes until the server closes a connection."""
    try:
        return await asyncio.wait_for(streams[0].read(), 20)
    except ConnectionError:
        return b""


def test_idle_connections_do_not_keep_probes_out() -> None:
    """The oldest of them is dropped."""

    async def story() -> tuple[list[int], bytes]:
        async with running(most=4) as at, held(at, 4) as idle:
            paths = ("/livez", "/readyz", "/metrics")
            statuses = [(await ask(at.secure + path)).status for path in paths]
            return statuses, await ended(idle[0])

    assert asyncio.run(story()) == ([200, 200, 200], b"")


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET /livez HTTP/1.1\r\nHost: x\r\n",
        b"PUT /debug/flags/v HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nde",
    ],
    ids=["nothing", "half a head", "half a body"],
)
def test_a_connection_without_a_whole_request_ends(
    sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> list[bytes]:
        async with running() as at:
            monkeypatch.setattr(listener, "TRANSFER_SECONDS", 0.2)
            async with held(at, 2, sent) as made:
                return [await ended(each) for each in made]

    assert asyncio.run(story()) == [b"", b""]


def test_a_connection_without_a_handshake_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "HANDSHAKE_SECONDS", 0.2)

    async def story() -> bytes:
        async with running() as at:
            where = urlsplit(at.secure)
            streams = await asyncio.open_connection(where.hostname, where.port)
            found = await ended(streams)
            streams[1].close()
            return found

    assert asyncio.run(story()) == b""


def test_one_request_after_another_over_one_connection() -> None:
    async def story() -> list[bytes]:
        async with running() as at, held(at, 1) as [(reader, writer)]:
            found = []
            for _ in range(3):
                writer.write(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
                found.append(await asyncio.wait_for(reader.readuntil(b"\r\n\r\nok"), 20))
            return [each.split(b"\r\n")[0] for each in found]

    assert asyncio.run(story()) == [b"HTTP/1.1 200 OK"] * 3


def test_pages_that_cost_more_are_bounded_and_probes_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pages, "MOST_UNDER_WAY", 1)
    asked, leave = asyncio.Event(), asyncio.Event()

    async def slow(path: str, body: bytes) -> tuple[int, bytes]:
        """An API server that takes its time to authorize."""
        asked.set()
        await leave.wait()
        return 201, b'{"status": {"allowed": true}}'

    async def story() -> list[int]:
        async with running(reviews=slow) as at:
            first = asyncio.create_task(ask(at.secure + "/metrics"))
            await asyncio.wait_for(asked.wait(), 20)
            found = [(await ask(at.secure + path)).status for path in ("/metrics", "/livez")]
            leave.set()
            found.append((await first).status)
            return [*found, (await ask(at.secure + "/metrics")).status]

    assert asyncio.run(story()) == [503, 200, 200, 200]
