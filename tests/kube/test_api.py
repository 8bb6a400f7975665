"""Requests to an API server: what is an answer, what is none, and what is asked again."""

import asyncio
import os
import socket
import stat
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress
from typing import Any

import pytest
from aiohttp import web

from eventsched.cluster.kube.http import api as kube
from eventsched.cluster.kube.http.api import (
    AnonymousAccess,
    ApiClient,
    HttpAnswer,
    Lines,
    UnansweredError,
    WatchRefusedError,
)
from tests.kube import skipping_time
from tests.kube.scripted import CUT, SILENCE, Script, ScriptedAnswer
from tests.kube.scripted import serving as scripted
from tests.kube.watched import run

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Badge(AnonymousAccess):
    """An access with a token; each refresh brings the next one."""

    def __init__(self, server: str, *tokens: str, due: bool = False) -> None:
        super().__init__(server)
        self._tokens = list(tokens)
        self._due = due
        self.authorization = None
        self.refused: list[str | None] = []

    def due(self) -> bool:
        return self._due

    async def refresh(self, refused: str | None = None) -> None:
        self._due = False
        self.refused.append(refused)
        if self._tokens:
            self.authorization = self._tokens.pop(0)


class Clock:
    """Time that passes in sleep alone."""

    def __init__(self) -> None:
        self.now = 100.0
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds

    @property
    def options(self) -> dict[str, Any]:
        return {"sleep": self.sleep, "clock": lambda: self.now, "draw": lambda: 0.5}


async def on_loopback(handler: Handler, body: Callable[[str], Awaitable[None]]) -> None:
    """Runs ``body`` with the URL of a server that answers everything by ``handler``."""
    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", handler)
    runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        await body(f"http://127.0.0.1:{runner.addresses[0][1]}")
    finally:
        await runner.cleanup()


def test_segments_of_a_path_are_quoted() -> None:
    assert kube.path("api", "v1", "nodes", "a/b?c") == "/api/v1/nodes/a%2Fb%3Fc"
    assert kube.path("apis", "rbac", "system:x") == "/apis/rbac/system:x"


@pytest.mark.parametrize("status", [200, 201, 404, 409, 500, 503])
def test_any_status_is_an_answer(status: int) -> None:
    async def scenario() -> None:
        async with scripted([ScriptedAnswer(status, {"a": 1})]) as (server, api):
            assert await api.call("GET", "/x", params={"limit": 1}) == HttpAnswer(
                status, b'{"a": 1}'
            )
            assert server.whats == ["GET /x?limit=1"]

    run(scenario())


def test_method_path_headers_and_body_of_requests() -> None:
    seen: list[tuple[str, dict[str, str], bytes]] = []

    async def handler(request: web.Request) -> web.Response:
        names = ("Accept", "Accept-Encoding", "Authorization", "Content-Type", "User-Agent")
        headers = {name: request.headers[name] for name in names if name in request.headers}
        seen.append((f"{request.method} {request.path_qs}", headers, await request.read()))
        return web.Response()

    async def body(url: str) -> None:
        api = ApiClient(Badge(url + "/prefix/", "Bearer one", due=True), user_agent="me/1")
        fixed = {"Accept": kube.JSON, "Accept-Encoding": "identity", "User-Agent": "me/1"}
        fixed["Authorization"] = "Bearer one"
        await api.call("GET", "/a", params={"fieldSelector": "a!=b,c=d", "limit": 5})
        await api.call("PATCH", "/b", body=b"{}", content_type=kube.MERGE_PATCH)
        await api.close()
        assert seen == [
            ("GET /prefix/a?fieldSelector=a%21%3Db%2Cc%3Dd&limit=5", fixed, b""),
            ("PATCH /prefix/b", {**fixed, "Content-Type": kube.MERGE_PATCH}, b"{}"),
        ]

    run(on_loopback(handler, body))


@pytest.mark.parametrize("said", [CUT, SILENCE])
def test_a_request_without_an_answer_raises(said: ScriptedAnswer) -> None:
    async def scenario() -> None:
        async with scripted([said, said], timeout=20.0) as (_, api):
            with pytest.raises(UnansweredError) as caught:
                await api.call("POST", "/x", body=b"{}")
            assert caught.value.sent

    skipping_time.run(scenario())


