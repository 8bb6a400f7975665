"""Histories in a database for tests of what is read from it: simulations, and a made-up one in
which nearly everything happens that records can say."""

from collections.abc import Hashable
from contextlib import closing
from typing import Any

import numpy as np

from eventsched.cli.main import main
from eventsched.domain import records
from eventsched.domain.nodes.node_views import NodeView
from eventsched.domain.objects import Pod, Taint
from eventsched.domain.records import FORMAT, Stimulus
from eventsched.domain.records.log_entry import LogEntry
from eventsched.domain.records.verdicts import IGNORED
from eventsched.eventlog.port import Batch, StoredRecord
from eventsched.eventlog.postgres.writer import PostgresEventLog
from eventsched.scheduling.framework import Cycle, DependsOn, IntColumn, Normalization, Status, Wait
from tests.builders import SECOND, engine_with, make_node, make_pod
from tests.databases import migrate
from tests.postgres.simulations import small_batches

TIGHT, ODD = "tight", "odd"
GENERATED = "nodes=12,pods=60,shape=tight,seed=3"
CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{plugins: {multiPoint: {enabled: [{name: FirstScheduledNode}]}}}]
"""
_BATCH = 7


class Wide:
    """Raw scores that need eight bytes, some below 0."""

    name = "Wide"
    normalization = Normalization.MIN_MAX
    depends_on = DependsOn.USAGE

    def sign(self, pod: Pod) -> Hashable:
        return ()

    def score(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> IntColumn:
        used = nodes.requested(("cpu",))[0]
        return used * 2**41 - 2**50


class Share:
    """Raw scores relative to the largest one."""

    name = "Share"
    normalization = Normalization.DEFAULT

    def sign(self, pod: Pod) -> Hashable:
        return ()

    def score(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> IntColumn:
        return nodes.allocatable(("cpu",))[0]


class OfWeb:
    """Scores only pods named web: tests give the nodes of the others."""

    def pre_score(self, cycle: Cycle, pod: Pod, nodes: Any) -> Status | None:
        return None if pod.name == "web" else Status.skip()


class Even(OfWeb):
    """The fewer pods, the better, and some nodes left out of it."""

    name = "Even"
    normalization = Normalization.SPREAD

    def score(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> IntColumn:
        return np.where(nodes.rows % 3 == 1, IGNORED, nodes.pods)


class Relative(OfWeb):
    """Distances between the worst and the best node, where floating point differs from integers."""

    name = "Relative"
    normalization = Normalization.RATIO

    def score(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> IntColumn:
        return nodes.rows * 29 % 101 - 50


class Own:
    """Scores with a normalisation of its own, for pods that ask for it."""

    name = "Own"

    def score(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> IntColumn:
        return np.arange(len(nodes), dtype=np.int64) * 300 - 7

    def normalize_score(self, cycle: Cycle, pod: Pod, scores: IntColumn) -> IntColumn:
        return (scores + 7) % 101


class Gang:
    """The first pod of a gang waits for the second."""

    name = "Gang"

    def permit(self, cycle: Cycle, pod: Pod, node: str) -> Status | Wait | None:
        if pod.name.startswith("late"):
            return Wait(5)
        if pod.name.startswith("gang"):
            if not cycle.waiting:
                return Wait(600)
            for uid in cycle.waiting:
                cycle.allow(uid)
        return None


class World:
    """An engine whose records are kept, to be written."""

    def __init__(self, *plugins: object) -> None:
        self.engine = engine_with(*plugins, config=CONFIG, weights={"Wide": 2, "Own": 3})
        self.logged: list[LogEntry] = []

    def see(self, stimulus: Stimulus, second: float) -> None:
        """Something happens."""
        self.logged += self.engine.observe(stimulus, round(second * SECOND))

    def attempt(self) -> dict[str, str]:
        """Makes attempts until the active queue is empty; pods that found a node, and it."""
        placed = {}
        while made := self.engine.schedule_next():
            self.logged += made
            for each in made:
                if isinstance(each.record, records.PodDecided) and each.record.node:
                    placed[each.record.uid] = each.record.node
        return placed

    def write(self, address: str, stream: str) -> None:
        """Writes all of it, in small batches."""
        with closing(PostgresEventLog(address, stream, holder="test")) as log:
            for first in range(0, len(self.logged), _BATCH):
                part = self.logged[first : first + _BATCH]
                details = {each.position: each.detail for each in part if each.detail is not None}
                log.begin(Batch([StoredRecord.of(each) for each in part], details))
                log.finish()


def odd(address: str) -> None:
    """Writes the odd day."""
    odd_day().write(address, ODD)


def odd_day() -> World:
    """A day with nodes that come, change, go and come back; pods that are refused, retried, bound,
    moved by others, wait at Permit, are given up and deleted; and pods of one name."""
    world = World(Wide(), Share(), Even(), Relative(), Own(), Gang())
    world.see(records.StreamStarted(format=FORMAT, engine="test", seed="odd"), 0)
    for number in range(1, 6):
        taints = (Taint(key="dedicated", effect="NoSchedule"),) if number == 3 else ()
        world.see(
            records.NodeAdded(node=make_node(f"n{number}", cpu=1000 * number, taints=taints)), 0
        )
    world.see(records.PodAdded(pod=make_pod("there", node_name="n5")), 0)
    for name in ("a", "b", "c", "huge"):
        world.see(records.PodAdded(pod=make_pod(name, cpu=9000 if name == "huge" else 1000)), 1)
    placed = world.attempt()
    world.see(records.BindSucceeded(uid="a", node=placed["a"]), 1.5)
    world.see(records.BindFailed(uid="b", node=placed["b"], message="the node is unreachable"), 2)
    world.see(_moved(make_pod("c"), placed["c"]), 2.5)  # seen before the outcome came
    world.see(records.BindSucceeded(uid="c", node=placed["c"]), 2.6)
    world.see(records.TimePassed(), 4)
    placed = world.attempt()
    other = "n4" if placed["b"] != "n4" else "n5"
    world.see(_moved(make_pod("b"), other), 5)  # another scheduler was faster
    world.see(records.NodeAdded(node=make_node("n6", cpu=16_000)), 6)
    placed = world.attempt()  # huge
    world.see(records.PodDeleted(uid="huge"), 7)  # while it is reserved
    world.see(records.NodeDeleted(name="n2"), 8)
    world.see(records.NodeUpdated(node=make_node("n1", labels={"zone": "b"})), 9)
    world.see(records.NodeAdded(node=make_node("n2", cpu=2500)), 10)
    _gangs(world)
    _namesakes(world)
    return world


def _gangs(world: World) -> None:
    for name in ("gang-1", "late-1"):
        world.see(records.PodAdded(pod=make_pod(name)), 11)
    world.attempt()
    world.see(records.TimePassed(), 17)  # too late for late-1
    world.see(records.PodAdded(pod=make_pod("gang-2", labels={"a": "b"})), 18)
    placed = world.attempt()
    world.see(records.BindSucceeded(uid="gang-2", node=placed["gang-2"]), 18.2)
    world.see(records.PodDeleted(uid="late-1"), 18.5)


def _namesakes(world: World) -> None:
    """Three pods of one name, one after another; the later ones want the first one's node."""
    for number in range(3):
        uid = f"00000000-0000-4000-8000-00000000000{number}"
        pod = make_pod("web", uid=uid, namespace="prod", cpu=500)
        world.see(records.PodAdded(pod=pod), 20 + number)
        placed = world.attempt()
        world.see(records.BindSucceeded(uid=uid, node=placed[uid]), 20.5 + number)
        if number < 2:
            world.see(records.PodDeleted(uid=uid), 20.7 + number)
    world.see(records.PodAdded(pod=make_pod("web", uid="web-of-test", namespace="test")), 24)
    world.attempt()


def _moved(pod: Pod, node: str) -> Stimulus:
    return records.PodUpdated(pod=make_pod(pod.name, node_name=node))


def simulated(address: str) -> None:
    """A simulation with more pods than room."""
    options = ("--generate", GENERATED, "--database", address, "--stream", TIGHT)
    assert main(["simulate", *options]) == 0


def odd_and_tight(address: str) -> None:
    """Prepares a database with both streams: the odd day, and the simulation in small batches."""
    migrate(address)
    odd(address)
    with small_batches():
        simulated(address)
