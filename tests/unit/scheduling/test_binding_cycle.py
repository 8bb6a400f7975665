"""From the reservation to its end: what the cluster says about the bind, and giving up."""

import pytest

from eventsched.domain import records
from eventsched.domain.behaviours import CURRENT
from eventsched.domain.objects import Pod
from eventsched.domain.records import PodUnreserved, Queue
from eventsched.plugins.node_resources_fit import NodeResourcesFit
from eventsched.scheduling.engine import Engine
from eventsched.scheduling.framework import Cycle
from tests.builders import (
    SECOND,
    active,
    added,
    attempted,
    backing_off,
    engine_of,
    identity,
    make_node,
    make_pod,
    observed,
    scheduled,
)

TICK = records.TimePassed()
BOUND = records.PodBound(uid="p1", node="n1", attempt=1)
OK = records.BindSucceeded(uid="p1", node="n1")
FIT = (identity("NodeResourcesFit"),)
LOST = records.BindFailed(uid="p1", node="n1", message="conflict")


def reserved(*plugins: object) -> Engine:
    """An engine that has placed p1 on n1 at 0, before the bind's outcome."""
    engine = engine_of(NodeResourcesFit(), *plugins)
    observed(engine, *added(make_node(), make_pod()))
    attempted(engine)
    return engine


def test_a_bind_that_succeeds() -> None:
    """PodBound, once; the pod is on its node."""
    engine = reserved()
    assert observed(engine, OK, at=5) == [OK, BOUND]
    assert observed(engine, OK, at=5) == [OK]
    assert engine.state.pods["p1"].bound
    confirmed = records.PodUpdated(pod=make_pod(node_name="n1"))
    assert observed(engine, confirmed, at=5) == []


def test_a_bind_that_fails() -> None:
    """The room is free again, and the pod backs off without waiting for a change."""
    engine = reserved()
    assert observed(engine, LOST, at=5) == [
        LOST,
        PodUnreserved(uid="p1", node="n1", message="conflict"),
        backing_off(cause="BindFailed", until=5 + SECOND, message="conflict"),
    ]
    assert observed(engine, TICK, at=5 + SECOND) == [
        TICK, active(cause="BackoffComplete", until=5 + SECOND, errors=1),
    ]  # fmt: skip
    assert attempted(engine) == [scheduled(attempt=2, score=75, scores=FIT)]


