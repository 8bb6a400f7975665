"""Innocent pods: how long each waited for its node, seen by a watch of their namespace alone."""

import asyncio
import itertools
import time
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from benchmarks.cluster.client import Client, collection
from benchmarks.cluster.watching import Event
from tests.cluster.harness.manifests import pod

NAMESPACE = "innocent"
_PODS = collection("Pod", NAMESPACE)
_NUMBERS = itertools.count(1)
_line = msgspec.json.Decoder(Event)


class Waits(NamedTuple):
    """Seconds from a pod's creation to its bind, sorted; ``unbound`` pods had none by the deadline
    and count as that long. ``server`` are seconds that small reads of the API server took
    meanwhile, sorted."""

    seconds: list[float]
    unbound: int
    server: list[float]


def percentile(values: Sequence[float], share: float) -> float:
    """The value that this share (0 to 1) of sorted values does not exceed; 0 for none."""
    return values[min(len(values) - 1, int(len(values) * share))] if values else 0.0


class Innocents:
    """Makes pods at a steady pace and follows them. Names are never used again."""

    def __init__(self, client: Client, scheduler: str) -> None:
        self._client, self._scheduler = client, scheduler
        self._bound: dict[str, float] = {}
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begins to watch."""
        listed = await self._client.get(_PODS, {"limit": "1"})
        self._task = asyncio.create_task(self._follow(listed["metadata"]["resourceVersion"]))

    async def close(self) -> None:
        """Ends the watch."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def measure(self, count: int, rate: float, deadline: float) -> Waits:
        """Creates ``count`` pods, ``rate`` a second, and waits until all are bound, ``deadline``
        seconds at most after the last one."""
        server: list[float] = []
        probe = asyncio.create_task(self._probe(server))
        created: dict[str, float] = {}
        began = time.monotonic()
        try:
            async with asyncio.TaskGroup() as tasks:
                for number in range(count):
                    await asyncio.sleep(max(0.0, began + number / rate - time.monotonic()))
                    tasks.create_task(self._create(created))
            end = time.monotonic() + deadline
            while not created.keys() <= self._bound.keys() and time.monotonic() < end:
                await asyncio.sleep(0.02)
        finally:
            probe.cancel()
            await asyncio.gather(probe, return_exceptions=True)
        bound = self._bound
        waits = [bound[name] - at for name, at in created.items() if name in bound]
        late = len(created) - len(waits)
        waits += [deadline] * late
        return Waits(sorted(max(0.0, wait) for wait in waits), late, sorted(server))

    async def clear(self) -> None:
        """Deletes them all."""
        await self._client.delete(_PODS)

    async def _follow(self, version: str) -> None:
        while True:  # the server ends a watch now and then
            async for line in self._client.watch(_PODS, version):
                event, now = _line.decode(line), time.monotonic()
                version = event.object.metadata.resource_version
                if event.object.spec.node_name:
                    self._bound.setdefault(event.object.metadata.name, now)

    async def _create(self, created: dict[str, float]) -> None:
        number = next(_NUMBERS)
        name = f"innocent-{number}"
        labels = {"app": f"web-{number % 5}"}
        made = pod(name, cpu="10m", scheduler=self._scheduler, labels=labels)
        await self._client.create(made, NAMESPACE)
        created[name] = time.monotonic()

    async def _probe(self, server: list[float]) -> None:
        while True:
            began = time.monotonic()
            await self._client.get(f"api/v1/namespaces/{NAMESPACE}")
            server.append(time.monotonic() - began)
            await asyncio.sleep(0.05)
