"""An API server on loopback: a few resources with lists in pages, watches, bookmarks, and faults
that a test injects."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from aiohttp import web

from eventsched.cluster.kube.watch.resources import OPTIONAL, RESOURCES, Resource

Object = dict[str, Any]
Fault = Callable[[web.Request], web.StreamResponse | Awaitable[web.StreamResponse]]
NODES, PODS, SERVICES = (
    next(each for each in RESOURCES if each.type == name) for name in ("Node", "Pod", "Service")
)


class FakeApi:
    """``requests`` has the requests so far, as (``list`` or ``watch``, type, parameters).
    ``faults`` replace the next answers to requests of a kind and type."""

    def __init__(self) -> None:
        self.version = 10
        self.oldest = 0
        self.objects: dict[str, dict[str, Object]] = {
            each.type: {} for each in (*RESOURCES, *OPTIONAL)
        }
        self.log: list[tuple[int, str, Object]] = []
        self.requests: list[tuple[str, str, dict[str, str]]] = []
        self.faults: dict[tuple[str, str], list[Fault]] = {}
        self.watches: dict[str, list[asyncio.Queue[bytes | None]]] = {}
        self._by_path = {each.path: each for each in (*RESOURCES, *OPTIONAL)}
        self.missing: set[str] = set()
        """Types whose definition is not installed."""

    # --- what happens in the cluster ------------------------------------------------------

    def put(self, resource: Resource, obj: Object) -> int:
        """Creates or changes an object. Returns its resourceVersion."""
        self.version += 1
        name = _key(obj)
        kind = "MODIFIED" if name in self.objects[resource.type] else "ADDED"
        obj = json.loads(json.dumps(obj))
        obj["metadata"]["resourceVersion"] = str(self.version)
        self.objects[resource.type][name] = obj
        self._tell(resource, kind, obj)
        return self.version

    def remove(self, resource: Resource, name: str) -> int:
        """Deletes an object by name or namespace/name. Returns the resourceVersion."""
        self.version += 1
        obj = self.objects[resource.type].pop(name)
        obj["metadata"]["resourceVersion"] = str(self.version)
        self._tell(resource, "DELETED", obj)
        return self.version

    def bookmark(self, resource: Resource) -> None:
        """Sends a bookmark to all watches of a resource."""
        self.say(resource, _line("BOOKMARK", _at(self.version)))

    def say(self, resource: Resource, line: bytes | None) -> None:
        """Sends a line to all watches of a resource; None ends them."""
        for each in self.watches.get(resource.type, []):
            each.put_nowait(line)

    def fail(self, kind: str, resource: Resource, *faults: Fault) -> None:
        """Replaces the next answers, one fault each."""
        self.faults.setdefault((kind, resource.type), []).extend(faults)

    def _tell(self, resource: Resource, kind: str, obj: Object) -> None:
        self.log.append((self.version, resource.type, {"type": kind, "object": obj}))
        self.say(resource, _line(kind, obj))

    # --- answers --------------------------------------------------------------------------

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answers a list or a watch."""
        resource = self._by_path[request.path]
        kind = "watch" if "watch" in request.query else "list"
        self.requests.append((kind, resource.type, dict(request.query)))
        if waiting := self.faults.get((kind, resource.type)):
            answer = waiting.pop(0)(request)
            return await answer if isinstance(answer, Awaitable) else answer
        if resource.type in self.missing:
            return refusal(404, "the server could not find the requested resource")(request)
        if kind == "watch":
            return await self._watch(request, resource)
        return self._list(request, resource)

    def _list(self, request: web.Request, resource: Resource) -> web.Response:
        """``continue`` has the version of the first page and the number of objects already sent."""
        version, _, first = request.query.get("continue", f"{self.version}/0").partition("/")
        begin, limit = int(first), int(request.query["limit"])
        found = list(self.objects[resource.type].values())
        metadata: Object = {"resourceVersion": version}
        if begin + limit < len(found):
            metadata["continue"] = f"{version}/{begin + limit}"
        items = found[begin : begin + limit]
        return web.json_response({"kind": "List", "metadata": metadata, "items": items})

    async def _watch(self, request: web.Request, resource: Resource) -> web.StreamResponse:
        since = int(request.query["resourceVersion"])
        if since < self.oldest:
            return refusal(410, "too old")(request)
        queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        for version, kind, event in self.log:
            if kind == resource.type and version > since:
                queue.put_nowait(_line(event["type"], event["object"]))
        if int(request.query["timeoutSeconds"]) < 10:
            queue.put_nowait(_line("BOOKMARK", _at(self.version)))
            queue.put_nowait(None)
        response = web.StreamResponse()
        await response.prepare(request)
        self.watches.setdefault(resource.type, []).append(queue)
        try:
            while (line := await queue.get()) is not None:
                await response.write(line)
        finally:
            self.watches[resource.type].remove(queue)
        return response


def _key(obj: Object) -> str:
    meta = obj["metadata"]
    return f"{meta['namespace']}/{meta['name']}" if "namespace" in meta else str(meta["name"])


def _at(version: int) -> Object:
    return {"metadata": {"resourceVersion": str(version)}}


def _line(kind: str, obj: Object) -> bytes:
    return json.dumps({"type": kind, "object": obj}, separators=(",", ":")).encode() + b"\n"


def refusal(status: int, message: str, **headers: str) -> Callable[[Any], web.Response]:
    """A Status of failure."""
    body = {"kind": "Status", "status": "Failure", "code": status, "message": message}
    return lambda _: web.json_response(body, status=status, headers=headers)


def ending(*events: tuple[str, Object]) -> Fault:
    """A watch that ends after these events."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for kind, obj in events:
            await response.write(_line(kind, obj))
        return response

    return answer


def expired(message: str = "too old") -> Fault:
    """A watch whose only event is 410."""
    return ending(("ERROR", {"kind": "Status", "code": 410, "message": message}))


async def cut(request: web.Request) -> web.StreamResponse:
    """Starts an answer and resets the connection. (Without the first byte aiohttp would repeat the
    request by itself.)"""
    response = web.StreamResponse()
    await response.prepare(request)
    await response.write(b"{")
    assert request.transport is not None
    request.transport.abort()
    return response


async def silence(request: web.Request) -> web.StreamResponse:
    """Sends only headers."""
    response = web.StreamResponse()
    await response.prepare(request)
    with suppress(asyncio.CancelledError):
        await asyncio.Event().wait()
    return response


def node(name: str, cpu: int = 4, **labels: str) -> Object:
    """A node with that many cpus."""
    return {
        "metadata": {"name": name, "labels": labels},
        "status": {"allocatable": {"cpu": str(cpu)}},
    }


def pod(number: int, on: str = "", phase: str = "Pending", **spec: Any) -> Object:
    """The pod ``pNUMBER``, whose uid ends with the number."""
    where = {"nodeName": on} if on else {}
    return {
        "metadata": {"name": f"p{number}", "namespace": "default", "uid": uid(number)},
        "spec": {"containers": [{"name": "app"}], **where, **spec},
        "status": {"phase": phase},
    }


def uid(number: int) -> str:
    """The uid of ``pod(number)``."""
    return f"00000000-0000-0000-0000-{number:012}"