def test_binds_that_fail_double_the_backoff() -> None:
    """The room was promised and lost, again and again: 1, 2, 4, 8, 10, 10 seconds."""
    engine = reserved()
    now, lengths = 0, []
    for _ in range(6):
        *_, queued = observed(engine, LOST, at=now)
        lengths.append(queued.until - now)
        now = queued.until
        observed(engine, TICK, at=now)
        attempted(engine)
    assert [each // SECOND for each in lengths] == [1, 2, 4, 8, 10, 10]
    observed(engine, OK, at=now)
    state = engine.state.pods["p1"]
    assert (state.errors, state.failures, state.until) == (0, 0, 0)


def test_what_a_failed_bind_frees_wakes_others() -> None:
    """A pod that found the node full goes up."""
    engine = engine_of(NodeResourcesFit())
    observed(engine, *added(make_node(cpu=1000), make_pod(), make_pod("p2")))
    attempted(engine)
    attempted(engine)
    assert observed(engine, LOST, at=2 * SECOND) == [
        LOST,
        PodUnreserved(uid="p1", node="n1", message="conflict"),
        active(
            "p2", "AssignedPodDelete", plugin="NodeResourcesFit",
            rejectors=("NodeResourcesFit",), until=SECOND, failures=1,
        ),
        backing_off(cause="BindFailed", until=3 * SECOND, message="conflict"),
    ]  # fmt: skip


@pytest.mark.parametrize("outcome", [OK, LOST])
def test_the_late_outcome_of_a_deleted_pod(outcome: records.Stimulus) -> None:
    """It is noted, and changes nothing."""
    engine = reserved()
    gone = records.PodDeleted(uid="p1")
    assert observed(engine, gone, at=1) == [gone]
    assert observed(engine, outcome, at=2) == [outcome]


def test_an_outcome_for_another_node_is_not_this_one_s() -> None:
    """The bind of an earlier attempt that had been given up."""
    stale = records.BindSucceeded(uid="p1", node="elsewhere")
    assert observed(reserved(), stale, at=1) == [stale]


def test_a_bind_whose_node_is_deleted_meanwhile() -> None:
    """The API server took it: the pod is bound, and booked when the node comes back."""
    engine = reserved()
    observed(engine, records.NodeDeleted(name="n1"))
    assert observed(engine, OK) == [OK, BOUND]
    observed(engine, *added(make_node(), make_pod("p2")))
    assert attempted(engine) == [scheduled("p2", row=1, score=50, scores=FIT)]


class Traced:
    """Reserves, and notes it."""

    name = "Traced"

    def __init__(self) -> None:
        self.calls: list[str] = []

    def reserve(self, cycle: Cycle, pod: Pod, node: str) -> None:
        cycle.data["ticket"] = 7

    def unreserve(self, cycle: Cycle, pod: Pod, node: str) -> None:
        self.calls.append(f"{pod.name} {node} {cycle.data['ticket']}")


def test_a_pod_deleted_while_reserved_is_unreserved() -> None:
    """Its plugins hear of it with what they had left in the cycle, and the room is free."""
    traced = Traced()
    engine = reserved(traced)
    gone = records.PodDeleted(uid="p1")
    assert observed(engine, gone, at=1) == [gone]
    assert traced.calls == ["p1 n1 7"]
    assert engine.state.reservations == {}
    observed(engine, *added(make_pod("p2")), at=1)
    placed = scheduled("p2", score=75, scores=FIT, carry={"ticket": 7})
    assert attempted(engine) == [placed]


def test_an_attempt_is_in_no_queue() -> None:
    """While reserved, a pod is counted nowhere."""
    assert reserved().queue_lengths == dict.fromkeys(Queue, 0)


def test_a_pod_shown_on_our_node_before_the_outcome_is_bound() -> None:
    """A watch can be faster than the answer to the bind; the answer then changes nothing."""
    engine = engine_of()
    observed(engine, *added(make_node(), make_pod("p1")))
    attempted(engine)
    shown = records.PodUpdated(pod=make_pod("p1", node_name="n1"))
    bound = records.PodBound(uid="p1", node="n1", attempt=1)
    assert observed(engine, shown, at=1) == [shown, bound]
    late = records.BindSucceeded(uid="p1", node="n1")
    assert observed(engine, late, at=2) == [late]
    assert engine.state.nodes.totals[1].tolist()[:1] == [1000]


def test_a_pod_that_is_being_deleted_is_not_placed() -> None:
    """It leaves the queue for good, with a record that says so, and that is not an attempt."""
    engine = engine_of()
    observed(engine, records.StreamStarted(format=1, engine="2", seed="s", flags=CURRENT))
    observed(engine, *added(make_node(), make_pod("p1", deleting=True)))
    skipped = records.PodSkipped(uid="p1", message="skip schedule deleting pod: default/p1")
    assert attempted(engine) == [skipped]
    assert engine.state.pods["p1"].attempts == 0
    assert engine.queue_lengths == dict.fromkeys(Queue, 0)
    assert attempted(engine) == []
    assert engine.due is None


def test_a_log_of_0_1_repeats_the_error_of_a_pod_that_is_being_deleted() -> None:
    """A stream without the flag counts an attempt; a term that brings it counts no more of them,
    and a snapshot keeps it."""
    engine = engine_of()
    observed(engine, records.StreamStarted(format=1, engine="0.1.0", seed="s"))
    observed(engine, *added(make_node(), make_pod("p1", deleting=True)))
    [decided] = attempted(engine)
    assert isinstance(decided, records.PodDecided)
    assert (decided.outcome, decided.attempt) == (records.Outcome.ERROR, 1)
    assert decided.message == "skip schedule deleting pod: default/p1"
    upgraded = records.TermBegan(epoch=2, token="00", engine="0.1.0", flags=CURRENT)
    observed(engine, upgraded, *added(make_pod("p2", deleting=True)), at=1)
    restored = engine_of()
    restored.restore(engine.snapshot(), engine.position)
    for each in (engine, restored):
        assert [type(record) for record in attempted(each)] == [records.PodSkipped]


def test_data_that_cannot_be_stored_fails_the_attempt() -> None:
    """The log must be able to give it back at PreBind."""

    class Odd:
        name = "Odd"

        def reserve(self, cycle: Cycle, pod: Pod, node: str) -> None:
            cycle.data["odd"] = object()

    engine = engine_of(Odd())
    observed(engine, *added(make_node(), make_pod("p1")))
    decided, queued = attempted(engine)
    assert isinstance(decided, records.PodDecided)
    assert decided.outcome is records.Outcome.ERROR
    assert decided.message.startswith("cycle.data cannot be stored as JSON")
    assert isinstance(queued, records.PodQueued)
    assert engine.state.reservations == {}


def test_the_room_of_a_reserved_pod_that_somebody_else_binds_elsewhere_wakes_others() -> None:
    """It is free again where we had placed it."""
    engine = engine_of(NodeResourcesFit())
    observed(engine, *added(make_node(cpu=1000), make_pod(), make_pod("p2")))
    attempted(engine)
    attempted(engine)
    elsewhere = records.PodUpdated(pod=make_pod(node_name="n2"))
    assert observed(engine, elsewhere, at=2 * SECOND) == [
        elsewhere,
        active(
            "p2", "AssignedPodDelete", plugin="NodeResourcesFit",
            rejectors=("NodeResourcesFit",), until=SECOND, failures=1,
        ),
    ]  # fmt: skip


def test_a_reservation_that_is_void_is_given_up() -> None:
    """Its room is free, and the pod backs off; an older one's end means nothing."""
    engine = reserved()
    void = records.BindVoided(uid="p1", node="n1", attempt=1, reason="the node is gone")
    assert observed(engine, void, at=5) == [
        void,
        PodUnreserved(uid="p1", node="n1", message="the node is gone"),
        backing_off(cause="BindVoided", until=5 + SECOND, message="the node is gone"),
    ]
    observed(engine, TICK, at=5 + SECOND)
    attempted(engine)
    assert observed(engine, void, at=6 + SECOND) == [void]
    assert engine.state.reservations["p1"].attempt == 2
