"""The closed loop: the same rules make the same records, other rules those of a simulation."""

import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import msgspec
import pytest

from eventsched.cluster.in_memory.cluster import InMemoryCluster
from eventsched.cluster.sources import load
from eventsched.cluster.sources.arrivals import TracePod
from eventsched.domain import records
from eventsched.domain.detail_levels import SUMMARY, DetailLevels
from eventsched.domain.errors import InputError
from eventsched.domain.objects import Node
from eventsched.domain.records import PodDecided, PreemptionDecided
from eventsched.domain.records.log_entry import LogEntry
from eventsched.domain.state.scheduler_state import SchedulerState
from eventsched.domain.units import SECOND
from eventsched.eventlog.log_errors import CorruptLogError
from eventsched.eventlog.memory import MemoryEventLog
from eventsched.eventlog.port import StoredRecord
from eventsched.history.export_reader import FileLog
from eventsched.runtime.assembly import Assembly, assemble
from eventsched.runtime.queries.state_at import FoldedState
from eventsched.runtime.queries.what_if.choice_reasons import reason_of
from eventsched.runtime.queries.what_if.history_run import ClosedOutcome, Stretch, run_closed
from eventsched.runtime.queries.what_if.node_changes import parse_changes
from eventsched.runtime.queries.what_if.pod_fates import Cause
from eventsched.runtime.queries.what_if.result_documents import closed_document
from eventsched.runtime.simulation.simulation import Simulation
from eventsched.scheduling.cycle.choice import Choice
from eventsched.scheduling.cycle.judgement import Judgement
from eventsched.testing import make_node, make_pod
from tests.databases import ROOT
from tests.unit.runtime.what_if.histories import (
    MOST_ALLOCATED,
    NO_PREEMPTION,
    SAME,
    configured,
    moved,
    rules,
    simulated,
    whole,
)


def generated(text: str) -> tuple[list[Node], list[TracePod]]:
    source = load.read(nodes=None, pods=None, objects=(), generate=text)
    return list(source.nodes), list(source.arrivals)


def important(number: int = 40) -> tuple[list[Node], list[TracePod]]:
    """Three nodes with room for 12 pods, and pods that come one a second, every fifth important.
    They do not end. The last one comes when all evictions are over."""
    nodes = [make_node(f"n{index}", cpu=4000) for index in range(3)]
    pods = [
        make_pod(f"p{index:02}", cpu=1000, memory=0, priority=100 if index % 5 == 4 else 0)
        for index in range(number)
    ]
    arrivals = [TracePod(pod, arrives_at=i * SECOND) for i, pod in enumerate(pods)]
    return nodes, [*arrivals, TracePod(make_pod("last", memory=0), arrives_at=200 * SECOND)]


@pytest.mark.parametrize(
    "load_text", ["nodes=8,pods=80,shape=tight,seed=3", "nodes=5,pods=60,seed=1"]
)
def test_same_rules_make_the_same_records(load_text: str) -> None:
    _, log = simulated(*generated(load_text))
    made: list[LogEntry] = []
    done = run_closed(whole(log), SAME, with_detail=True, watch=made.extend)
    assert [StoredRecord.of(entry) for entry in made] == list(log.read())
    assert moved(done.fates) == []
    assert done.before == done.after


def test_same_rules_from_the_middle() -> None:
    _, log = simulated(*important())
    steps = [stored.position for stored in log.read() if stored.cause == stored.position]
    for first in steps[5::37]:
        made: list[LogEntry] = []
        done = run_closed(whole(log, first), SAME, with_detail=True, watch=made.extend)
        assert [StoredRecord.of(entry) for entry in made] == list(log.read(first))
        assert moved(done.fates) == []


@pytest.mark.parametrize("name", ["0.1-cluster", "0.1-gallery", "0.1-live", "0.1-importance"])
def test_same_rules_on_logs_of_an_older_version(name: str) -> None:
    log = FileLog(ROOT / "tests" / "histories" / f"{name}.jsonl.gz")
    stretch = Stretch(log, FoldedState(SchedulerState(), 0, 0, None), log.head.next)
    made: list[LogEntry] = []
    done = run_closed(stretch, SAME, with_detail=True, watch=made.extend)
    assert [StoredRecord.of(entry) for entry in made] == list(log.read())
    assert moved(done.fates) == []


