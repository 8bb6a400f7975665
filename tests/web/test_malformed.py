"""Requests that are wrong in every way that a generator thinks of, on every port: they are answered
2xx or 4xx or not at all, nothing is logged as an error, and no connection stays."""

import asyncio
import gc
import logging
import os
import random
import re
import ssl
from typing import Any

import pytest

from eventsched.web.http import listener, posts
from tests.web.ports import KINDS, Port, leave, listening
from tests.web.test_server import anybody

NUMBER, TOGETHER = 400, 20
METHODS = [b"GET", b"PUT", b"POST", b"HEAD", b"OPTIONS", b"CONNECT", b"TRACE", b"get", b"G ET", b"",
           b"PRI", b"\x00", b"M" * 9000, b"DELETE", b"\xc3\xa9", b"PATCH"]  # fmt: skip
TARGETS = [b"/livez", b"/metrics", b"/filter", b"/debug/flags/v", b"metrics", b"*", b"?", b"",
           b"//",
           b"/%", b"/%00", b"/%ff%fe", b"/..%2f..", b"/livez?verbose&exclude=%ff", b"host:443",
           b"http://x/livez", b"http://[", b"http://[::1", b"http://x:99999/", b"//[", b"/\xff",
           b"/a" * 6000, b"/livez#x", b"/readyz/%0d%0a", b"\x00", b"/livez/\xed\xa0\x80", b"[",
           b"x://", b":", b"/:", b"a:b:c", b"/configz", b"https://",
           b"/metrics?name[]=%"]  # fmt: skip
USUAL = [b"GET /livez", b"GET /metrics", b"PUT /debug/flags/v", b"POST /filter", b"GET /none"]
VERSIONS = [b"HTTP/1.1"] * 6 + [
    b"HTTP/1.0",
    b"HTTP/2.0",
    b"HTTP/9.9",
    b"HTTP/1.",
    b"",
    b"HTTP/1.1 ",
]
HEADERS = [b"Host: x", b"Host:", b"Host: a, b", b"Content-Length: 5", b"Content-Length: 0",
           b"Content-Length: -1", b"Content-Length: +5", b"Content-Length: 5, 5",
           b"Content-Length: x",
           b"Content-Length: 99999999999999999999", b"Content-Length: 300000000",
           b"Content-Length : 5", b"Transfer-Encoding: chunked",
           b"Transfer-Encoding: gzip, chunked",
           b"Transfer-Encoding: chunked, chunked", b"Transfer-Encoding: identity",
           b"Transfer-Encoding : chunked", b"Transfer-Encoding: \x0bchunked",
           b"Connection: close", b"Connection: keep-alive", b"Connection: upgrade", b"Upgrade: h2c",
           b"Upgrade: websocket", b"Connection: Upgrade, HTTP2-Settings", b"HTTP2-Settings: AAA",
           b"Expect: 100-continue", b"Expect: nonsense", b"Authorization: Bearer \xff\xfe",
           b"Authorization: Bearer", b"Authorization: Bearer good", b"Accept: text/html",
           b"Accept: \x80", b"Accept: application/openmetrics-text;version=\xff",
           b"X: " + b"y" * 9000,
           b"no colon", b": empty", b"\x00: x", b"X\x00Y: z", b" folded: x", b"Cookie: \xff=;",
           b"Content-Type: multipart/form-data; boundary=\xff", b"Content-Encoding: br",
           b"Sec-WebSocket-Key: x", b"X: a\rb"]  # fmt: skip
BODIES = [b"", b"debug", b"{}", b"\xff" * 5, b"5\r\ndebug\r\n0\r\n\r\n", b"5\r\nde", b"zz\r\n\r\n",
          b"-1\r\n\r\n", b"5;x=\"\r\ndebug\r\n0\r\nTrailer: y\r\n\r\n", b"FFFFFFFFFFFFFFFFFF\r\n",
          b"0\r\n\r\nGET /livez HTTP/1.1\r\nHost: x\r\n\r\n", b"5\ndebug\n0\n\n"]  # fmt: skip


