"""An in-memory cluster and database for drivers; a test can make either unreachable."""

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any

from eventsched.cluster.messages import (
    BindPod,
    ClusterAnswer,
    EvictPod,
    GetPod,
    Listed,
    PatchStatus,
    TouchPod,
    Unknown,
    WatchEvent,
    WriteEvent,
)
from eventsched.domain.objects import Node, Pod
from eventsched.plugins.node_resources_fit import NodeResourcesFit
from eventsched.runtime.leader.followed_stream import FollowedStream
from eventsched.runtime.leader.leader import Leader
from eventsched.runtime.leader.leader_messages import (
    Acquire,
    Append,
    DatabaseAnswer,
    DatabaseRequest,
    Renew,
    StoreSnapshot,
)
from eventsched.runtime.leader.limits import Limits
from eventsched.runtime.live.driver import Driver
from eventsched.runtime.live.ports import Subscriber
from tests.builders import engine_of, make_node, make_pod
from tests.faults.apiserver import RESOURCES, ApiServer
from tests.faults.cluster import OPENING, STREAM
from tests.faults.database import Database

START = 1_700_000_000_000_000


async def until(condition: Callable[[], object], within: float = 30.0) -> None:
    """Waits for something that is bound to come; the loop turns meanwhile."""
    async with asyncio.timeout(within):
        while not condition():
            await asyncio.sleep(0.001)


class LiveCluster:
    """The Cluster port over a simulated API server. ``silent`` requests are carried out, but their
    answers are lost; while ``held`` none is carried out."""

    def __init__(self) -> None:
        self.server = ApiServer()
        self.requests: list[Any] = []
        self.lists = 0
        self.unlisted = 0
        """How many lists fail from now on."""
        self.silent: type | tuple[type, ...] = ()
        self.held = False
        self.begun = asyncio.Event()
        """Whether everything was listed once."""
        self.begun.set()
        self._subscriber: Subscriber | None = None
        self._told = dict.fromkeys(RESOURCES, 0)

    @property
    def binds(self) -> list[tuple[str, str]]:
        """Pods and nodes of all binds that were asked for, in order."""
        asked = [each for each in self.requests if isinstance(each, BindPod)]
        return [(each.uid, each.node) for each in asked]

    def put(self, *objects: Node | Pod) -> None:
        """Creates or changes objects; the watch reports them."""
        for each in objects:
            if isinstance(each, Node):
                self.server.put_node(each)
            else:
                self.server.put_pod(each)
        self.tell()

    def tell(self) -> None:
        """Informs watchers of new events."""
        for resource, history in self.server.histories.items():
            news: list[WatchEvent] = history[self._told[resource] :]
            self._told[resource] = len(history)
            for event in news if self._subscriber is not None else ():
                assert self._subscriber is not None
                self._subscriber(event)

    async def listed(self) -> None:
        """See the port."""
        await self.begun.wait()

    async def list_cluster(self, subscriber: Subscriber) -> str:
        """See the port."""
        await asyncio.sleep(0)
        self.lists += 1
        if self.unlisted:
            self.unlisted -= 1
            return "the server is unreachable"
        self.tell()
        self._subscriber = subscriber
        subscriber(Listed([self.server.list(resource) for resource in RESOURCES]))
        return ""

    def unsubscribe(self) -> None:
        """See the port."""
        self._subscriber = None

    @property
    def watched(self) -> bool:
        """Whether a server listens."""
        return self._subscriber is not None

    async def carry_out(self, request: Any) -> ClusterAnswer:
        """See the port."""
        self.requests.append(request)
        await asyncio.sleep(0)
        await until(lambda: not self.held)
        answer = self._answer(request)
        self.tell()
        return Unknown(request) if isinstance(request, self.silent) else answer

    def _answer(self, request: Any) -> ClusterAnswer:
        match request:
            case BindPod():
                return self.server.bind(request)
            case GetPod():
                return self.server.get(request)
            case TouchPod():
                return self.server.touch(request)
            case EvictPod():
                return self.server.evict(request)
            case PatchStatus():
                return self.server.patch_status(request)
            case WriteEvent():
                return self.server.write_event(request)
        raise AssertionError(request)


class LiveDatabase:
    """A leader's database. While it is ``unreachable`` every call fails with an unknown outcome."""

    def __init__(self) -> None:
        self.stored = Database(Random(1))
        self.unreachable = False
        self.asked = 0

    async def answer(self, request: DatabaseRequest) -> DatabaseAnswer | Unknown | None:
        """See the driver's port."""
        self.asked += 1
        await asyncio.sleep(0)
        if self.unreachable:
            return Unknown(request)
        match request:
            case Acquire(known=known):
                return self.stored.acquire(known)
            case Append(batch=batch):
                return self.stored.append(batch)
            case Renew(term=term):
                return self.stored.renew(term)
            case StoreSnapshot(term=term, snapshot=snapshot):
                self.stored.store_snapshot(term, snapshot)
        return None

    @property
    def kinds(self) -> list[str]:
        """The kinds of all records that are committed."""
        return [each.kind for each in self.stored.records]


class QuickDriver(Driver):
    """Pauses for a thousandth of the time: the clock of ``Stage`` runs that much faster."""

    def _seconds_until(self, time: int) -> float:
        return super()._seconds_until(time) / 1000


class Stage:
    """A driver, its cluster and its database. Time runs a thousand times as fast as the loop's."""

    def __init__(self, **more: Any) -> None:
        self.cluster, self.database = LiveCluster(), LiveDatabase()
        followed_stream = FollowedStream(lambda: engine_of(NodeResourcesFit()), STREAM)
        self.leader = Leader(followed_stream, OPENING, Limits(records=16))
        self.led = 0
        self.driver = QuickDriver(
            self.leader, self.cluster, self.database, self._now, on_leading=self._leads, **more
        )
        self._began: float | None = None

    def _now(self) -> int:
        now = asyncio.get_running_loop().time()
        self._began = now if self._began is None else self._began
        return START + round((now - self._began) * 1e9)

    def _leads(self) -> None:
        self.led += 1

    @property
    def bound(self) -> set[str]:
        """The pods that are on a node."""
        return {uid for uid, seen in self.cluster.server.pods.items() if seen.pod.node_name}


def nodes(count: int, **more: Any) -> list[Node]:
    """Nodes of 4 cpu."""
    return [make_node(f"n{number}", **more) for number in range(count)]


def pods(count: int, prefix: str = "p", **more: Any) -> list[Pod]:
    """Pods of 0.1 cpu."""
    return [make_pod(f"{prefix}{number}", cpu=100, memory=0, **more) for number in range(count)]
