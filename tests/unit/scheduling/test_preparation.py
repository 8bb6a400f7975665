"""PreBind that needs something of the cluster: its changes are recorded before they leave, and the
bind waits until they are made and the plugin is content."""

from typing import Any

import msgspec
import pytest

from eventsched.domain import records
from eventsched.domain.nodes.node_views import NodeView
from eventsched.domain.objects import Pod
from eventsched.domain.objects.registry import PersistentVolume
from eventsched.domain.records import Outcome, PodUnreserved, PreparationIntended, Queue
from eventsched.domain.records.object_writes import BindVolume
from eventsched.plugins.default_preemption import DefaultPreemption
from eventsched.plugins.node_resources_fit import NodeResourcesFit
from eventsched.scheduling.engine import Engine
from eventsched.scheduling.framework import Awaiting, Cycle, Preparation, Status, Wait
from tests.builders import (
    SECOND,
    added,
    attempted,
    backing_off,
    engine_of,
    make_node,
    make_pod,
    observed,
    scheduled,
)

TICK = records.TimePassed()
WRITE = BindVolume(volume="v", namespace="default", claim="c", claim_uid="u")
OTHER = BindVolume(volume="w", namespace="default", claim="c", claim_uid="u")
INTENDED = PreparationIntended(
    uid="p1", node="n1", attempt=1, deadlines={"Disks": 60 * SECOND}, writes={"Disks": (WRITE,)}
)
MADE = records.WriteSucceeded(uid="p1", attempt=1, write=WRITE)
WAITING = scheduled(outcome=Outcome.WAITING)
BIND = records.BindIntended(uid="p1", node="n1", attempt=1)
V = PersistentVolume(name="v")
READY = records.ObjectChanged(object=PersistentVolume(name="v", phase="Bound"))
BROKEN = records.ObjectChanged(object=PersistentVolume(name="v", phase="Failed"))


class Disks:
    """Has volume v bound, and waits until it is."""

    name = "Disks"
    writes: tuple[Any, ...] = (WRITE,)
    seconds: float = 60

    def __init__(self) -> None:
        self.asked = 0
        self.given_up: list[str] = []

    def reserve(self, cycle: Cycle, pod: Pod, node: str) -> None:
        cycle.data["disk"] = "v"

    def unreserve(self, cycle: Cycle, pod: Pod, node: str) -> None:
        self.given_up.append(f"{pod.name} {cycle.data['disk']}")

    def pre_bind(self, cycle: Cycle, pod: Pod, node: str) -> Status | Preparation | None:
        return Preparation(self.writes, self.seconds)

    def prepared(
        self, cycle: Cycle, pod: Pod, node: str, nodes: NodeView
    ) -> Status | Awaiting | None:
        self.asked += 1
        if not len(nodes):
            return Status.error("no node")
        volume = cycle.registry.get(PersistentVolume, cycle.data["disk"])
        if volume is not None and volume.phase == "Failed":
            return Status.error("disk failed")
        if volume is None or volume.phase != "Bound":
            return Awaiting(frozenset([("PersistentVolume", "", "v")]))
        return None


class Gang:
    """p1 waits for p2 at Permit."""

    name = "Gang"

    def permit(self, cycle: Cycle, pod: Pod, node: str) -> Status | Wait | None:
        for uid in cycle.waiting:
            cycle.allow(uid)
        return Wait(10) if pod.name == "p1" else None


def waiting(*plugins: Any, at: int = 0) -> Engine:
    """p1 is to be bound to n1 when Disks is ready."""
    engine = engine_of(NodeResourcesFit(), *(plugins or (Disks(),)))
    observed(engine, *added(make_node(), make_pod()), records.ObjectChanged(object=V), at=at)
    attempted(engine)
    return engine