def test_without_a_connection_nothing_was_sent() -> None:
    async def scenario() -> None:
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            api = ApiClient(AnonymousAccess(f"http://127.0.0.1:{unused.getsockname()[1]}"))
            with pytest.raises(UnansweredError) as caught:
                await api.call("POST", "/x", body=b"{}")
            await api.close()
            assert not caught.value.sent

    run(scenario())


def kept_alive(port: int) -> list[dict[str, int]]:
    """The keepalive options of this process's connections to a port."""
    options = ("TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_KEEPCNT", "TCP_USER_TIMEOUT")
    connections = []
    for descriptor in map(int, os.listdir("/dev/fd")):
        with suppress(OSError):  # the descriptor of the listing itself is closed already
            if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                continue
            with socket.socket(fileno=os.dup(descriptor)) as duplicate:
                if duplicate.family != socket.AF_INET or duplicate.getpeername()[1] != port:
                    continue
                values = {
                    name: duplicate.getsockopt(socket.IPPROTO_TCP, getattr(socket, name))
                    for name in options
                }
                keepalive = duplicate.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
                connections.append({"SO_KEEPALIVE": keepalive, **values})
    return connections


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="not on this platform")
def test_a_server_that_is_gone_without_a_word_is_noticed() -> None:
    """Within half a minute, also by a watch, which sends nothing."""

    async def handler(_: web.Request) -> web.Response:
        return web.Response()

    async def body(url: str) -> None:
        api = ApiClient(AnonymousAccess(url))
        await api.call("GET", "/x")
        assert kept_alive(int(url.rpartition(":")[2])) == [
            {
                "SO_KEEPALIVE": 1,
                "TCP_KEEPIDLE": 15,
                "TCP_KEEPINTVL": 5,
                "TCP_KEEPCNT": 3,
                "TCP_USER_TIMEOUT": 30_000,
            }
        ]
        await api.close()

    run(on_loopback(handler, body))


# --- what is put off ----------------------------------------------------------------------


def put_off(status: int, after: str | None) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def handler(_: web.Request) -> web.Response:
        headers = {} if after is None else {"Retry-After": after}
        return web.Response(status=status, headers=headers)

    return handler


@pytest.mark.parametrize("status", [429, 503])
def test_a_request_is_repeated_after_retry_after_until_patience_ends(status: int) -> None:
    clock = Clock()

    async def body(url: str) -> None:
        api = ApiClient(AnonymousAccess(url), patience=30, **clock.options)
        assert await api.call("POST", "/x", body=b"{}") == HttpAnswer(status, b"", 8.0)
        await api.close()

    run(on_loopback(put_off(status, "8"), body))
    assert clock.slept == pytest.approx([8.4] * 3)


@pytest.mark.parametrize(
    ("status", "after", "patience"),
    [(429, None, 30), (500, "1", 30), (429, "1", 0), (429, "soon", 30), (503, None, 30)],
)
def test_other_answers_are_final(status: int, after: str | None, patience: float) -> None:
    clock = Clock()

    async def body(url: str) -> None:
        api = ApiClient(AnonymousAccess(url), **clock.options)
        answer = await api.call("POST", "/x", body=b"{}", patience=patience)
        await api.close()
        assert answer.status == status

    run(on_loopback(put_off(status, after), body))
    assert clock.slept == []


# --- credentials --------------------------------------------------------------------------


def guarded(*allowed: str) -> tuple[list[str | None], Handler]:
    shown: list[str | None] = []

    async def handler(request: web.Request) -> web.Response:
        token = request.headers.get("Authorization")
        shown.append(token)
        return web.Response(status=200 if token in allowed else 401)

    return shown, handler


def test_after_401_credentials_are_read_again_and_sent_once() -> None:
    shown, handler = guarded("two")

    async def body(url: str) -> None:
        access = Badge(url, "two", "three")
        access.authorization = "one"
        api = ApiClient(access)
        assert (await api.call("GET", "/x")).status == 200
        assert (await api.call("GET", "/x")).status == 200
        await api.close()
        assert access.refused == ["one"]

    run(on_loopback(handler, body))
    assert shown == ["one", "two", "two"]


