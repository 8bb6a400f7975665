"""A replica on a real database beside a cluster in memory, and stories that are played with it."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

from eventsched.domain.detail_levels import DetailLevels
from eventsched.domain.records import StreamStarted
from eventsched.domain.records.log_entry import LogEntry
from eventsched.eventlog.address_file import Address
from eventsched.eventlog.postgres.reader import Reader
from eventsched.plugins.node_resources_fit import NodeResourcesFit
from eventsched.runtime.leader.leader import Leader
from eventsched.runtime.leader.limits import Limits
from eventsched.runtime.live.clock import Clock
from eventsched.runtime.live.replica import Replica
from eventsched.runtime.live.replica_plan import ReplicaPlan
from eventsched.scheduling.engine import Engine
from tests.builders import engine_of
from tests.faults.cluster import OPENING
from tests.live.stage import LiveCluster, nodes

STREAM = "s"


class Ears:
    """Hears what is committed, and what is read as a standby."""

    def __init__(self) -> None:
        self.positions: list[int] = []
        self.followed: list[int] = []
        self.takeovers = self.fences = 0

    def records_followed(self, logged: Sequence[LogEntry]) -> None:
        """Keeps the positions."""
        self.followed += [each.position for each in logged]

    def records_committed(self, logged: Sequence[LogEntry], now: int) -> None:
        """Keeps the positions."""
        self.positions += [each.position for each in logged]

    def batch_committed(self, seconds: float, records: int, size: int) -> None:
        """Does nothing."""

    def log_applied(self, seconds: float) -> None:
        """Does nothing."""

    def took_over(self, seconds: float) -> None:
        """Counts."""
        self.takeovers += 1

    def fenced(self) -> None:
        """Counts."""
        self.fences += 1


class Booth:
    """An election that a test decides."""

    def __init__(self, *, wins: bool = True) -> None:
        self.wins, self.loses = asyncio.Event(), asyncio.Event()
        self.released = self.stood = self.watched_leader = 0
        self.leader = ""
        if wins:
            self.wins.set()

    def watch_leader(self) -> None:
        """See the port."""
        self.watched_leader += 1

    async def won(self) -> None:
        """See the port."""
        self.stood += 1
        await self.wins.wait()

    async def wait_until_lost(self) -> str:
        """See the port."""
        await self.loses.wait()
        return "the lease is held by another"

    async def release(self) -> None:
        """See the port."""
        self.released += 1

    def annotate(self, key: str, value: str) -> None:
        """See the port."""


def _engine(levels: DetailLevels) -> Engine:
    engine = engine_of(NodeResourcesFit())
    engine.set_detail(levels)
    return engine


class Scene:
    """A replica and what it needs."""

    def __init__(
        self,
        address: Address,
        *,
        wins: bool = True,
        detail_levels: DetailLevels | None = None,
        opening: StreamStarted = OPENING,
        **more: Any,
    ) -> None:
        self.cluster, self.ears, self.booth = LiveCluster(), Ears(), Booth(wins=wins)
        self.cluster.put(*nodes(3))
        plan = ReplicaPlan(
            partial(_engine, detail_levels or DetailLevels()), opening, address, STREAM, "me",
            Limits(records=16, snapshot_every=20), **more,
        )  # fmt: skip
        self.replica = Replica(plan, self.cluster, self.booth, self.ears, Clock().now)

    @property
    def leads(self) -> bool:
        """Whether the replica makes attempts."""
        driver = self.replica.driver
        return driver is not None and driver.leader.leading

    @property
    def leader(self) -> Leader:
        """The leader of the term."""
        assert self.replica.driver is not None
        return self.replica.driver.leader

    @property
    def settled(self) -> bool:
        """Whether it does, and everything is committed."""
        driver = self.replica.driver
        return self.leads and driver is not None and driver.leader.all_committed

    @property
    def bound(self) -> int:
        """Pods on nodes."""
        return sum(bool(seen.pod.node_name) for seen in self.cluster.server.pods.values())


Story = Callable[[Scene, "asyncio.Task[None]"], Awaitable[None]]


def play(address: Address, story: Story, **more: Any) -> Scene:
    """Runs a replica beside a story, and ends it where it still runs. Waits for what its
    housekeeping does to the log: a replica that ends does not."""

    async def run() -> Scene:
        scene = Scene(address, **more)
        running = asyncio.create_task(scene.replica.run())
        try:
            await story(scene, running)
        finally:
            scene.replica.end()
            async with asyncio.timeout(30):
                await asyncio.gather(running, return_exceptions=True)
        return scene

    scene = asyncio.run(run())
    for thread in threading.enumerate():
        if thread.name == "housekeeping":
            thread.join(30)
    return scene


def kinds(address: str) -> list[str]:
    """The kinds of all records."""
    return [each.kind for each in Reader(address, STREAM).read()]
