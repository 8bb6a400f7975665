"""What happens to the pods: a separate watch shows when each was created, tried and bound.

Times are those at which an event of the watch arrives. Its delay is the same for both schedulers,
and for both ends of a latency.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import Mapping

import msgspec

from benchmarks.cluster.client import Client


class _Meta(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    namespace: str = ""
    labels: dict[str, str] = {}
    resource_version: str = ""


class _Condition(msgspec.Struct, frozen=True):
    type: str
    status: str = ""


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    node_name: str = ""


class _Status(msgspec.Struct, frozen=True):
    conditions: list[_Condition] = []


class _Pod(msgspec.Struct):
    metadata: _Meta
    spec: _Spec = _Spec()
    status: _Status = _Status()


class Event(msgspec.Struct):
    """A line of a watch of pods."""

    type: str
    object: _Pod


_event = msgspec.json.Decoder(Event)


class Seen:
    """One pod: when (s, monotonic) it was created and bound; 0.0 for not yet."""

    __slots__ = ("attempted", "bound", "created", "labels")

    def __init__(self, created: float, labels: Mapping[str, str]) -> None:
        self.created = created
        self.labels = labels
        self.attempted = False
        self.bound = 0.0


class Watching:
    """Follows all pods of a cluster that is empty at first."""

    def __init__(self, client: Client) -> None:
        self.expected: dict[str, int] = defaultdict(int)
        """Pods that should be there, by namespace."""
        self.latencies: list[float] = []
        """Seconds from creation to bind of the measured pods."""
        self.span = [0.0, 0.0]
        """When measuring began, and when the last measured pod was bound (s, monotonic)."""
        self._since = 0.0
        self._client = client
        self._pods: dict[str, dict[str, Seen]] = defaultdict(dict)
        self._bound: dict[str, int] = defaultdict(int)
        self._collecting: set[str] = set()
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begins to follow."""
        listed = await self._client.get("api/v1/pods", {"limit": "1"})
        version = listed["metadata"]["resourceVersion"]
        self._task = asyncio.create_task(self._follow(version))

    async def close(self) -> None:
        """Ends."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def collect(self, namespaces: set[str]) -> None:
        """From now on pods that are bound in these namespaces are measured."""
        self._collecting |= namespaces
        if not self.span[0]:
            self.span[0] = time.monotonic()

    def restart(self) -> None:
        """Measures from now on, also the latency of pods that are there already."""
        self._since = self.span[0] = time.monotonic()

    def stop(self) -> None:
        """Stops measuring."""
        self._collecting.clear()

    def expect(self, namespace: str, count: int) -> None:
        """``count`` more pods are in a namespace."""
        self.expected[namespace] += count

    def names(self, namespace: str, labels: Mapping[str, str]) -> list[str]:
        """The pods of a namespace that have these labels."""
        pods = self._pods[namespace].items()
        return [name for name, pod in pods if labels.items() <= pod.labels.items()]

    def of(self, namespace: str) -> Mapping[str, Seen]:
        """The pods of a namespace by name."""
        return self._pods[namespace]

    async def bound(self, namespace: str, patience: float, *, attempted: bool = False) -> None:
        """Waits until all expected pods of a namespace are bound (or tried at least once). Raises
        TimeoutError after ``patience`` seconds in which nothing has happened."""
        while not self._done(namespace, attempted=attempted):
            self._changed.clear()
            async with asyncio.timeout(patience):
                await self._changed.wait()

    async def seen(self, namespace: str, count: int, patience: float) -> None:
        """Waits until ``count`` pods of a namespace exist. Raises TimeoutError as ``bound``."""
        while len(self._pods[namespace]) < count:
            self._changed.clear()
            async with asyncio.timeout(patience):
                await self._changed.wait()

    def _done(self, namespace: str, *, attempted: bool) -> bool:
        wanted = self.expected[namespace]
        if self._bound[namespace] >= wanted:
            return True
        pods = self._pods[namespace].values()
        return attempted and sum(bool(p.bound) or p.attempted for p in pods) >= wanted

    async def _follow(self, version: str) -> None:
        while True:  # the server ends a watch now and then
            async for line in self._client.watch("api/v1/pods", version):
                event = _event.decode(line)
                if event.type not in ("ADDED", "MODIFIED", "DELETED"):
                    raise RuntimeError(f"the watch says {line[:200]!r}")
                version = event.object.metadata.resource_version
                self._take(event)

    def _take(self, event: Event) -> None:
        now = time.monotonic()
        meta, pods = event.object.metadata, self._pods[event.object.metadata.namespace]
        if event.type == "DELETED":
            gone = pods.pop(meta.name, None)
            self._bound[meta.namespace] -= bool(gone and gone.bound)
            return
        seen = pods.get(meta.name)
        if seen is None:
            seen = pods[meta.name] = Seen(now, meta.labels)
        seen.attempted |= any(c.type == "PodScheduled" for c in event.object.status.conditions)
        if event.object.spec.node_name and not seen.bound:
            seen.bound = now
            self._bound[meta.namespace] += 1
            if meta.namespace in self._collecting:
                self.latencies.append(now - max(seen.created, self._since))
                self.span[1] = now
        self._changed.set()
