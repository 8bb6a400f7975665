"""A shadow's engine: the cluster's placement replaces its own, and both are compared."""

import random
from typing import Any

import msgspec
import pytest

from eventsched.domain import records
from eventsched.domain.behaviours import CURRENT, Behaviour
from eventsched.domain.objects import Pod
from eventsched.domain.records import PlacementCompared, PlacementMatch, Stimulus
from eventsched.domain.records.log_entry import LogEntry
from eventsched.domain.records.stimuli import SHADOWS
from eventsched.eventlog.port import StoredRecord
from eventsched.scheduling.engine import Engine
from eventsched.testing import STREAM_STARTED
from tests.builders import (
    GIB,
    SECOND,
    added,
    attempted,
    engine_with,
    make_node,
    make_pod,
    observed,
)

FIRST = msgspec.structs.replace(
    STREAM_STARTED,
    inputs={SHADOWS: "default-scheduler batch"},
    flags=(*CURRENT, Behaviour.SHADOWS),
)
SMALL, LARGE = make_node("small", cpu=2000), make_node("large", cpu=8000, memory=32 * GIB)
CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{schedulerName: trial}]
"""


def shadow(*objects: Any, config: str | None = None) -> Engine:
    """An engine of a shadow that has seen these objects."""
    engine = engine_with(config=config)
    observed(engine, FIRST, *added(*objects))
    return engine


def bound(name: str, node: str, **fields: Any) -> Stimulus:
    """The cluster shows a pod on a node."""
    return records.PodUpdated(pod=make_pod(name, node_name=node, **fields))


def compared(found: list[Any]) -> list[PlacementCompared]:
    """The comparisons among records."""
    return [record for record in found if isinstance(record, PlacementCompared)]


def on(engine: Engine, uid: str) -> str:
    """The node whose room a pod takes."""
    pod_state = engine.state.pods[uid]
    residents = [
        engine.state.nodes.names[row]
        for row, pods in enumerate(engine.state.nodes.residents)
        if uid in pods
    ]
    assert residents == ([pod_state.booked_node] if pod_state.booked_node else [])
    return pod_state.booked_node


def test_both_choose_the_same_node() -> None:
    """The whole step: nothing is bound, and nothing is reserved any more."""
    engine = shadow(SMALL, LARGE, make_pod())
    *_, decided = attempted(engine)
    assert (decided.node, on(engine, "p1")) == ("large", "large")
    update = bound("p1", "large")
    assert observed(engine, update) == [
        update,
        PlacementCompared(
            uid="p1", outcome=PlacementMatch.SAME, node="large", chosen="large", attempt=1,
            feasible=True,
        ),
    ]  # fmt: skip
    assert engine.state.pods["p1"].bound
    assert (on(engine, "p1"), engine.state.reservations) == ("large", {})


def test_the_state_takes_the_other_node() -> None:
    """With the totals of both nodes; they are those of the attempt if nothing has changed."""
    engine = shadow(SMALL, LARGE, make_pod())
    *_, decided = attempted(engine)
    [found] = compared(observed(engine, bound("p1", "small")))
    assert found == PlacementCompared(
        uid="p1", outcome=PlacementMatch.DIFFERENT, node="small", chosen="large", attempt=1,
        feasible=True, score=decided.runner_up_score, chosen_score=decided.score,
    )  # fmt: skip
    assert found.score < found.chosen_score
    assert (on(engine, "p1"), engine.state.reservations) == ("small", {})
    assert engine.judge(make_pod("p2")).feasible == 2


def test_a_node_that_a_plugin_refuses_here() -> None:
    """The other scheduler may know better, or have another configuration."""
    engine = shadow(SMALL, LARGE, make_pod(cpu=3000))
    attempted(engine)
    [found] = compared(observed(engine, bound("p1", "small", cpu=3000)))
    assert (found.outcome, found.feasible, found.plugin, found.reasons, found.score) == (
        PlacementMatch.DIFFERENT, False, "NodeResourcesFit", ("Insufficient cpu",), 0,
    )  # fmt: skip
    assert found.chosen_score > 0


def test_only_the_other_scheduler_finds_a_node() -> None:
    """And the pod leaves the queue here."""
    engine = shadow(SMALL, make_pod(cpu=3000))
    attempted(engine)
    assert engine.state.pods["p1"].queue is records.Queue.UNSCHEDULABLE
    [found] = compared(observed(engine, bound("p1", "small", cpu=3000)))
    assert found == PlacementCompared(
        uid="p1", outcome=PlacementMatch.ONLY_THERE, node="small", attempt=1,
        plugin="NodeResourcesFit", reasons=("Insufficient cpu",),
    )  # fmt: skip
    assert (engine.queue_lengths, engine.idle, on(engine, "p1")) == (
        dict.fromkeys(records.Queue, 0), True, "small",
    )  # fmt: skip


def test_a_node_that_is_not_known_yet() -> None:
    """The watch of pods may be ahead of that of nodes."""
    engine = shadow(SMALL, make_pod())
    attempted(engine)
    [found] = compared(observed(engine, bound("p1", "new")))
    assert (found.outcome, found.feasible, found.reasons) == (
        PlacementMatch.DIFFERENT, False, ("the node is not known here",),
    )  # fmt: skip
    observed(engine, *added(make_node("new")))
    assert on(engine, "p1") == "new"


def test_a_pod_that_is_placed_or_deleted_before_it_is_decided() -> None:
    """There is no decision to compare."""
    engine = shadow(SMALL, make_pod("p1"), make_pod("p2"))
    [found] = compared(observed(engine, bound("p1", "small")))
    assert found == PlacementCompared(uid="p1", outcome=PlacementMatch.UNDECIDED, node="small")
    assert observed(engine, records.PodDeleted(uid="p2")) == [records.PodDeleted(uid="p2")]


def test_a_pod_is_deleted_before_the_other_scheduler_places_it() -> None:
    """The room that was taken here is free again, and wakes another pod."""
    engine = shadow(SMALL, make_pod("p1", cpu=2000), make_pod("p2", cpu=2000))
    attempted(engine)
    attempted(engine)
    gone = records.PodDeleted(uid="p1")
    found = observed(engine, gone, at=2 * SECOND)
    assert found[:2] == [
        gone,
        PlacementCompared(uid="p1", outcome=PlacementMatch.ONLY_HERE, chosen="small", attempt=1),
    ]
    assert [record.uid for record in found[2:]] == ["p2"]


def test_the_room_that_was_chosen_here_wakes_others() -> None:
    """As if the pod had left that node."""
    engine = shadow(SMALL, make_node("big"), make_pod("p1", cpu=4000), make_pod("p2", cpu=4000))
    attempted(engine)
    attempted(engine)
    found = observed(engine, bound("p1", "small", cpu=4000), at=2 * SECOND)
    moves = [record for record in found if isinstance(record, records.PodQueued)]
    assert [(move.uid, move.cause) for move in moves] == [("p2", "AssignedPodDelete")]


def test_pods_of_other_schedulers_are_only_there() -> None:
    """They take room, and nothing is decided or compared."""
    engine = shadow(SMALL, make_pod(scheduler_name="other"))
    assert engine.idle
    assert compared(observed(engine, bound("p1", "small", scheduler_name="other"))) == []
    assert on(engine, "p1") == "small"


@pytest.mark.parametrize("name", ["default-scheduler", "batch"])
def test_the_first_profile_decides_unless_one_has_the_name(name: str) -> None:
    engine = shadow(SMALL, make_pod(scheduler_name=name), config=CONFIG)
    *_, decided = attempted(engine)
    assert (decided.profile, decided.node) == ("trial", "small")


def test_a_reservation_on_a_node_that_leaves() -> None:
    """No bind fails, so the pod is tried again at once."""
    engine = shadow(SMALL, make_pod())
    attempted(engine)
    _, unreserved, queued = observed(engine, records.NodeDeleted(name="small"))
    assert (unreserved.uid, unreserved.node) == ("p1", "small")
    assert (queued.uid, queued.cause, queued.queue) == ("p1", "NodeGone", records.Queue.BACKOFF)


def test_nothing_is_evicted() -> None:
    """A victim stays until the other scheduler evicts it."""
    victim = make_pod("victim", cpu=2000, node_name="small")
    engine = shadow(SMALL, victim, make_pod(cpu=2000, priority=10))
    [preempted] = [
        each for each in attempted(engine) if isinstance(each, records.PreemptionDecided)
    ]
    assert preempted.victims == ("victim",)
    assert engine.state.preemptions.evicting == {}
    assert engine.state.preemptions.node("p1") == "small"
    found = observed(engine, records.PodDeleted(uid="victim"), bound("p1", "small", cpu=2000))
    assert [each.outcome for each in compared(found)] == [PlacementMatch.ONLY_THERE]
    assert engine.state.preemptions.node("p1") == ""


def story(seed: int) -> list[tuple[Stimulus | None, int]]:
    """What a shadow sees, with its attempts (None), drawn from a seed."""
    draw = random.Random(seed)
    steps: list[tuple[Stimulus | None, int]] = [(FIRST, 0)]
    names = [f"n{number}" for number in range(4)]
    steps += [(stimulus, 0) for name in names for stimulus in added(make_node(name, cpu=3000))]
    open_pods: dict[str, Pod] = {}
    for number in range(60):
        at = number * SECOND
        cpu, priority = draw.choice([500, 1000, 4000]), draw.choice([0, 5])
        pod = make_pod(f"p{number}", cpu=cpu, priority=priority)
        open_pods[pod.uid] = pod
        steps += [(stimulus, at) for stimulus in added(pod)]
        steps += [(None, at)] * draw.choice([0, 1, 2])
        if draw.random() < 0.6:
            placed = open_pods.pop(draw.choice(list(open_pods)))
            placed = msgspec.structs.replace(placed, node_name=draw.choice([*names, "unknown"]))
            steps.append((records.PodUpdated(pod=placed), at))
        elif open_pods and draw.random() < 0.5:
            steps.append((records.PodDeleted(uid=open_pods.popitem()[0]), at))
        if draw.random() < 0.1:
            name = draw.choice(names)
            steps.append((records.NodeDeleted(name=name), at))
            steps += [(stimulus, at) for stimulus in added(make_node(name, cpu=3000))]
        steps.append((records.TimePassed(), at))
    return steps


def run(engine: Engine, steps: list[tuple[Stimulus | None, int]]) -> list[LogEntry]:
    """Passes the steps to an engine."""
    logged: list[LogEntry] = []
    for stimulus, at in steps:
        logged += engine.schedule_next() if stimulus is None else engine.observe(stimulus, at)
    return logged


def stored(logged: list[LogEntry]) -> list[StoredRecord]:
    """The bytes of records; the digest of a decision covers its vectors."""
    return [StoredRecord.of(entry) for entry in logged]


@pytest.mark.parametrize("seed", range(20))
def test_a_restart_anywhere_changes_nothing(seed: int) -> None:
    """A log read, or a snapshot loaded, between any two steps gives the same engine: the rest of
    the story has the same records, byte for byte, and every outcome occurs in some story."""
    steps = story(seed)
    whole = engine_with()
    logged = run(whole, steps)
    cut = random.Random(seed).randrange(1, len(steps))
    first = engine_with()
    before = run(first, steps[:cut])
    read, loaded = engine_with(), engine_with()
    for entry in before:
        read.apply(entry)
    loaded.restore(first.snapshot(), first.position)
    rest = stored(logged[len(before) :])
    for engine in (read, loaded):
        assert engine.state.digest() == first.state.digest()
        assert stored(run(engine, steps[cut:])) == rest
        assert engine.state.digest() == whole.state.digest()


def test_the_stories_have_every_outcome() -> None:
    found = {
        entry.record.outcome
        for seed in range(20)
        for entry in run(engine_with(), story(seed))
        if isinstance(entry.record, PlacementCompared)
    }
    assert found == set(PlacementMatch)


def test_a_scheduler_that_is_not_followed_any_more() -> None:
    """Its pods give up their reservations with the new term, and no comparison comes for them."""
    engine = shadow(SMALL, LARGE, make_pod("p1", scheduler_name="batch"))
    attempted(engine)
    assert on(engine, "p1") == "large"
    term = records.TermBegan(
        epoch=2, token="0a", engine=FIRST.engine, flags=FIRST.flags,
        inputs={SHADOWS: "default-scheduler"},
    )  # fmt: skip
    observed(engine, term)
    assert (on(engine, "p1"), engine.state.reservations) == ("", {})
    update = bound("p1", "large", scheduler_name="batch")
    assert observed(engine, update) == [update]
    assert on(engine, "p1") == "large"
