"""From the reservation to its end: bind outcomes, permit waits, giving up, and FirstScheduledNode's
memory, which PostBind makes."""

import pytest

from eventsched.domain import records
from eventsched.domain.records import MemoryChanged, Outcome, PodUnreserved, Queue
from eventsched.plugins.first_scheduled_node import FirstScheduledNode, FirstScheduledNodeArgs
from eventsched.plugins.node_resources_fit import NodeResourcesFit
from eventsched.scheduling.engine import Engine
from eventsched.scheduling.framework import Wait
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
    parked,
    records_of,
    refused,
    scheduled,
)

TICK = records.TimePassed()
BOUND = records.PodBound(uid="p1", node="n1", attempt=1)
OK = records.BindSucceeded(uid="p1", node="n1")
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
    assert attempted(engine) == [scheduled(attempt=2, score=75, scores=(fit(),))]


def fit() -> object:
    return identity("NodeResourcesFit")


def test_binds_that_fail_double_the_backoff() -> None:
    """The room was promised and lost, again and again: 1, 2, 4, 8, 10, 10 seconds."""
    engine = reserved()
    now, lengths = 0, []
    for _ in range(6):
        *_, queued = observed(engine, LOST, at=now)
        lengths.append(queued.until - now)  # type: ignore[attr-defined]
        now = queued.until  # type: ignore[attr-defined]
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
    assert attempted(engine) == [scheduled("p2", row=1, score=50, scores=(fit(),))]


class Traced:
    """Reserves, and tells of it."""

    name = "Traced"

    def __init__(self) -> None:
        self.calls: list[str] = []

    def reserve(self, cycle, pod, node):
        cycle.data["ticket"] = 7

    def unreserve(self, cycle, pod, node):
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
    placed = scheduled("p2", score=75, scores=(fit(),), carry={"ticket": 7})
    assert attempted(engine) == [placed]


class Gang:
    """Two pods go together: the first waits for the second."""

    name = "Gang"

    def permit(self, cycle, pod, node):
        if pod.name == "veto":
            for uid in cycle.waiting:
                cycle.reject(uid, "vetoed")
        elif not cycle.waiting:
            cycle.data["first"] = [pod.name]
            return Wait(10)
        for uid in cycle.waiting:
            cycle.allow(uid)
        return None


def gang(*plugins: object) -> Engine:
    """p1 waits at Permit since 0."""
    engine = engine_of(Gang(), *plugins)
    observed(engine, *added(make_node(), make_pod()))
    return engine


def test_permit_wait_then_allowed_by_another_pod() -> None:
    """The intent is a record of its own, after the other pod's decision."""
    engine = gang()
    assert attempted(engine) == [
        scheduled(
            outcome=Outcome.WAITING, carry={"first": ["p1"]}, deadlines={"Gang": 10 * SECOND}
        )
    ]
    assert engine.due == 10 * SECOND
    assert observed(engine, OK, at=1) == [OK]  # nothing was sent yet
    observed(engine, *added(make_pod("p2")), at=2)
    assert attempted(engine) == [
        scheduled("p2"),
        records.PermitGranted(uid="p1", plugin="Gang", by="p2"),
        records.BindIntended(uid="p1", node="n1", attempt=1),
    ]
    assert engine.due is None
    assert observed(engine, OK, at=3) == [OK, BOUND]


def test_permit_wait_rejected_by_another_pod() -> None:
    """The waiting pod gives its room back and waits for a change."""
    engine = gang()
    attempted(engine)
    observed(engine, *added(make_pod("veto")), at=2)
    assert attempted(engine) == [
        scheduled("veto"),
        PodUnreserved(uid="p1", node="n1", plugin="Gang", message="vetoed"),
        parked("p1", "Gang", cause="PermitDenied", plugin="Gang", until=2 + SECOND),
    ]


def test_permit_wait_that_lasts_too_long() -> None:
    """Refused at the deadline, not before."""
    engine = gang()
    attempted(engine)
    assert observed(engine, TICK, at=10 * SECOND - 1) == [TICK]
    assert observed(engine, TICK, at=10 * SECOND) == [
        TICK,
        PodUnreserved(
            uid="p1",
            node="n1",
            plugin="Gang",
            message='pod "default/p1" rejected while waiting on permit: rejected due to timeout '
            "at plugin Gang",
        ),
        parked("p1", "Gang", cause="PermitDenied", plugin="Gang", until=11 * SECOND),
    ]


