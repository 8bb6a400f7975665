"""A proxy between a client and an API server that does to requests and watches what a test says.

It ends TLS with the control plane's own certificate, so clients trust it as they trust the server;
they have to come with a token, as client certificates do not get past it.

    with KubeProxy(plane) as proxy:
        config = proxy.kubeconfig("system:kube-scheduler")
        held = proxy.on("POST", "/binding$", Hold())
"""

import asyncio
import re
import ssl
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Self

import aiohttp
from aiohttp import web

from eventsched.cluster.transports import Connector
from tests.cluster.harness.client import Client
from tests.cluster.harness.faults import (
    Delay,
    Fault,
    Gate,
    Hang,
    Hold,
    Loop,
    Lose,
    Refuse,
    Rule,
    Rules,
    Swallow,
    stopped,
)
from tests.cluster.harness.plane import ADMIN, ControlPlane, free_ports

_NOT_PASSED_ON = {"connection", "keep-alive", "transfer-encoding", "te", "upgrade", "host"}
Edit = Callable[[bytes], Sequence[bytes]]


class Request(NamedTuple):
    """One that came through, or was to."""

    method: str
    path: str
    """With the query."""


class Passed(NamedTuple):
    """A request that was answered, and how."""

    method: str
    path: str
    status: int


class KubeProxy:
    """Passes requests on, each as the first rule says that matches. Controlled from any thread."""

    def __init__(self, plane: ControlPlane) -> None:
        """Before the plane's API server; runs from now on."""
        self._plane = plane
        (self._port,) = free_ports(1)
        self.url = f"https://127.0.0.1:{self._port}"
        self.passed: list[Passed] = []
        """The answered requests in order, watches when they began."""
        self._rules = Rules()
        self._watches = Gate()
        self._edits: list[tuple[re.Pattern[str], Edit]] = []
        self._open: dict[asyncio.Task[None], web.BaseRequest] = {}
        self._loop = Loop()
        self._loop.run(self._start())

    def kubeconfig(self, user: str = ADMIN) -> Path:
        """A kubeconfig file for a user with a token that leads through the proxy."""
        given = {"token": self._plane.token(user)}
        return self._plane.write_kubeconfig(f"proxied-{user.replace(':', '-')}", given, self.url)

    def client(self, user: str = ADMIN, timeout: float = 60.0) -> Client:
        """A test's client through the proxy; close it."""
        return Client(self.url, self._plane.tls(), self._plane.token(user), timeout)

    # Requests

    def on(self, method: str, path: str, fault: Fault, times: int | None = None) -> Rule:
        """Applies a fault to requests whose method and path with query match the regular
        expressions (the path's may begin anywhere)."""
        methods, paths = re.compile(method), re.compile(path)

        def matches(request: Request) -> bool:
            return bool(methods.fullmatch(request.method) and paths.search(request.path))

        return self._rules.add(Rule(fault, matches, times))

    def cut(self, path: str = "") -> int:
        """Cuts the connections whose requests, watches included, are under way and match. Says how
        many."""
        return self._loop.run(self._cut(re.compile(path)))

    def go_down(self) -> None:
        """Stops listening and cuts all connections."""
        self._loop.run(self._stop_listening())

    def come_back(self) -> None:
        """Listens again."""
        self._loop.run(self._listen())

    def clear(self) -> None:
        """Ends all faults: rules, stalled watches, edits."""
        self._rules.clear()
        self._watches.is_open = True
        self._edits = []

    # Watches

    def stall_watches(self) -> None:
        """Watches stay open and send nothing."""
        self._watches.is_open = False

    @property
    def stalled(self) -> int:
        """How many watches have an event to send and may not."""
        return self._watches.waiting

    def resume_watches(self) -> None:
        """Watches deliver the events held back, and continue."""
        self._watches.is_open = True

    def edit_watches(self, edit: Edit, path: str = "") -> None:
        """Sets the replacement of each line of matching watches: ``twice``, nothing, …"""
        self._edits.append((re.compile(path), edit))

    def close(self) -> None:
        """Ends everything."""
        self._rules.clear()
        self._loop.run(self._stop())
        self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # In the loop

    async def _start(self) -> None:
        connector = Connector(ssl=self._plane.tls(), limit=0)
        self._session = aiohttp.ClientSession(
            connector=connector, auto_decompress=False, timeout=aiohttp.ClientTimeout()
        )
        self._tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._tls.load_cert_chain(self._plane.files.certificate, self._plane.files.key)
        await self._listen()

    async def _listen(self) -> None:
        self._server = web.Server(self._answer, access_log=None)
        self._listening = await asyncio.get_running_loop().create_server(
            self._server, "127.0.0.1", self._port, ssl=self._tls, reuse_address=True
        )

    async def _stop_listening(self) -> None:
        await stopped(self._listening)
        await self._cut(re.compile(""))
        for each in self._server.connections:
            # Idle ones, too: a peer that was killed would not answer a farewell.
            if each.transport is not None:
                each.transport.abort()
        await self._server.shutdown(1.0)

    async def _stop(self) -> None:
        await self._stop_listening()
        await self._session.close()

    async def _cut(self, path: re.Pattern[str]) -> int:
        found = [task for task, each in self._open.items() if path.search(each.path_qs)]
        for task in found:
            _abort(self._open[task])
            task.cancel()
        return len(found)

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        if not self._listening.is_serving():
            _abort(request)  # it was accepted just before listening stopped
            return web.Response(status=502)
        task = asyncio.current_task()
        assert task is not None
        self._open[task] = request
        try:
            return await self._apply(request)
        except (ConnectionError, aiohttp.ClientError):
            _abort(request)  # the server behind is down, so act as down
            return web.Response(status=502)
        finally:
            del self._open[task]

    async def _apply(self, request: web.BaseRequest) -> web.StreamResponse:
        body = await request.content.read()
        rule = self._rules.take(Request(request.method, request.path_qs))
        match rule and rule.fault:
            case Refuse(status, seconds):
                return _refusal(status, seconds)
            case Lose():
                _abort(request)
                return web.Response(status=502)
        if request.query.get("watch") in ("true", "1"):
            await _wait(rule)
            return await self._pass_watch(request)
        # What is under way gets there, whatever happens to its sender.
        answer = await asyncio.shield(self._carry_out(request, body, rule))
        match rule and rule.fault:
            case Swallow():
                _abort(request)
            case Hang():
                assert rule is not None
                await rule.released()
                _abort(request)
        return answer

    async def _carry_out(
        self, request: web.BaseRequest, body: bytes, rule: Rule | None
    ) -> web.Response:
        await _wait(rule)
        return await self._pass_on(request, body)

    async def _pass_on(self, request: web.BaseRequest, body: bytes) -> web.Response:
        async with self._session.request(
            request.method,
            self._behind(request),
            headers=_passed_on(request.headers),
            data=body or None,
        ) as answer:
            content = await answer.read()
        self.passed.append(Passed(request.method, request.path_qs, answer.status))
        headers = _passed_on(answer.headers)
        headers.pop("Content-Length", None)
        return web.Response(status=answer.status, headers=headers, body=content)

    async def _pass_watch(self, request: web.BaseRequest) -> web.StreamResponse:
        async with self._session.get(
            self._behind(request), headers=_passed_on(request.headers)
        ) as answer:
            self.passed.append(Passed(request.method, request.path_qs, answer.status))
            passing = web.StreamResponse(status=answer.status, headers=_passed_on(answer.headers))
            await passing.prepare(request)
            line = b""
            async for chunk in answer.content.iter_any():
                *lines, line = (line + chunk).split(b"\n")
                for each in lines:
                    await self._watches.passed()
                    for edited in self._edited(request, each + b"\n"):
                        await passing.write(edited)
            with suppress(ConnectionError):
                await passing.write_eof(line)
        return passing

    def _edited(self, request: web.BaseRequest, line: bytes) -> Sequence[bytes]:
        lines: Sequence[bytes] = [line]
        for path, edit in self._edits:
            if path.search(request.path_qs):
                lines = [each for one in lines for each in edit(one)]
        return lines

    def _behind(self, request: web.BaseRequest) -> str:
        return self._plane.url + request.path_qs


