"""An API server on loopback for whole processes: beside lists and watches it has Leases, takes
binds, and counts them."""

import asyncio
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, NamedTuple, Self, TypeVar

from aiohttp import web

from eventsched.cluster.kube.calls.request_bodies import DECISION
from tests.kube.fakeapi import NODES, PODS, FakeApi, Object, node, refusal
from tests.waiting import joined

T = TypeVar("T")
NAMESPACE = "default"


class Asked(NamedTuple):
    """A bind as it was asked for. ``on`` is the node that its pod had by then, empty for none."""

    uid: str
    node: str
    decision: str
    on: str


class BindableApi(FakeApi):
    """``binds`` has how often each pod was bound, by name; ``refused`` the binds that came too
    late; ``asked`` all of them. In a thread of its own while the block lasts; other threads use
    ``created`` and ``placed``."""

    def __init__(self) -> None:
        super().__init__()
        self.binds: Counter[str] = Counter()
        self.asked: list[Asked] = []
        self.refused = 0
        self.leases: dict[str, Object] = {}
        self.url = ""
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="API server", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(30)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        joined(self._thread)

    def created_nodes(self, count: int) -> None:
        """Makes nodes."""
        for number in range(count):
            made = node(f"n{number}", 1000)
            made["status"]["allocatable"]["pods"] = "100000"
            self._in_loop(partial(self.put, NODES, made))

    def created(self, name: str) -> None:
        """Makes a pod."""
        requests = {"cpu": "10m"}
        container = {"name": "c", "image": "i", "resources": {"requests": requests}}
        uid = f"00000000-0000-0000-0000-{len(self.objects['Pod']):012d}"
        pod = {
            "metadata": {"name": name, "namespace": NAMESPACE, "uid": uid},
            "spec": {"schedulerName": "default-scheduler", "containers": [container]},
            "status": {"phase": "Pending"},
        }
        self._in_loop(lambda: self.put(PODS, pod))

    def placed(self) -> dict[str, str]:
        """The nodes of the pods that are on one."""
        found = list(self.objects["Pod"].values())
        return {
            pod["metadata"]["name"]: pod["spec"]["nodeName"]
            for pod in found
            if "nodeName" in pod["spec"]
        }

    def _in_loop(self, function: Callable[[], T]) -> T:
        done: Future[T] = Future()
        self._loop.call_soon_threadsafe(lambda: done.set_result(function()))
        return done.result(30)

    def _serve(self) -> None:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self.handle)
        runner = web.AppRunner(app, shutdown_timeout=0.1)

        async def begin() -> None:
            await runner.setup()
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
            self._ready.set()

        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(begin())
        self._loop.run_forever()
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self._loop.run_until_complete(runner.cleanup())
        self._loop.close()

    # --- answers --------------------------------------------------------------------------

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answers everything that a scheduler asks."""
        path = request.path
        if path in self._by_path:
            return await super().handle(request)
        if path == "/version":
            return web.json_response({"gitVersion": "v1.36.0"})
        if "/leases" in path:
            return await self._lease(request)
        if path.endswith("/binding"):
            return self._bind(path.split("/")[-2], await request.json())
        if "/pods/" in path:
            name = path.split("/pods/")[1].split("/")[0]
            patched = request.method == "PATCH"
            return self._patch(name, await request.json()) if patched else self._pod(name)
        body = await request.json() if request.can_read_body else {}
        return web.json_response(body, status=201)

    def _pod(self, name: str) -> web.Response:
        pod = self.objects["Pod"].get(f"{NAMESPACE}/{name}")
        return web.json_response(pod) if pod else refusal(404, "there is no such pod")(None)

    def _patch(self, name: str, patch: Any) -> web.Response:
        """A patch of a pod's status, which makes a new version: binds of older ones fail."""
        pod = self.objects["Pod"].get(f"{NAMESPACE}/{name}")
        if pod is None:
            return self._pod(name)
        if not _is_current(pod, patch["metadata"]):
            return _conflict()
        self.put(PODS, {**pod, "status": {**pod["status"], **patch["status"]}})
        return self._pod(name)

    def _bind(self, name: str, binding: Any) -> web.Response:
        """As an API server does: a pod that has changed, or has a node, is not bound."""
        pod, wanted = self.objects["Pod"][f"{NAMESPACE}/{name}"], binding["metadata"]
        node, decision = binding["target"]["name"], wanted["annotations"][DECISION]
        on = pod["spec"].get("nodeName", "")
        self.asked.append(Asked(pod["metadata"]["uid"], node, decision, on))
        if on or not _is_current(pod, wanted):
            self.refused += 1
            return _conflict()
        self.binds[name] += 1
        self.put(PODS, {**pod, "spec": {**pod["spec"], "nodeName": node}})
        return web.json_response({"kind": "Status", "status": "Success", "code": 201}, status=201)

    async def _lease(self, request: web.Request) -> web.Response:
        if request.method == "GET":
            lease = self.leases.get(request.path)
            if lease is None:
                body = {"kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404}
                return web.json_response(body, status=404)
            return web.json_response(lease)
        lease = await request.json()
        key = request.path
        if request.method == "POST":
            key = f"{key}/{lease['metadata']['name']}"
        before = self.leases.get(key)
        version = lease["metadata"].get("resourceVersion")
        if before is not None and version != before["metadata"]["resourceVersion"]:
            body = {"kind": "Status", "status": "Failure", "reason": "Conflict", "code": 409}
            return web.json_response(body, status=409)
        self.version += 1
        lease["metadata"]["resourceVersion"] = str(self.version)
        self.leases[key] = lease
        return web.json_response(lease, status=200 if before else 201)


def _is_current(pod: Object, wanted: Any) -> bool:
    """Whether a request's preconditions hold."""
    return all(
        wanted.get(field) in (None, "", pod["metadata"][field])
        for field in ("uid", "resourceVersion")
    )


def _conflict() -> web.Response:
    body = {"kind": "Status", "status": "Failure", "code": 409, "reason": "Conflict",
            "message": "the object has been modified"}  # fmt: skip
    return web.json_response(body, status=409)