def test_what_prebind_asks_for_stands_in_the_log_before_the_bind() -> None:
    """The bind is intended when the change is made and the plugin has nothing against it."""
    engine = engine_of(Disks())
    observed(engine, *added(make_node(), make_pod()))
    decided, *rest = attempted(engine)
    carried = msgspec.structs.replace(WAITING, carry={"disk": "v"})
    assert [decided, *rest] == [carried, INTENDED]
    assert engine.due == 60 * SECOND
    assert observed(engine, MADE, at=1) == [MADE]
    assert observed(engine, READY, at=2) == [READY, BIND]
    assert engine.due is None
    outcome = records.BindSucceeded(uid="p1", node="n1")
    bound = records.PodBound(uid="p1", node="n1", attempt=1)
    assert observed(engine, outcome, at=3) == [outcome, bound]


def test_the_plugin_is_not_asked_before_its_changes_are_made() -> None:
    disks = Disks()
    engine = waiting(disks)
    assert observed(engine, READY) == [READY]
    assert disks.asked == 0
    assert observed(engine, MADE) == [MADE, BIND]


def test_only_what_it_waits_for_and_its_node_concern_it() -> None:
    disks = Disks()
    engine = waiting(disks)
    observed(engine, MADE)
    others = [PersistentVolume(name="w"), PersistentVolume(name="x")]
    observed(engine, *(records.ObjectChanged(object=each) for each in others))
    assert disks.asked == 1
    observed(engine, records.NodeUpdated(node=make_node(labels={"a": "b"})))
    assert disks.asked == 2


@pytest.mark.parametrize(
    ("stimulus", "message"),
    [
        (BROKEN, "disk failed"),
        (records.NodeDeleted(name="n1"), "no node"),
    ],
)
def test_a_plugin_that_finds_it_hopeless(stimulus: records.Stimulus, message: str) -> None:
    """The room is free, Unreserve runs with what Reserve had left, and the pod backs off."""
    disks = Disks()
    engine = waiting(disks)
    observed(engine, MADE)
    found = observed(engine, stimulus, at=5)
    assert found[-2:] == [
        PodUnreserved(uid="p1", node="n1", plugin="Disks", message=message),
        backing_off(cause="BindingFailed", plugin="Disks", until=5 + SECOND, message=message),
    ]
    assert disks.given_up == ["p1 v"]
    assert engine.due == 5 + SECOND
    assert observed(engine, READY, at=6) == [READY]


def test_a_change_that_the_cluster_refuses() -> None:
    engine = waiting()
    refused = records.WriteFailed(uid="p1", attempt=1, write=WRITE, message="conflict")
    assert observed(engine, refused, at=5) == [
        refused,
        PodUnreserved(uid="p1", node="n1", plugin="Disks", message="conflict"),
        backing_off(cause="BindingFailed", plugin="Disks", until=5 + SECOND, message="conflict"),
    ]


@pytest.mark.parametrize("made", [False, True])
def test_a_preparation_that_takes_too_long(made: bool) -> None:
    engine = waiting()
    observed(engine, *([MADE] if made else []), at=1)
    assert observed(engine, TICK, at=60 * SECOND - 1) == [TICK]
    message = "what the bind waits for took too long"
    assert observed(engine, TICK, at=60 * SECOND) == [
        TICK,
        PodUnreserved(uid="p1", node="n1", plugin="Disks", message=message),
        backing_off(cause="BindingFailed", plugin="Disks", until=61 * SECOND, message=message),
    ]


def test_outcomes_that_come_late_mean_nothing() -> None:
    """The pod is at its next attempt, or gone."""
    engine = waiting()
    failed = records.WriteFailed(uid="p1", attempt=1, write=WRITE, message="conflict")
    observed(engine, failed)
    observed(engine, TICK, at=SECOND)
    decided, intended = attempted(engine)
    assert (decided.attempt, intended.attempt) == (2, 2)
    for late in (MADE, failed):
        assert observed(engine, late, READY, at=SECOND + 1)[0] == late
    assert engine.state.reservations["p1"].writes == {"Disks": (WRITE,)}
    observed(engine, records.PodDeleted(uid="p1"), at=SECOND + 2)
    again = records.WriteSucceeded(uid="p1", attempt=2, write=WRITE)
    assert observed(engine, again, at=SECOND + 3) == [again]
    assert engine.due is None


def test_a_pod_that_goes_while_it_waits() -> None:
    disks = Disks()
    engine = waiting(disks)
    gone = records.PodDeleted(uid="p1")
    assert observed(engine, gone) == [gone]
    assert disks.given_up == ["p1 v"]
    assert engine.due is None
    assert observed(engine, READY) == [READY]