async def _wait(rule: Rule | None) -> None:
    match rule and rule.fault:
        case Delay(seconds):
            await asyncio.sleep(seconds)
        case Hold():
            assert rule is not None
            await rule.released()


def twice(line: bytes) -> Sequence[bytes]:
    """Sends a line a second time."""
    return [line, line]


def echoing(count: int) -> Edit:
    """Sends each line twice, and with it the ``count`` lines that came before it once more."""
    before: deque[bytes] = deque(maxlen=count)

    def echoed(line: bytes) -> Sequence[bytes]:
        told = [line, *before, line]
        before.append(line)
        return told

    return echoed


def _passed_on(headers: "aiohttp.typedefs.LooseHeaders") -> dict[str, str]:
    return {key: value for key, value in dict(headers).items() if key.lower() not in _NOT_PASSED_ON}


def _refusal(status: int, seconds: int | None) -> web.Response:
    headers = {} if seconds is None else {"Retry-After": str(seconds)}
    reason = {429: "TooManyRequests", 503: "ServiceUnavailable", 410: "Expired"}.get(status, "")
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "refused by the test's proxy",
        "reason": reason,
        "code": status,
    }
    return web.json_response(body, status=status, headers=headers)


def _abort(request: web.BaseRequest) -> None:
    if request.transport is not None:
        request.transport.abort()