@pytest.mark.parametrize("first", [0, 30])
def test_equal_specs_are_one_object_on_each_side_and_not_the_same_one(first: int) -> None:
    """Specs cache what they request of the nodes of one side."""
    nodes = [make_node("n", cpu=64_000)]
    arrivals = [TracePod(make_pod(f"p{i}", cpu=100 + i % 2), i * SECOND) for i in range(20)]
    _, log = simulated(nodes, arrivals)
    made: list[LogEntry] = []
    stretch = whole(log, first)
    run_closed(stretch, SAME, watch=made.extend)
    before = {id(pod_state.pod.spec) for pod_state in stretch.folded.state.pods.values()}
    after = {id(e.record.pod.spec) for e in made if isinstance(e.record, records.PodAdded)}
    assert (len(before), len(after)) == (2, 2)
    assert not before & after


@pytest.mark.parametrize("moving", [0, 1, 4, 12])
def test_exactly_the_pods_that_must_move(moving: int, tmp_path: Path) -> None:
    """Each pod may go to nodes of its own: a large and a small one, or only one."""
    nodes, arrivals = [], []
    for index in range(12):
        label = {"group": str(index)}
        nodes.append(make_node(f"large-{index}", cpu=8000, memory=16 << 30, labels=label))
        if index < moving:
            nodes.append(make_node(f"small-{index}", cpu=4000, memory=8 << 30, labels=label))
        pod = make_pod(f"p{index:02}", spec={"node_selector": label})
        arrivals.append(TracePod(pod, arrives_at=index * SECOND, runs_for=30 * SECOND))
    _, log = simulated(nodes, arrivals)
    other = rules(configured(MOST_ALLOCATED, tmp_path))
    done = run_closed(whole(log), other)
    assert moved(done.fates) == [
        (f"p{index:02}", f"large-{index}", f"small-{index}") for index in range(moving)
    ]
    reasons = [fate.reason for fate in done.fates if fate.differs]
    assert [(reason.plugin, reason.text) for reason in reasons if reason] == [
        (
            "NodeResourcesFit",
            f"small-{index} scores 25 here, large-{index} 12; with all plugins 325 and 312",
        )
        for index in range(moving)
    ]
    causes = closed_document(done)["causes"]
    assert causes == {"score": moving, "verdict": 0, "draw": 0, "other": 0}


def test_scores_are_told_before_their_weight(tmp_path: Path) -> None:
    nodes = [
        make_node("large", cpu=8000, memory=16 << 30),
        make_node("small", cpu=4000, memory=8 << 30),
    ]
    _, log = simulated(nodes, [TracePod(make_pod("p"), arrives_at=0, runs_for=30 * SECOND)])
    weighted = MOST_ALLOCATED.replace(
        "{score: {", "{score: {enabled: [{name: NodeResourcesFit, weight: 10}], "
    )
    done = run_closed(whole(log), rules(configured(weighted, tmp_path)))
    [reason] = [fate.reason for fate in done.fates if fate.differs]
    assert reason is not None
    scores = "small scores 25 here, large 12, times the weight 10: 250 and 120; with all plugins "
    assert reason.text.startswith(scores)


def test_causes_are_those_of_the_reasons(tmp_path: Path) -> None:
    """Without preemption later pods find other nodes full, or are decided at other times."""
    _, log = simulated(*important())
    document = closed_document(run_closed(whole(log), rules(configured(NO_PREEMPTION, tmp_path))))
    words = {
        "verdict": ("history found no node: ", "refuses "), "draw": ("drawn from ",),
        "score": (" scores ",), "other": ("decided ", "room was made "),
    }  # fmt: skip
    for cause, number in document["causes"].items():
        texts = [
            each["reason"]["text"]
            for each in document["differences"]
            if each["reason"]["cause"] == cause
        ]
        assert len(texts) == number
        assert all(any(word in text for word in words[cause]) for text in texts)
    assert sum(document["causes"].values()) == len(document["differences"]) > 0


def test_a_long_message_is_cut_between_words() -> None:
    judgement = cast("Judgement", SimpleNamespace(
        dry_run=SimpleNamespace(table=SimpleNamespace(names=["n1"]))
    ))  # fmt: skip
    message = f"0/9 nodes are available: {'many words ' * 30}, preemption: no victims"
    decided = cast("PodDecided", SimpleNamespace(node="", plugin="P", message=message))
    reason = reason_of(judgement, cast("Choice", SimpleNamespace(row=0)), decided, 7)
    assert reason is not None
    assert reason.text.startswith("history found no node: 0/9 nodes are available: many words ")
    assert re.search("(many|words) …$", reason.text)
    assert (reason.cause, reason.position) == (Cause.VERDICT, 7)


def ends(simulation: Simulation) -> dict[str, str]:
    """Where the pods are in the end."""
    return {uid: pod.booked_node for uid, pod in simulation.engine.state.pods.items()}


def other_ends(done: ClosedOutcome) -> dict[str, str]:
    return {fate.name: fate.after.node for fate in done.fates if not fate.after.is_evicted}


