"""Extender servers for tests: a usual one that filters by a node label, prioritizes and binds, and
handlers that are slow, break off or answer nonsense."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Sample:
    """The usual extender. ``requests`` has the path and the body of each request. It prioritizes at
    ``/priority``, whatever the configuration says."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, dict[str, Any]]] = []
        self.error = ""

    @property
    def handlers(self) -> Mapping[str, Handler]:
        """The handlers by path."""
        return {
            "/scheduler/filter": self.filter,
            "/scheduler/priority": self.prioritize,
            "/scheduler/preempt": self.preempt,
            "/scheduler/bind": self.bind,
        }

    async def filter(self, request: web.Request) -> web.StreamResponse:
        """Nodes with the label ``extender=yes`` pass; if only names are sent, those that end in 1.
        Field names are spelled as by servers in Python and Java."""
        args = await self._read(request)
        if args["Nodes"] is None:
            names = args["NodeNames"]
            passed = [name for name in names if name.endswith("1")]
            failed = {name: "no such luck" for name in names if name not in passed}
            return web.json_response({"nodeNames": passed, "failedNodes": failed, "error": ""})
        items = args["Nodes"]["items"]
        good = [n for n in items if n["metadata"].get("labels", {}).get("extender") == "yes"]
        bad = {n["metadata"]["name"]: "label extender is not yes" for n in items if n not in good}
        return web.json_response(
            {"Nodes": {"items": good}, "FailedAndUnresolvableNodes": bad, "NodeNames": None}
        )

    async def prioritize(self, request: web.Request) -> web.StreamResponse:
        """Scores grow with the alphabetical order of the names."""
        args = await self._read(request)
        names = args["NodeNames"] or [n["metadata"]["name"] for n in args["Nodes"]["items"]]
        return web.json_response([{"Host": n, "Score": i} for i, n in enumerate(sorted(names))])

    async def preempt(self, request: web.Request) -> web.StreamResponse:
        """Accepts all nodes except the first."""
        args = await self._read(request)
        candidates = args["NodeNameToMetaVictims"] or {
            name: {"Pods": [{"UID": p["metadata"]["uid"]} for p in victims["Pods"]],
                   "NumPDBViolations": victims["NumPDBViolations"]}
            for name, victims in args["NodeNameToVictims"].items()
        }  # fmt: skip
        accepted = {name: candidates[name] for name in sorted(candidates)[1:]}
        return web.json_response({"NodeNameToMetaVictims": accepted})

    async def bind(self, request: web.Request) -> web.StreamResponse:
        """Answers with ``error``."""
        await self._read(request)
        return web.json_response({"Error": self.error})

    async def _read(self, request: web.Request) -> dict[str, Any]:
        body = json.loads(await request.read())
        self.requests.append((request.path, body))
        return dict(body)


def saying(text: str, status: int = 200, kind: str = "application/json") -> Handler:
    """Gives the same answer to every request."""

    async def answer(request: web.Request) -> web.StreamResponse:
        return web.Response(text=text, status=status, content_type=kind)

    return answer


async def silent(request: web.Request) -> web.StreamResponse:
    """Never answers."""
    await asyncio.sleep(3600)
    return web.Response()


async def dying(request: web.Request) -> web.StreamResponse:
    """Breaks the connection off in the middle of the answer."""
    response = web.StreamResponse(headers={"Content-Length": "1000"})
    await response.prepare(request)
    await response.write(b'{"NodeNames":')
    assert request.transport is not None
    request.transport.abort()
    return response


@asynccontextmanager
async def serving(
    handlers: Mapping[str, Handler], tls: ssl.SSLContext | None = None
) -> AsyncIterator[str]:
    """Serves the handlers on a free port of the loopback interface; yields the URL."""
    application = web.Application(client_max_size=2**26)
    for path, handler in handlers.items():
        application.router.add_post(path, handler)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
        await site.start()
        port = runner.addresses[0][1]
        yield f"http{'s' if tls else ''}://127.0.0.1:{port}"
    finally:
        await runner.cleanup()
