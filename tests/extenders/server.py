"""An extender as people write them: it filters by a node label, prioritizes and binds; and others
that are slow, lie or answer nonsense. Each is a handler by path."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Sample:
    """The usual sample: it keeps what it was asked in ``requests``, path and body. It prioritizes
    at ``/priority``, whatever it is configured as."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, dict[str, Any]]] = []
        self.error = ""

    @property
    def handlers(self) -> Mapping[str, Handler]:
        """All of its paths."""
        return {
            "/scheduler/filter": self.filter,
            "/scheduler/priority": self.prioritize,
            "/scheduler/preempt": self.preempt,
            "/scheduler/bind": self.bind,
        }

    async def filter(self, request: web.Request) -> web.StreamResponse:
        """Nodes with the label ``extender=yes`` pass; where only names come, those that end in 1.
        It spells its fields as servers in Python and Java do."""
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
        """The later in the alphabet the better."""
        args = await self._read(request)
        names = args["NodeNames"] or [n["metadata"]["name"] for n in args["Nodes"]["items"]]
        return web.json_response([{"Host": n, "Score": i} for i, n in enumerate(sorted(names))])

    async def preempt(self, request: web.Request) -> web.StreamResponse:
        """All but the first node."""
        args = await self._read(request)
        given = args["NodeNameToMetaVictims"] or {
            name: {"Pods": [{"UID": p["metadata"]["uid"]} for p in victims["Pods"]],
                   "NumPDBViolations": victims["NumPDBViolations"]}
            for name, victims in args["NodeNameToVictims"].items()
        }  # fmt: skip
        kept = {name: given[name] for name in sorted(given)[1:]}
        return web.json_response({"NodeNameToMetaVictims": kept})

    async def bind(self, request: web.Request) -> web.StreamResponse:
        """Answers as configured."""
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
    """One that takes for ever."""
    await asyncio.sleep(3600)
    return web.Response()


async def dying(request: web.Request) -> web.StreamResponse:
    """One that breaks the connection off in the middle of its answer."""
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
    """Serves them on a free port of the loopback interface; its URL."""
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