@pytest.mark.parametrize("config", [MOST_ALLOCATED, NO_PREEMPTION])
def test_other_rules_decide_as_a_simulation_with_them(config: str, tmp_path: Path) -> None:
    nodes, arrivals = important()
    _, log = simulated(nodes, arrivals)
    other = configured(config, tmp_path)
    expected, _ = simulated(nodes, arrivals, configured(config, tmp_path))
    done = run_closed(whole(log), rules(other))
    assert other_ends(done) == ends(expected)
    assert moved(done.fates)


def test_preemption_that_history_did_not_have(tmp_path: Path) -> None:
    nodes, arrivals = important()
    _, log = simulated(nodes, arrivals, configured(NO_PREEMPTION, tmp_path))
    expected, expected_log = simulated(nodes, arrivals)
    done = run_closed(whole(log), rules(assemble()))
    assert other_ends(done) == ends(expected)
    assert (done.before.preemptions, done.after.preemptions) == (0, preemptions(expected_log))
    assert done.after.preemptions > 0


def preemptions(log: MemoryEventLog) -> int:
    return sum(stored.kind == PreemptionDecided.__name__ for stored in log.read())


def test_a_victim_without_a_controller_stays(tmp_path: Path) -> None:
    """History evicted it; without preemption it runs on, and the important pod waits."""
    nodes, pods = [make_node("n1", cpu=1000)], [
        TracePod(make_pod("low", memory=0), arrives_at=0),
        TracePod(make_pod("high", memory=0, priority=9), arrives_at=SECOND),
        TracePod(make_pod("late", memory=0), arrives_at=60 * SECOND),
    ]  # fmt: skip
    _, log = simulated(nodes, pods)
    done = run_closed(whole(log), rules(configured(NO_PREEMPTION, tmp_path)))
    assert [
        (f.name, f.before.node, f.before.is_evicted, f.after.node, f.after.is_evicted)
        for f in done.fates
    ] == [("low", "n1", True, "n1", False), ("high", "n1", False, "", False),
          ("late", "", False, "", False)]  # fmt: skip


def test_a_victim_that_had_its_node_before_the_range_is_no_pod_of_it() -> None:
    """It neither counts as placed nor as one that waited for 0 s: which such pods are known depends
    on what the rules evict, and history's numbers must not."""
    nodes, pods = [make_node("n1", cpu=1000)], [
        TracePod(make_pod("low", memory=0), arrives_at=0),
        TracePod(make_pod("high", memory=0, priority=9), arrives_at=SECOND),
        TracePod(make_pod("late", memory=0), arrives_at=60 * SECOND),
    ]  # fmt: skip
    _, log = simulated(nodes, pods)
    first = next(s.position for s in log.read() if s.at >= SECOND)
    document = closed_document(run_closed(whole(log, first), SAME))
    for side in (document["before"], document["after"]):
        assert (side["placed"], side["pending"], side["evicted"]) == (1, 1, 1)
        assert side["waited"]["mean"] == side["waited"]["max"] / 2  # late waits for 0 s


def test_more_and_fewer_nodes() -> None:
    nodes = [make_node("n1", cpu=1000), make_node("n2", cpu=1000)]
    _, log = simulated(nodes, [TracePod(make_pod(f"p{i}", memory=0), i * SECOND) for i in range(3)])
    more = run_closed(whole(log), SAME, parse_changes(["+2xn1"]))
    assert [(f.name, bool(f.before.node), bool(f.after.node)) for f in more.fates] == [
        ("p0", True, True), ("p1", True, True), ("p2", False, True),
    ]  # fmt: skip
    fewer = run_closed(whole(log), SAME, parse_changes(["-n2"]))
    assert sorted(fate.after.node for fate in fewer.fates) == ["", "", "n1"]
    first = next(s.position for s in log.read() if s.at >= SECOND)
    later = run_closed(whole(log, first), SAME, parse_changes(["-n1|-n2|+1xn1"]))
    assert [(f.name, f.after.node) for f in later.fates] == [("p1", "n1-more-0"), ("p2", "")]


def test_pods_without_a_node_wait_until_the_end() -> None:
    """One pod fits nowhere and is deleted at 30 s; one needs the second node. The range ends at
    60.001 s, when the last bind is over."""
    nodes = [make_node("n1", cpu=3500), make_node("n2", cpu=1000)]
    pods = [TracePod(make_pod("a", cpu=3000, memory=0), 0), TracePod(make_pod("b", memory=0), 0)]
    pods += [TracePod(make_pod("small", cpu=1, memory=0), 60 * SECOND)]
    cluster = Leaving(nodes, [*pods, TracePod(make_pod("left", cpu=2500, memory=0), 10 * SECOND)])
    cluster.delete("left", 30 * SECOND)
    log = MemoryEventLog()
    Simulation(assemble(), cluster, log, detail_levels=DetailLevels(SUMMARY)).run()
    document = closed_document(run_closed(whole(log), SAME, parse_changes(["-n2"])))
    before, after = document["before"], document["after"]
    assert (before["pending"], after["pending"]) == (1, 2)
    # Of four pods.
    assert (before["waited"]["mean"], before["waited"]["max"]) == (5.0, 20.0)
    assert (after["waited"]["mean"], after["waited"]["max"]) == (20.00025, 60.001)