def test_a_pod_that_somebody_else_binds_waits_no_longer() -> None:
    disks = Disks()
    engine = waiting(disks)
    bound = records.PodUpdated(pod=make_pod(node_name="n1"))
    assert observed(engine, bound) == [bound]
    assert disks.given_up == ["p1 v"]
    assert engine.due is None
    assert observed(engine, MADE, READY) == [MADE, READY]


def test_permit_first_then_prebind() -> None:
    """The pod's time for PreBind begins when it is let go."""
    engine = waiting(Gang(), Disks())
    observed(engine, *added(make_pod("p2")), at=5 * SECOND)
    decided, granted, intended, *_ = [
        each for each in attempted(engine) if getattr(each, "uid", "") == "p1" or
        isinstance(each, records.PodDecided)
    ]  # fmt: skip
    assert (decided.uid, decided.outcome) == ("p2", Outcome.WAITING)
    assert granted == records.PermitGranted(uid="p1", plugin="Gang", by="p2")
    assert intended == msgspec.structs.replace(INTENDED, deadlines={"Disks": 65 * SECOND})
    observed(engine, MADE, READY, at=6 * SECOND)
    assert engine.state.reservations["p1"].intended


def test_a_pod_that_waits_makes_room_without_being_evicted() -> None:
    """Nothing runs yet: it goes back to a queue (upstream: executor.go, podInPreBind.CancelPod)."""
    disks = Disks()
    engine = engine_of(NodeResourcesFit(), DefaultPreemption(), disks)
    observed(engine, *added(make_node(cpu=1000), make_pod()))
    attempted(engine)
    observed(engine, *added(make_pod("p2", priority=5)), at=1)
    _, _, decided, _, given_up, *moves = attempted(engine)
    assert isinstance(decided, records.PreemptionDecided)
    assert (decided.victims, decided.sent_back, decided.evicted) == (("p1",), ("p1",), ())
    assert given_up == PodUnreserved(
        uid="p1", node="n1", plugin="DefaultPreemption", message="preempted"
    )
    assert {(each.uid, each.queue) for each in moves} == {
        ("p1", Queue.BACKOFF), ("p2", Queue.BACKOFF)
    }  # fmt: skip
    assert disks.given_up == ["p1 v"]


class Ready:
    """Has nothing to ask for, and nothing against it but its switch."""

    name = "Ready"
    on = True

    def pre_bind(self, cycle: Cycle, pod: Pod, node: str) -> Status | Preparation | None:
        return Preparation((), 30)

    def prepared(
        self, cycle: Cycle, pod: Pod, node: str, nodes: NodeView
    ) -> Status | Awaiting | None:
        return None if self.on else Awaiting(frozenset([("StorageClass", "", "s")]))


def test_a_wait_that_is_over_at_once() -> None:
    engine = engine_of(Ready())
    observed(engine, *added(make_node(), make_pod()))
    intended = msgspec.structs.replace(INTENDED, deadlines={"Ready": 30 * SECOND}, writes={})
    assert attempted(engine) == [WAITING, intended, BIND]


def test_two_plugins_prepare_at_the_same_time() -> None:
    """Both have to be content; the first deadline counts."""
    ready = Ready()
    ready.on = False
    engine = waiting(Disks(), ready)
    assert engine.due == 30 * SECOND
    assert observed(engine, MADE, READY) == [MADE, READY]
    ready.on = True
    class_changed = records.ObjectChanged(object=records.decode(
        b'{"kind":"ObjectChanged","object":{"type":"StorageClass","name":"s"}}'
    ).object)  # fmt: skip
    assert observed(engine, class_changed) == [class_changed, BIND]


def test_a_plugin_without_a_question_waits_for_its_changes_only() -> None:
    class Simple:
        name = "Simple"

        def pre_bind(self, cycle: Cycle, pod: Pod, node: str) -> Status | Preparation | None:
            return Preparation((WRITE, OTHER, WRITE), 9)

    engine = engine_of(Simple())
    observed(engine, *added(make_node(), make_pod()))
    _, intended = attempted(engine)
    assert intended.writes == {"Simple": (WRITE, OTHER)}
    second = records.WriteSucceeded(uid="p1", attempt=1, write=OTHER)
    assert observed(engine, second) == [second]
    assert observed(engine, MADE) == [MADE, BIND]


