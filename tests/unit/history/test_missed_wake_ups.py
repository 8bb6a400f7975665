"""Pods that only the flush saved: which change should have woken them, and whose hint missed it."""

from collections.abc import Iterator
from typing import Any

import pytest

from eventsched.domain import records
from eventsched.domain.objects import Pod
from eventsched.domain.records import PodQueued, Stimulus, TimePassed
from eventsched.domain.state.scheduler_state import SchedulerState
from eventsched.domain.state.state_snapshot import StateSnapshot
from eventsched.eventlog.port import StoredRecord
from eventsched.history.past_state.missed_wake_ups import (
    FlushedPod,
    MissedWakeUp,
    missed_wake_up,
    scanned_flushes,
)
from eventsched.plugins.node_unschedulable import NodeUnschedulable
from eventsched.scheduling.engine import Engine
from eventsched.scheduling.framework import Change, Cycle
from eventsched.testing import STREAM_STARTED
from tests.builders import SECOND, engine_of, make_node, make_pod


class Deaf(NodeUnschedulable):
    """Its hint misses every change."""

    def hint(self, cycle: Cycle, pod: Pod, change: Change) -> bool:
        return False


class KeptLog:
    """The records that an engine gave."""

    def __init__(self, plugin: Any) -> None:
        self.engine = engine_of(plugin)
        self.entries: list[StoredRecord] = []
        self.see(STREAM_STARTED, 0)

    def see(self, stimulus: Stimulus, at: int) -> None:
        logged = self.engine.observe(stimulus, at * SECOND)
        self.entries += map(StoredRecord.of, logged)
        while logged := self.engine.schedule_next():
            self.entries += map(StoredRecord.of, logged)

    def read(self, first: int = 0) -> Iterator[StoredRecord]:
        return iter(self.entries[first:])

    def detail(self, position: int) -> None:
        return None

    def state_at(self, position: int) -> SchedulerState:
        state = SchedulerState()
        for stored in self.entries[:position]:
            state.apply(stored.record, stored.at)
        return state


def missed(log: KeptLog, plugin: Any) -> list[MissedWakeUp]:
    def make_engine(copy: StateSnapshot, position: int) -> Engine:
        engine = engine_of(plugin)
        engine.restore(copy, position)
        return engine

    flushes = list(scanned_flushes(log.read()))
    found = [missed_wake_up(log, flush, log.state_at, make_engine) for flush in flushes]
    return [each for each in found if each is not None]


def history(plugin: Any, uncordoned_at: int = 10) -> KeptLog:
    """A pod that fits no node until n2 is uncordoned, among other changes."""
    log = KeptLog(plugin)
    for name in ("n1", "n2"):
        log.see(records.NodeAdded(node=make_node(name, unschedulable=True)), 1)
    log.see(records.PodAdded(pod=make_pod("p")), 2)
    others = {3: "n1", 5: "n2", 20: "n1", 40: "n1"}
    for at in sorted({*others, uncordoned_at}):
        if at in others:
            is_cordoned = others[at] == "n1" or at < uncordoned_at
            node = make_node(others[at], unschedulable=is_cordoned, labels={"at": str(at)})
            log.see(records.NodeUpdated(node=node), at)
        if at == uncordoned_at:
            log.see(records.NodeUpdated(node=make_node("n2")), at)
    log.see(TimePassed(), 302)
    return log


def test_the_change_and_the_plugin_that_missed_it_are_named() -> None:
    log = history(Deaf())
    [found] = missed(log, Deaf())
    assert (found.pod, found.uid) == ("default/p", "p")
    assert found.plugins == ("NodeUnschedulable",)
    change = log.entries[found.change].record
    assert isinstance(change, records.NodeUpdated)
    assert (change.node.name, log.entries[found.change].at) == ("n2", 10 * SECOND)
    assert (found.kind, found.late) == ("NodeUpdated", 292 * SECOND)
    assert "n2" in found.text
    failed, flushed, placed = (log.entries[position].record for position in found.flush)
    assert isinstance(failed, records.PodDecided)
    assert isinstance(placed, records.PodDecided)
    assert (failed.attempt, placed.attempt, placed.node) == (1, 2, "n2")
    assert isinstance(flushed, PodQueued)
    assert flushed.cause == "Flush"


@pytest.mark.parametrize("uncordoned_at", [3, 10, 40, 300])
def test_a_correct_plugin_misses_none(uncordoned_at: int) -> None:
    log = history(NodeUnschedulable(), uncordoned_at)
    assert list(scanned_flushes(log.read())) == []
    assert log.engine.state.reservations.keys() == {"p"}


@pytest.mark.parametrize("uncordoned_at", [3, 40, 301])
def test_the_first_and_the_last_change_are_found(uncordoned_at: int) -> None:
    log = history(Deaf(), uncordoned_at)
    [found] = missed(log, Deaf())
    assert log.entries[found.change].at == uncordoned_at * SECOND


def test_a_change_right_before_the_flush_costs_no_time() -> None:
    log = KeptLog(Deaf())
    log.see(records.NodeAdded(node=make_node("n1", unschedulable=True)), 1)
    log.see(records.PodAdded(pod=make_pod("p")), 2)
    log.see(records.NodeUpdated(node=make_node("n1")), 302)
    log.see(TimePassed(), 302)
    assert [(each.kind, each.late) for each in missed(log, Deaf())] == [("NodeUpdated", 0)]


def test_a_change_after_the_flush_is_not_missed() -> None:
    """The pod was in the active queue by then, and needed no hint."""
    log = KeptLog(Deaf())
    log.see(records.NodeAdded(node=make_node("n1", unschedulable=True)), 1)
    log.see(records.PodAdded(pod=make_pod("p")), 2)
    for stimulus in (TimePassed(), records.NodeUpdated(node=make_node("n1"))):
        logged = log.engine.observe(stimulus, 302 * SECOND)
        log.entries += map(StoredRecord.of, logged)
    log.entries += map(StoredRecord.of, log.engine.schedule_next())
    assert len(list(scanned_flushes(log.read()))) == 1
    assert missed(log, Deaf()) == []


def test_a_pod_that_the_flush_did_not_help_is_not_among_them() -> None:
    log = KeptLog(Deaf())
    log.see(records.NodeAdded(node=make_node("n1", unschedulable=True)), 1)
    log.see(records.PodAdded(pod=make_pod("p")), 2)
    log.see(TimePassed(), 302)
    assert any(each.kind == "PodQueued" for each in log.entries)
    assert list(scanned_flushes(log.read())) == []
    assert FlushedPod._fields == ("failed", "flushed", "placed")