class Leaving(InMemoryCluster):
    """A cluster in which a user deletes a pod that waits."""

    def delete(self, uid: str, at: int) -> None:
        self._push(at, 1, records.PodDeleted(uid=uid))


@pytest.mark.parametrize("first", [0, 4])
def test_a_node_that_history_has_not(first: int) -> None:
    _, log = simulated([make_node("n1")], [TracePod(make_pod())])
    with pytest.raises(InputError, match="history has no node n7"):
        run_closed(whole(log, first), SAME, parse_changes(["+2xn7"]))


def test_a_range_without_decisions() -> None:
    _, log = simulated([make_node("n1")], [TracePod(make_pod())])
    with pytest.raises(InputError, match="holds no decision from position 0 to 2"):
        run_closed(whole(log, 0, 2), SAME)
    [decided] = [stored.position for stored in log.read() if stored.kind == "PodDecided"]
    with pytest.raises(InputError, match=rf"the next one after it is at position {decided};"):
        run_closed(whole(log, 0, 2), SAME)
    with pytest.raises(InputError, match=rf"the next one before it is at position {decided};"):
        run_closed(whole(log, log.head), SAME)


@pytest.mark.parametrize("first", [0, 40])
def test_pods_without_a_profile_wait_and_those_of_other_schedulers_do_not(
    first: int, tmp_path: Path
) -> None:
    nodes, arrivals = important()
    theirs = msgspec.structs.replace(make_pod("theirs"), scheduler_name="theirs")
    _, log = simulated(nodes, [TracePod(theirs), *arrivals])
    renamed = configured(
        NO_PREEMPTION.replace("- plugins", "- schedulerName: x\n  plugins"), tmp_path
    )
    done = run_closed(whole(log, first), rules(renamed))
    document = closed_document(done)
    waiting = document["after"]["samples"][-1]["waiting"]
    assert {"default-scheduler": waiting} == done.unscheduled
    assert document["before"]["samples"][-1]["waiting"] < waiting


def test_fragmentation_by_the_pods_that_waited_when_the_range_began() -> None:
    """A pod of 1500m waits, and the two nodes have 1000m free each; no pod arrives."""
    nodes = [make_node("n1", cpu=1000), make_node("n2", cpu=1000)]
    _, log = simulated(nodes, [TracePod(make_pod("huge", cpu=1500, memory=0), 0)])
    first = next(s.position for s in log.read() if s.kind == "PodQueued") + 1
    assert not any(stored.kind == "PodAdded" for stored in log.read(first))
    document = closed_document(run_closed(whole(log, first), SAME))
    for side in (document["before"], document["after"]):
        assert side["fragmentation"]["cpu"] == 1.0


def test_use_of_the_cluster(tmp_path: Path) -> None:
    """Two pods on two nodes, or both on one: what is free is spread or in one place."""
    nodes = [make_node("n1", cpu=2000), make_node("n2", cpu=2000)]
    pods = [TracePod(make_pod(f"p{i}", cpu=1000), i * SECOND, 100 * SECOND) for i in range(2)]
    _, log = simulated(nodes, pods)
    other: Assembly = configured(MOST_ALLOCATED, tmp_path)
    done = run_closed(whole(log), rules(other))
    before, after = done.before.use, done.after.use
    assert before.utilization["cpu"].peak == after.utilization["cpu"].peak == 0.5
    assert before.spread["cpu"] < after.spread["cpu"]
    assert (before.unused, len(after.unused)) == ((), 1)
    assert before.empty == after.empty == ("n1", "n2")


class WithGap(MemoryEventLog):
    """A log that does not show the record at position 9."""

    def read(self, first: int = 0) -> Iterator[StoredRecord]:
        return (stored for stored in super().read(first) if stored.position != 9)


def test_a_record_that_is_missing_is_named() -> None:
    nodes, pods = important(5)
    log = WithGap()
    cluster = InMemoryCluster(nodes, pods)
    Simulation(assemble(), cluster, log, detail_levels=DetailLevels(SUMMARY)).run()
    stretch = Stretch(log, FoldedState(SchedulerState(), 0, 0, None), log.head)
    with pytest.raises(CorruptLogError, match=r"9.*is not there: position 10 follows"):
        list(stretch.steps())