def test_a_bind_plugin_that_refuses_afterwards() -> None:
    class No:
        name = "No"

        def bind(self, cycle: Cycle, pod: Pod, node: str) -> Status | None:
            return Status.error("not like this")

    disks = Disks()
    engine = waiting(disks, No())
    found = observed(engine, MADE, READY)
    assert found[-2:] == [
        PodUnreserved(uid="p1", node="n1", plugin="No", message="not like this"),
        backing_off(cause="BindingFailed", plugin="No", message="not like this"),
    ]
    assert disks.given_up == ["p1 v"]


@pytest.mark.parametrize("steps", range(3))
def test_a_restart_goes_on_with_the_wait_and_the_time_that_is_left(steps: int) -> None:
    """From the log's bytes, and from a snapshot: what follows is the same."""
    live = engine_of(Disks())
    logged = []
    for stimulus in (*added(make_node(), make_pod()), records.ObjectChanged(object=V)):
        logged += live.observe(stimulus, 0)
    logged += live.schedule_next()
    for stimulus in [MADE, READY][:steps]:
        logged += live.observe(stimulus, SECOND)
    folded, restored = engine_of(Disks()), engine_of(Disks())
    for each in logged:
        folded.apply(each._replace(record=records.decode(records.encode(each.record))))
    restored.restore(live.snapshot(), live.position)
    rest = [*[MADE, READY][steps:], TICK]
    told = [
        [observed(each, stimulus, at=60 * SECOND + number) for number, stimulus in enumerate(rest)]
        for each in (live, folded, restored)
    ]
    assert told[1] == told[0] == told[2]
    assert live.state.digest() == folded.state.digest() == restored.state.digest()
    assert live.due == folded.due == restored.due


def test_the_digest_knows_what_is_waited_for() -> None:
    engine = waiting()
    before = engine.state.digest()
    observed(engine, MADE)
    assert engine.state.digest() != before


@pytest.mark.parametrize(
    ("seconds", "writes", "problem"),
    [
        (float("nan"), (), "raised ValueError: a wait of nan seconds"),
        (-1, (), "raised ValueError: a wait of -1 seconds"),
        (1, ("write",), "raised TypeError: 'write' is no change to ask the cluster for"),
    ],
)
def test_preparations_that_are_none(seconds: float, writes: tuple[Any], problem: str) -> None:
    disks = Disks()
    disks.seconds, disks.writes = seconds, writes
    engine = engine_of(disks)
    observed(engine, *added(make_node(), make_pod()))
    decided, *_ = attempted(engine)
    assert (decided.outcome, decided.plugin) == (Outcome.ERROR, "Disks")
    assert decided.message == f"plugin Disks failed in pre_bind: {problem}"
    assert disks.given_up == ["p1 v"]


def test_a_change_that_cannot_be_stored() -> None:
    disks = Disks()
    disks.writes = (msgspec.structs.replace(WRITE, volume="\ud800"),)
    engine = engine_of(disks)
    observed(engine, *added(make_node(), make_pod()))
    decided, *_ = attempted(engine)
    assert decided.message.startswith("a Preparation cannot be stored as JSON: ")


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (lambda: "yes", "returned 'yes'; None or a Status or a Awaiting is due"),
        (
            lambda: Awaiting(frozenset([("Pod", "", "x")])),
            "raised ValueError: no objects are of type Pod",
        ),
        (lambda: 1 // 0, "raised ZeroDivisionError: integer division or modulo by zero"),
    ],
)
def test_a_plugin_that_breaks_when_it_is_asked(answer: Any, problem: str) -> None:
    """The pod is given up; the engine goes on."""
    disks = Disks()
    disks.prepared = lambda *_: answer()  # type: ignore[method-assign]
    engine = waiting(disks)
    _, unreserved, _ = observed(engine, MADE)
    assert unreserved.message == f"plugin Disks failed in prepared: {problem}"