def test_a_pod_deleted_while_it_waits_at_permit() -> None:
    """There is no deadline any more, and nobody to allow."""
    engine = gang()
    attempted(engine)
    observed(engine, records.PodDeleted(uid="p1"), at=1)
    assert engine.due is None
    observed(engine, *added(make_pod("p2")), at=2)
    assert attempted(engine)[0].outcome is Outcome.WAITING  # type: ignore[attr-defined]


def test_a_waiting_pod_that_somebody_else_binds_waits_no_longer() -> None:
    """Also in an engine that reads the log back."""
    live = gang()
    logged = [
        *live.schedule_next(),
        *live.observe(records.PodUpdated(pod=make_pod(node_name="n1")), 1),
    ]
    again = gang()
    for each in logged:
        again.apply(each)
    for engine in (live, again):
        assert engine.due is None
        observed(engine, *added(make_pod("p2")), at=2)
        assert attempted(engine)[0].outcome is Outcome.WAITING  # type: ignore[attr-defined]


class Volumes:
    """Reserves a volume and attaches it before the bind."""

    name = "Volumes"

    def __init__(self) -> None:
        self.attached: list[object] = []
        self.released: list[object] = []

    def reserve(self, cycle, pod, node):
        cycle.data["volume"] = {"name": f"for {pod.name}", "parts": [1, 2]}

    def unreserve(self, cycle, pod, node):
        self.released.append(cycle.data["volume"])

    def pre_bind(self, cycle, pod, node):
        self.attached.append(cycle.data["volume"])
        if cycle.data["volume"]["name"] == "for bad":
            raise LookupError("no such volume")


def test_what_reserve_left_is_there_at_pre_bind_after_a_wait_and_a_restart() -> None:
    """It comes from the log, through its stored bytes."""
    volumes, fresh = Volumes(), Volumes()
    live, again = engine_of(Gang(), volumes), engine_of(Gang(), fresh)
    logged = []
    for stimulus in added(make_node(), make_pod()):
        logged += live.observe(stimulus, 0)
    logged += live.schedule_next()
    for each in logged:
        again.apply(each._replace(record=records.decode(records.encode(each.record))))
    assert (volumes.attached, fresh.attached) == ([], [])
    for engine in (live, again):
        observed(engine, *added(make_pod("p2")), at=2)
    assert attempted(again) == attempted(live)
    for each in (volumes, fresh):
        assert each.attached[1] == {"name": "for p1", "parts": [1, 2]}


def test_pre_bind_that_fails_after_a_wait() -> None:
    """The granted pod goes back, unreserved; the one that let it go does not."""
    volumes = Volumes()
    engine = engine_of(Gang(), volumes)
    observed(engine, *added(make_node(), make_pod("bad"), make_pod("p2")))
    attempted(engine)
    error = "plugin Volumes failed in pre_bind: raised LookupError: no such volume"
    _, *rest = attempted(engine)
    assert rest == [
        records.PermitGranted(uid="bad", plugin="Gang", by="p2"),
        PodUnreserved(uid="bad", node="n1", plugin="Volumes", message=error),
        backing_off("bad", cause="PreBindFailed", plugin="Volumes", message=error),
    ]
    assert volumes.released == [{"name": "for bad", "parts": [1, 2]}]


# --- FirstScheduledNode --------------------------------------------------------------------------


def home(mode: str) -> Engine:
    """default/p1 has been on n1, which has room for it, and is gone; n2 is larger."""
    sticky = FirstScheduledNode(FirstScheduledNodeArgs(mode=mode))  # type: ignore[arg-type]
    engine = engine_of(NodeResourcesFit(), sticky)
    observed(engine, *added(make_node(cpu=2000), make_pod()))
    attempted(engine)
    assert observed(engine, OK) == [
        OK, BOUND, MemoryChanged(plugin="FirstScheduledNode", key="default/p1", value="n1"),
    ]  # fmt: skip
    observed(engine, records.PodDeleted(uid="p1"), *added(make_node("n2", cpu=8000)))
    return engine


