"""A plugin that hangs in a live term: in an attempt, and at a point that cannot be undone."""

import asyncio
from typing import Any

from eventsched.plugins.node_resources_fit import NodeResourcesFit
from eventsched.runtime.call_deadlines import Deadlines
from eventsched.runtime.leader.followed_stream import FollowedStream
from eventsched.runtime.leader.leader import Leader
from eventsched.runtime.leader.limits import Limits
from eventsched.runtime.live.driver import Driver
from eventsched.scheduling.framework import ClusterEvent
from eventsched.scheduling.framework.call_guard import Guard
from eventsched.scheduling.framework.per_node_plugins import adapted
from tests.builders import engine_of, make_node, make_pod
from tests.faults.cluster import OPENING, STREAM
from tests.live.stage import START, LiveCluster, LiveDatabase, until


class Picky:
    """Accepts nodes with the label ``fits``; hangs on request."""

    name = "Picky"
    wakes_on = (ClusterEvent.NODE_UPDATE_LABEL,)
    hangs = ""

    def filter_node(self, pod: Any, node: Any) -> Any:
        while self.hangs == f"filter {pod.name}":
            pass
        return None if "fits" in node.labels else "node(s) did not fit"

    def hint(self, cycle: Any, pod: Any, change: Any) -> bool:
        while self.hangs == "hint":
            pass
        return False


def driver(guard: Guard, picky: Picky, cluster: LiveCluster, database: LiveDatabase) -> Driver:
    """A new term's; a thousand times as fast as the loop."""

    def engine() -> Any:
        return engine_of(NodeResourcesFit(), guard.guarded(adapted(picky)))

    began: list[float] = []

    def now() -> int:
        began.append(asyncio.get_running_loop().time())
        return START + round((began[-1] - began[0]) * 1e9)

    leader = Leader(FollowedStream(engine, STREAM), OPENING, Limits(records=16))
    return Driver(leader, cluster, database, now)


def test_an_attempt_that_hangs_fails_and_the_others_go_on() -> None:
    async def run() -> None:
        guard, picky = Deadlines(0.2), Picky()
        cluster, database = LiveCluster(), LiveDatabase()
        cluster.put(make_node("n1", labels={"fits": ""}))
        picky.hangs = "filter bad"
        running = asyncio.create_task(driver(guard, picky, cluster, database).run())
        try:
            await until(lambda: cluster.watched)
            cluster.put(make_pod("bad"), make_pod("good"))
            await until(lambda: ("good", "n1") in cluster.binds)
            picky.hangs = ""
            await until(lambda: ("bad", "n1") in cluster.binds)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        assert "PluginOverran" in database.kinds
        assert database.kinds.count("TermBegan") == 1

    asyncio.run(run())


def test_a_hint_that_hangs_ends_the_term_and_the_next_term_skips_it() -> None:
    async def run() -> None:
        guard, picky = Deadlines(1.0), Picky()
        cluster, database = LiveCluster(), LiveDatabase()
        cluster.put(make_node("n1"), make_pod("p1"))
        picky.hangs = "hint"
        first = asyncio.create_task(driver(guard, picky, cluster, database).run())
        await until(lambda: "PodDecided" in database.kinds)
        cluster.put(make_node("n1", labels={"fits": ""}))
        assert await first == "plugin Picky took longer than 1 s in hint"
        assert "PluginOverran" not in database.kinds
        second = asyncio.create_task(driver(guard, picky, cluster, database).run())
        try:
            # Asked for again with the pod's newer version if its condition was written meanwhile.
            await until(lambda: ("p1", "n1") in cluster.binds)
        finally:
            second.cancel()
            await asyncio.gather(second, return_exceptions=True)
        began = len(database.kinds) - 1 - database.kinds[::-1].index("TermBegan")
        assert database.kinds[began : began + 3] == ["TermBegan", "PluginOverran", "NodeUpdated"]

    asyncio.run(run())