@pytest.mark.parametrize(("tokens", "asked"), [(("two", "three"), 2), ((), 1)])
def test_401_is_returned_if_reading_credentials_again_does_not_help(
    tokens: tuple[str, ...], asked: int
) -> None:
    shown, handler = guarded()

    async def body(url: str) -> None:
        access = Badge(url, *tokens)
        access.authorization = "one"
        api = ApiClient(access)
        assert (await api.call("GET", "/x")).status == 401
        await api.close()

    run(on_loopback(handler, body))
    assert len(shown) == asked


# --- watches ------------------------------------------------------------------------------


def streamed(*chunks: bytes, end: str = "close") -> Handler:
    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for chunk in chunks:
            await response.write(chunk)
            await asyncio.sleep(0)
        if end == "cut":
            assert request.transport is not None
            request.transport.abort()
        elif end == "stall":
            await asyncio.Event().wait()
        return response

    return handler


async def lines_of(api: ApiClient, stall: float = 5) -> list[bytes]:
    async with aclosing(api.lines("/x", {"watch": "1"}, stall=stall)) as lines:
        return [each async for each in lines]


@pytest.mark.parametrize(
    "chunks",
    [
        (b"one\ntwo\nthree\n",),
        (b"on", b"e\nt", b"wo", b"\n", b"\nthree\n"),
        (b"one\n", b"two\n", b"three"),
    ],
)
def test_lines_come_whole_however_they_are_sent(chunks: tuple[bytes, ...]) -> None:
    async def body(url: str) -> None:
        api = ApiClient(AnonymousAccess(url))
        assert await lines_of(api) == [b"one", b"two", b"three"]
        await api.close()

    run(on_loopback(streamed(*chunks), body))


def test_a_long_line_takes_time_in_proportion_to_its_length() -> None:
    """Nothing that came before is copied with a chunk: the parts stay as they came."""
    lines = Lines()
    for _ in range(20_000):
        assert lines.feed(b"x" * 1024) == []
    assert [len(part) for part in lines._parts] == [1024] * 20_000
    (line,) = lines.feed(b"\n")
    assert len(line) == 20_000 * 1024
    assert lines.rest == b""


@pytest.mark.parametrize("end", ["cut", "stall"])
def test_a_watch_that_breaks_or_stalls_says_so(end: str) -> None:
    async def body(url: str) -> None:
        api = ApiClient(AnonymousAccess(url))
        with pytest.raises(UnansweredError):
            await lines_of(api, stall=20.0)
        await api.close()

    skipping_time.run(on_loopback(streamed(b"one\n", end=end), body))


def test_a_watch_that_is_refused_has_an_answer() -> None:
    script: Script = [ScriptedAnswer(410, {"message": "too old"})]

    async def scenario() -> None:
        async with scripted(script) as (_, api):
            with pytest.raises(WatchRefusedError) as caught:
                await lines_of(api)
            assert caught.value.answer == HttpAnswer(410, b'{"message": "too old"}')

    run(scenario())


def test_a_watch_can_be_left() -> None:
    async def body(url: str) -> None:
        api = ApiClient(AnonymousAccess(url))
        async with aclosing(api.lines("/x", {}, stall=30)) as lines:
            async for each in lines:
                assert each == b"one"
                break
        await api.close()

    run(on_loopback(streamed(b"one\ntwo\n", end="stall"), body))


def test_a_watch_that_gets_401_is_shown_new_credentials_next_time() -> None:
    shown, handler = guarded("two")

    async def body(url: str) -> None:
        access = Badge(url, "two")
        access.authorization = "one"
        api = ApiClient(access)
        with pytest.raises(WatchRefusedError) as caught:
            await lines_of(api)
        assert caught.value.answer.status == 401
        assert await lines_of(api) == []
        await api.close()

    run(on_loopback(handler, body))
    assert shown == ["one", "two"]
