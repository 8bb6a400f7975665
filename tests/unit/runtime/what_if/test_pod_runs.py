"""Ends of pods in a closed loop: runs keep their length, what was ended from outside its time."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, get_type_hints

import msgspec
import pytest

from eventsched.cluster.in_memory.cluster import InMemoryCluster
from eventsched.cluster.sources.arrivals import TracePod
from eventsched.domain import records
from eventsched.domain.detail_levels import SUMMARY, DetailLevels
from eventsched.domain.objects import Node, Owner, Pod, Taint
from eventsched.domain.records.log_entry import LogEntry
from eventsched.domain.records.record_catalogue import CATALOGUE, RecordKind
from eventsched.domain.state.scheduler_state import SchedulerState
from eventsched.domain.units import SECOND
from eventsched.eventlog.log_errors import CorruptLogError
from eventsched.eventlog.memory import MemoryEventLog
from eventsched.eventlog.port import Batch, StoredRecord
from eventsched.runtime.assembly import assemble
from eventsched.runtime.queries.what_if.history_run import run_closed
from eventsched.runtime.queries.what_if.node_changes import parse_changes
from eventsched.runtime.queries.what_if.pod_runs import (
    PodRun,
    RunRecord,
    recorded_runs,
    run_records,
)
from eventsched.runtime.queries.what_if.rules import OtherRules
from eventsched.runtime.simulation.simulation import Simulation
from eventsched.testing import make_node, make_pod
from tests.unit.runtime.what_if.histories import (
    MOST_ALLOCATED,
    NO_PREEMPTION,
    SAME,
    configured,
    rules,
    simulated,
    whole,
)

_STACKED = MOST_ALLOCATED.replace(
    "plugins: {", "plugins: {postFilter: {disabled: [{name: DefaultPreemption}]}, "
)


def crowd() -> tuple[list[Node], list[TracePod]]:
    """More pods than fit at a time on three nodes: they wait, run for different times, and end. The
    last one comes when all is over."""
    nodes = [make_node(f"n{index}", cpu=4000) for index in range(3)]
    arrivals = [
        TracePod(
            make_pod(f"p{i:02}", cpu=1000 + 500 * (i % 3), memory=0, priority=9 * (i % 7 == 6)),
            arrives_at=i * (SECOND + 3011),
            runs_for=(9 + 7 * (i % 5)) * SECOND + 7919 * i,
        )
        for i in range(40)
    ]
    return nodes, [*arrivals, TracePod(make_pod("last", memory=0), arrives_at=900 * SECOND)]


def placements(log: Iterable[StoredRecord]) -> dict[str, list[tuple[int, str]]]:
    """When and where each pod was placed."""
    found: dict[str, list[tuple[int, str]]] = {}
    for stored in log:
        if stored.kind == "PodDecided":
            decided = stored.record
            assert isinstance(decided, records.PodDecided)
            if decided.node:
                found.setdefault(decided.uid, []).append((stored.at, decided.node))
    return found


@pytest.mark.parametrize("before", [NO_PREEMPTION, _STACKED])
def test_times_are_those_of_a_simulation_with_the_other_rules(before: str, tmp_path: Path) -> None:
    """History has no preemption, so that it has the whole run of each pod."""
    nodes, arrivals = crowd()
    _, log = simulated(nodes, arrivals, configured(before, tmp_path))
    for after in (NO_PREEMPTION, MOST_ALLOCATED, _STACKED):
        _, expected = simulated(nodes, arrivals, configured(after, tmp_path))
        assert made(log, rules(configured(after, tmp_path))) == placements(expected.read())
        assert (placements(log.read()) == placements(expected.read())) == (before == after)


def made(log: MemoryEventLog, other: OtherRules) -> dict[str, list[tuple[int, str]]]:
    """When and where each pod is placed under other rules."""
    side: list[StoredRecord] = []
    run_closed(whole(log), other, watch=lambda made: side.extend(map(StoredRecord.of, made)))
    return placements(side)


class Touched(InMemoryCluster):
    """A cluster in which a user deletes a pod at 40 s, which then has its grace period of 5 s."""

    def delete(self, pod: Pod) -> None:
        deleting = msgspec.structs.replace(pod, deleting=True, node_name="n1")
        self._push(40 * SECOND, 1, records.PodUpdated(pod=deleting))
        self._push(45 * SECOND, 1, records.PodDeleted(uid=pod.uid))


@pytest.mark.parametrize(
    ("owner", "with_another_node"),
    [(None, 45_000_000), (Owner("ReplicaSet", "b"), 45_000_000),
     (Owner("Job", "b"), 25_999_000), (Owner("PyTorchJob", "b"), 25_999_000),
     (Owner("Pod", "driver"), 25_999_000)],
)  # fmt: skip
def test_a_deletion_is_an_end_of_work_only_in_a_job(
    owner: Owner | None, with_another_node: int
) -> None:
    """The pod waits for 20 s, and is deleted 25 s after it was bound. With another node it does not
    wait. The deletion stays at its time unless the Job is over then."""
    pod = make_pod("b", cpu=1000, owner=owner)
    first = TracePod(make_pod("a", cpu=1000), 0, 20 * SECOND)
    late = TracePod(make_pod("c", cpu=1000), 99 * SECOND)
    cluster = Touched([make_node("n1", cpu=1000)], [first, TracePod(pod, SECOND), late])
    cluster.delete(pod)
    log = MemoryEventLog()
    Simulation(assemble(), cluster, log, detail_levels=DetailLevels(SUMMARY)).run()
    ends: dict[str, list[int]] = {}

    def watch(logged: Sequence[LogEntry]) -> None:
        for entry in logged:
            if isinstance(entry.record, records.PodDeleted):
                ends.setdefault(entry.record.uid, []).append(entry.at)

    run_closed(whole(log), SAME, watch=watch)
    assert ends == {"a": [20_001_000], "b": [45_000_000]}
    ends.clear()
    run_closed(whole(log), SAME, parse_changes(["+1xn1"]), watch=watch)
    assert ends == {"a": [20_001_000], "b": [with_another_node]}


def test_a_pod_that_is_placed_later_runs_to_its_own_end() -> None:
    """Without the second node the pods run one after the other; in history both have ended when
    the second begins here."""
    nodes = [make_node("n1", cpu=1000), make_node("n2", cpu=1000)]
    pods = [TracePod(make_pod(name, cpu=1000), 0, 30 * SECOND) for name in ("a", "b")]
    _, log = simulated(nodes, [*pods, TracePod(make_pod("c", cpu=1), 45 * SECOND)])
    done = run_closed(whole(log), SAME, parse_changes(["-n2"]))
    fates = {fate.name: (fate.before.placed_at, fate.after.placed_at) for fate in done.fates}
    assert fates["b"] == (0, 30_001_000)
    # The end of "b", 60.002 s, is not in the range, so the third pod has to wait.
    assert [fate.after.node for fate in done.fates] == ["n1", "n1", ""]


def bound(uid: str, at: int, node: str = "n1") -> tuple[int, records.Record]:
    return at, records.PodBound(uid=uid, node=node, attempt=1)


def deleting(at: int, owner: Owner | None) -> tuple[int, records.Record]:
    return at, records.PodUpdated(pod=make_pod("a", node_name="n1", deleting=True, owner=owner))


def node(at: int, **changes: Any) -> tuple[int, records.Record]:
    return at, records.NodeUpdated(node=make_node("n1", **changes))


def log_of(history: Sequence[tuple[int, records.Record]]) -> MemoryEventLog:
    log = MemoryEventLog()
    stored = [
        StoredRecord.of(LogEntry(position, at, position, record))
        for position, (at, record) in enumerate(history)
    ]
    log.begin(Batch(stored, {}))
    return log


A_IS_GONE = 9, records.PodDeleted(uid="a")
EVICTED = records.PreemptionDecided(
    uid="b", attempt=1, node="n1", row=0, criterion="", victims=("a",)
)
NO_EXECUTE = Taint(key="node.kubernetes.io/not-ready", effect="NoExecute")


@pytest.mark.parametrize(
    ("history", "is_own"),
    [
        ([bound("a", 2), A_IS_GONE], True),
        ([A_IS_GONE], False),
        ([bound("a", 2), deleting(5, None), A_IS_GONE], False),
        ([bound("a", 2), deleting(5, Owner("Job", "a")), A_IS_GONE], True),
        ([bound("a", 2), node(3, unschedulable=True), A_IS_GONE], True),
        ([bound("a", 2), node(3, unschedulable=True), deleting(5, Owner("Job", "a")), A_IS_GONE],
         False),
        ([bound("a", 2), node(3, taints=(NO_EXECUTE,)), deleting(5, Owner("Job", "a")), A_IS_GONE],
         False),
        ([bound("a", 2), node(3, taints=(NO_EXECUTE,)), node(4), deleting(5, Owner("Job", "a")),
          A_IS_GONE], True),
        ([bound("a", 2), (5, EVICTED), A_IS_GONE], False),
        ([bound("a", 2), (5, EVICTED), (6, records.EvictionFailed(uid="a", message="")), A_IS_GONE],
         True),
        ([bound("a", 2), (5, records.NodeDeleted(name="n1")), A_IS_GONE], False),
        ([bound("a", 2), (5, records.NodeDeleted(name="n2")), A_IS_GONE], True),
    ],
)  # fmt: skip
def test_signs_of_an_end(history: list[tuple[int, records.Record]], is_own: bool) -> None:
    runs = recorded_runs(SchedulerState(), run_records(log_of(history), 0, len(history)))
    assert runs == ({"a": PodRun(2, 7)} if is_own else {})


def test_a_node_that_was_cordoned_before_the_range() -> None:
    state = SchedulerState()
    state.apply(records.NodeAdded(node=make_node("n1", unschedulable=True)), 0)
    history = [bound("a", 2), deleting(5, Owner("Job", "a")), A_IS_GONE]
    assert recorded_runs(state, run_records(log_of(history), 0, len(history))) == {}


def test_a_record_of_another_shape_is_named() -> None:
    """Decoding it as a whole would have found that."""
    history = [(RunRecord("PodDeleted", uid="a"), 0), (RunRecord("PodBound", uid="b"), 1)]
    with pytest.raises(CorruptLogError, match="position 1: does not fit"):
        recorded_runs(SchedulerState(), history)


@pytest.mark.parametrize("kind", CATALOGUE, ids=lambda kind: kind.record.__name__)
def test_what_records_say_about_runs_is_read_of_every_kind(kind: RecordKind) -> None:
    """A field of the same name has the same type, or it is not decoded."""
    types = get_type_hints(kind.record)
    for name, read in get_type_hints(RunRecord).items():
        assert read is msgspec.Raw or types.get(name, read) == read