AGAIN = make_pod(uid="p1 again")
ELSEWHERE = "1 node(s) didn't satisfy plugin(s) [FirstScheduledNode]"


def test_required_goes_to_the_first_node() -> None:
    """However much better another one is."""
    engine = home("required")
    observed(engine, *added(AGAIN))
    placed = attempted(engine)
    assert placed == [
        scheduled(uid="p1 again", score=62, counts=((65533, 1),), scores=(fit(),)),
    ]


def test_required_waits_while_its_node_is_full() -> None:
    """And goes there when there is room."""
    engine = home("required")
    observed(engine, *added(make_pod("guest", cpu=2000, node_name="n1"), AGAIN))
    _, decided, queued = attempted(engine)
    assert decided == refused(
        "p1 again",
        f"0/2 nodes are available: 1 Insufficient cpu, {ELSEWHERE}.",
        counts=((1, 1), (65533, 1)),
    )
    assert queued == parked("p1 again", "FirstScheduledNode", "NodeResourcesFit")
    observed(engine, records.PodDeleted(uid="guest"), at=SECOND)
    assert attempted(engine)[0].node == "n1"  # type: ignore[attr-defined]


def test_required_waits_while_its_node_is_gone() -> None:
    """And goes there when it is back."""
    engine = home("required")
    observed(engine, records.NodeDeleted(name="n1"), *added(AGAIN))
    assert attempted(engine) == [
        refused(
            "p1 again", f"0/1 nodes are available: {ELSEWHERE}.", evaluated=0,
            counts=((65533, 1),),
        ),
        parked("p1 again", "FirstScheduledNode"),
    ]  # fmt: skip
    observed(engine, *added(make_node(cpu=2000)), at=SECOND)
    assert attempted(engine)[0].node == "n1"  # type: ignore[attr-defined]


def test_preferred_scores_the_first_node() -> None:
    """100 there, 0 elsewhere, on top of the other scores."""
    engine = home("preferred")
    observed(engine, *added(AGAIN))
    columns = (fit(), identity("FirstScheduledNode"))
    assert attempted(engine) == [
        scheduled(
            uid="p1 again", score=162, scores=columns, feasible=2, evaluated=2,
            runner_up="n2", runner_up_score=81,
        )
    ]  # fmt: skip


def test_preferred_takes_another_node_and_remembers_the_first() -> None:
    """Binding elsewhere is no new memory."""
    engine = home("preferred")
    observed(engine, records.NodeDeleted(name="n1"), *added(AGAIN))
    attempted(engine)
    outcome = records.BindSucceeded(uid="p1 again", node="n2")
    bound = records.PodBound(uid="p1 again", node="n2", attempt=1)
    assert observed(engine, outcome) == [outcome, bound]
    assert engine.state.memory == {"FirstScheduledNode": {"default/p1": "n1"}}


def test_a_pod_of_another_namespace_has_another_memory() -> None:
    """The memory is of namespace and name."""
    engine = home("required")
    observed(engine, *added(make_pod(uid="other", namespace="other")))
    decided = attempted(engine)[0]
    assert (decided.node, decided.feasible) == ("n2", 2)  # type: ignore[attr-defined]


def test_memory_survives_the_fold() -> None:
    """A fresh engine that reads the log back knows the first node; forgetting is a record, too."""
    engines = [
        engine_of(NodeResourcesFit(), FirstScheduledNode()) for _ in range(2)
    ]
    live, again = engines
    logged = []
    for stimulus in added(make_node(), make_pod()):
        logged += live.observe(stimulus, 0)
    logged += live.schedule_next()
    logged += live.observe(OK, 1)
    assert any(isinstance(each, MemoryChanged) for each in records_of(logged))
    for each in logged:
        again.apply(each)
    assert again.state.memory == live.state.memory == {"FirstScheduledNode": {"default/p1": "n1"}}
    assert again.state.digest() == live.state.digest()
    again.state.apply(MemoryChanged(plugin="FirstScheduledNode", key="default/p1"), 1)
    assert again.state.memory == {"FirstScheduledNode": {}}


def test_an_attempt_is_in_no_queue() -> None:
    """While reserved, a pod is counted nowhere."""
    assert reserved().queue_lengths == dict.fromkeys(Queue, 0)
