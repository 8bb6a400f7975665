"""Pods that are created and bound, and nodes that report many images, while replicas are killed."""

import asyncio
import json
import threading
import time
from collections.abc import Coroutine
from typing import Any, Self

from benchmarks.cluster.client import Client, collection
from tests.cluster.harness.manifests import SCHEDULER, pod
from tests.cluster.harness.plane import ADMIN, ControlPlane
from tests.waiting import joined, until

_LABELS = 40
"""Of a pod, which has about 2 kB by that."""
_IMAGES = 2_100
"""Of a node: about 160 kB."""
_RATE = 20
"""Pods a second that are created while the replicas are down."""


class Load:
    """The pods of a namespace. ``run`` makes what the log holds by the time of the kill, with pods
    still being created afterwards, until ``stop``."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self._plane, self._namespace = plane, namespace
        self._over = threading.Event()
        self._first = 0.0
        self._bound: set[str] = set()
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Deletes the pods."""
        self._over.set()
        for each in self._threads:
            joined(each)

        async def cleared(client: Client) -> None:
            await client.delete(collection("Pod", self._namespace))

        _run(self._plane, cleared)

    def run(self, pods: int, updates: int, within: float) -> None:
        """Creates pods while nodes change, and waits until all are bound. From then on pods are
        created at a steady rate."""

        async def made(client: Client) -> None:
            metadata = {"name": self._namespace}
            await client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
            created = client.create_all((_pod(n), self._namespace) for n in range(pods))
            await asyncio.gather(created, _update(client, 100, updates))

        _run(self._plane, made)
        until(lambda: len(self._looked()) >= pods, "all pods are bound", within, every=1.0)
        self._start(self._create_more, pods)

    def watch(self) -> None:
        """From now on the first pod that is bound is waited for."""
        self._bound = self._looked()
        self._start(self._look_out)

    def first_bound(self, within: float) -> float:
        """When (s since 1970) a pod was bound that was not when ``watch`` was called."""
        return until(lambda: self._first, "a pod is bound", within, every=0.05)

    def stop(self, within: float) -> None:
        """No more pods; waits until all are bound."""
        self._over.set()
        for each in self._threads:
            joined(each)
        path = f"/api/v1/namespaces/{self._namespace}/pods"

        def is_done() -> bool:
            query = f"{path}?fieldSelector=spec.nodeName%3D&limit=1"
            return not self._plane.admin.call("GET", query).body["items"]

        until(is_done, "all pods are bound", within, every=0.5)

    def _looked(self) -> set[str]:
        """The names of the pods that are bound."""
        found = self._plane.admin.list("Pod", self._namespace, fieldSelector="spec.nodeName!=")
        return {each["metadata"]["name"] for each in found}

    def _start(self, work: Any, *arguments: int) -> None:
        self._threads.append(threading.Thread(target=work, args=arguments, daemon=True))
        self._threads[-1].start()

    def _create_more(self, first: int) -> None:
        client, number = self._plane.client(ADMIN), first
        while not self._over.wait(1 / _RATE):
            client.create(_pod(number), self._namespace)
            number += 1
        client.close()

    def _look_out(self) -> None:
        _run(self._plane, self._watched)

    async def _watched(self, client: Client) -> None:
        path = collection("Pod", self._namespace)
        listed = await client.get(path, {"limit": "1"})
        async for line in client.watch(path, listed["metadata"]["resourceVersion"]):
            found = json.loads(line)["object"]
            name, node = found["metadata"].get("name"), found["spec"].get("nodeName")
            if node and name not in self._bound:
                self._first = time.time()
                return


def give_images(plane: ControlPlane, nodes: int, updates: int) -> None:
    """``nodes`` nodes report images; more ``updates`` follow."""

    async def given(client: Client) -> None:
        await _update(client, nodes, nodes + updates)

    _run(plane, given)


async def _update(client: Client, nodes: int, updates: int) -> None:
    """Changes the images of nodes, one node after the other, some at a time."""
    free = asyncio.Semaphore(4)

    async def change(number: int) -> None:
        async with free:
            images = [
                {"names": [f"registry.example.com/team/service-{n}:{number}"], "sizeBytes": updates}
                for n in range(_IMAGES)
            ]
            path = f"{collection('Node')}/n{number % nodes:05d}/status"
            await client.patch_when_free(path, {"status": {"images": images}})

    async with asyncio.TaskGroup() as tasks:
        for number in range(updates):
            tasks.create_task(change(number))


def _pod(number: int) -> Any:
    labels = {f"example.com/label-{n}": f"value-{n}-{number}" for n in range(_LABELS)}
    return pod(f"late-{number:05d}", "10m", scheduler=SCHEDULER, labels=labels)


def _run(plane: ControlPlane, work: Any) -> None:
    async def run() -> None:
        client = Client(plane.url, plane.token(ADMIN), plane.tls(), connections=24)
        try:
            done: Coroutine[Any, Any, None] = work(client)
            await done
        finally:
            await client.close()

    asyncio.run(run())
