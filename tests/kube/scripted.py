"""An API server on loopback that answers by a script and records its requests."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from aiohttp import web

from eventsched.cluster.kube.http.api import AnonymousAccess, ApiClient

Object = dict[str, Any]


class RecordedRequest(NamedTuple):
    """A request. ``what`` is its method and its path with the query."""

    what: str
    body: Any
    content_type: str


class ScriptedAnswer(NamedTuple):
    """An answer. Status 0 resets the connection; for -1 no answer comes. With a queue as its body
    it is a watch: the queue has its lines, and None ends it."""

    status: int
    body: Any = None
    retry_after: str | None = None


Script = Callable[[RecordedRequest], ScriptedAnswer] | Sequence[ScriptedAnswer]
CUT = ScriptedAnswer(0)
SILENCE = ScriptedAnswer(-1)


def failure(status: int, reason: str, message: str = "no") -> ScriptedAnswer:
    """A Status of failure."""
    said = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": status}
    return ScriptedAnswer(status, {**said, "reason": reason, "message": message})


NOT_FOUND = failure(404, "NotFound", 'pods "a" not found')
CONFLICT = failure(409, "Conflict", "Precondition failed")
DONE = ScriptedAnswer(201, {"kind": "Status", "apiVersion": "v1", "status": "Success"})


class Server:
    """``asked`` has the requests so far. A script is a list of answers in order, or a function."""

    def __init__(self, script: Script) -> None:
        self.asked: list[RecordedRequest] = []
        self.url = ""
        self._script = script
        self._next = 0
        self._cut = False

    @property
    def whats(self) -> list[str]:
        """The requests without their bodies."""
        return [each.what for each in self.asked]

    def _say(self, asked: RecordedRequest) -> ScriptedAnswer:
        if callable(self._script):
            return self._script(asked)
        self._next += 1
        return self._script[self._next - 1]

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answers a request."""
        content = await request.read()
        body = json.loads(content) if content else None
        asked = RecordedRequest(f"{request.method} {request.path_qs}", body, request.content_type)
        if self._cut and asked == self.asked[-1] and request.method == "GET":
            self._cut, said = False, CUT  # aiohttp repeats a GET on a reused connection
        else:
            self.asked.append(asked)
            said = self._say(asked)
            self._cut = said == CUT
        if said.status == -1:
            await asyncio.Event().wait()
        if said.status == 0:
            assert request.transport is not None
            request.transport.abort()
        if isinstance(said.body, asyncio.Queue):
            return await _stream(request, said.body)
        text = said.body if isinstance(said.body, str) else json.dumps(said.body)
        headers = {} if said.retry_after is None else {"Retry-After": said.retry_after}
        return web.Response(
            status=said.status or 500,
            text=text,
            headers=headers,
            content_type="application/json",
        )


async def _stream(
    request: web.Request, lines: "asyncio.Queue[Object | None]"
) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    while (line := await lines.get()) is not None:
        await response.write(json.dumps(line).encode() + b"\n")
    return response


@asynccontextmanager
async def serving(script: Script, **options: Any) -> AsyncIterator[tuple[Server, ApiClient]]:
    """A server with this script, and a client of it."""
    server = Server(script)
    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", server.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    server.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    api = ApiClient(AnonymousAccess(server.url), **{"timeout": 20.0, "patience": 0.0, **options})
    try:
        yield server, api
    finally:
        await api.close()
        await runner.cleanup()