def generated(number: int) -> bytes:
    """The bytes of a connection: one request or more, each wrong in no way, in one, or in many."""
    draw = random.Random(number)
    parts = []
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        end = draw.choice((b"\r\n",) * 6 + (b"\n", b"\r", b"\r\r\n"))
        headers = draw.choices(HEADERS, k=draw.choice((0, 1, 2, 3, 5)))
        if draw.random() < 0.6:
            headers.insert(0, b"Host: x")
        if draw.random() < 0.02:
            headers *= 300
        line = b" ".join((draw.choice(METHODS), draw.choice(TARGETS), draw.choice(VERSIONS)))
        if draw.random() < 0.4:
            line = draw.choice(USUAL) + b" HTTP/1.1"
        parts += [end.join([line, *headers]), end * 2, draw.choice(BODIES)]
    made = bytearray(b"".join(parts))
    if draw.random() < 0.2:
        for _ in range(draw.randrange(1, 5)):
            made[draw.randrange(len(made))] = draw.randrange(256)
    if draw.random() < 0.2:
        del made[draw.randrange(len(made)) :]
    return bytes(made)


async def said(port: Port, sent: bytes) -> bytes:
    """What a server says until it ends the connection."""
    reader, writer = await port.connect()
    came = b""
    try:
        async with asyncio.timeout(30):
            middle = len(sent) // 2
            writer.write(sent[:middle])
            await asyncio.sleep(0.001)
            writer.write(sent[middle:])
            while part := await reader.read(65536):
                came += part
    except (ConnectionError, ssl.SSLError):
        pass
    finally:
        leave((reader, writer))
    return came


def statuses(came: bytes) -> list[bytes]:
    """Those of all answers of a connection."""
    return re.findall(rb"HTTP/1\.[01] (\d{3}) ", came)


@pytest.mark.properties
@pytest.mark.parametrize("kind", KINDS)
def test_no_request_is_the_servers_fault(
    kind: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(listener, "TRANSFER_SECONDS", 0.5)
    monkeypatch.setattr(posts, "IDLE_SECONDS", 0.5)
    before = _descriptors()
    troubles: list[Any] = []
    found: dict[int, list[bytes]] = {}

    async def story() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, it: troubles.append(it))
        places = asyncio.Semaphore(TOGETHER)
        async with listening(kind, review=anybody) as port:

            async def one(number: int) -> None:
                async with places:
                    found[number] = statuses(await said(port, generated(number)))

            await asyncio.gather(*map(one, range(NUMBER)))

    with caplog.at_level(logging.DEBUG):
        asyncio.run(story())
    wrong = {
        number: (each, generated(number)[:300])
        for number, each in found.items()
        if any(status[:1] not in b"124" for status in each)
    }
    assert wrong == {}
    assert troubles == []
    assert [each.getMessage() for each in caplog.records if each.levelno >= logging.ERROR] == []
    assert [each for each in caplog.records if each.exc_info and each.levelno > logging.DEBUG] == []
    assert _descriptors() == before
    seen = {status for each in found.values() for status in each}
    assert {b"200", b"400"} < seen  # the generator finds its way in


def _descriptors() -> int:
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "request_line", [b"GET metrics", b"OPTIONS *", b"CONNECT x:1", b"GET ?", b"GET http://[/"]
)
def test_a_target_that_is_no_path(kind: str, request_line: bytes) -> None:
    """An unknown client gets an answer, too."""

    async def story() -> bytes:
        async with listening(kind, review=anybody) as port:
            sent = request_line + b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
            return await said(port, sent)

    assert asyncio.run(story())[9:12] in (b"400", b"404")


@pytest.mark.parametrize("kind", KINDS)
def test_a_body_of_two_lengths_is_refused(kind: str) -> None:
    """And what follows on the connection is not looked at."""

    async def story() -> bytes:
        async with listening(kind) as port:
            head, _, _ = port.whole.partition(b"\r\n\r\n")
            lengths = b"\r\nTransfer-Encoding: chunked\r\n"
            if b"Content-Length" not in head:
                lengths += b"Content-Length: 4\r\n"
            body = b"\r\n0\r\n\r\n"
            return await said(port, head + lengths + body + port.whole)

    assert statuses(asyncio.run(story())) == [b"400"]
