"""FirstScheduledNode: the first node of a name is remembered, waited for or preferred."""

from eventsched.domain import records
from eventsched.domain.records import MemoryChanged
from eventsched.plugins.first_scheduled_node import FirstScheduledNode, FirstScheduledNodeArgs
from eventsched.plugins.node_resources_fit import NodeResourcesFit
from eventsched.scheduling.engine import Engine
from tests.builders import (
    SECOND,
    added,
    attempted,
    defined,
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
FIT = (identity("NodeResourcesFit"),)


def home(mode: str) -> Engine:
    """default/p1 has been on n1, which has room for it, and is gone; n2 is larger."""
    sticky = FirstScheduledNode(FirstScheduledNodeArgs(mode=mode))
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
        scheduled(uid="p1 again", score=62, counts=((65533, 1),), scores=FIT),
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
    assert attempted(engine)[0].node == "n1"


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
    assert attempted(engine)[0].node == "n1"


def test_preferred_scores_the_first_node() -> None:
    """100 there, 0 elsewhere, on top of the other scores."""
    engine = home("preferred")
    observed(engine, *added(AGAIN))
    columns = (*FIT, identity("FirstScheduledNode"))
    assert attempted(engine) == [
        defined(*columns, number=2),
        scheduled(
            uid="p1 again", score=162, scores=columns, scoring=2, feasible=2, evaluated=2,
            runner_up="n2", runner_up_score=81,
        ),
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
    assert (decided.node, decided.feasible) == ("n2", 2)


def test_memory_survives_the_fold() -> None:
    """A fresh engine that reads the log back knows the first node; forgetting is a record, too."""
    engines = [engine_of(NodeResourcesFit(), FirstScheduledNode()) for _ in range(2)]
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
