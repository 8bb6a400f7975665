"""A node that holds more than it has: said once, with what made it so."""

from eventsched.domain import records
from eventsched.plugins.node_resources_fit import NodeResourcesFit
from tests.builders import added, attempted, engine_of, make_node, make_pod, observed


def told(found: list[records.Record]) -> list[records.Record]:
    """The events of this kind."""
    return [each for each in found if isinstance(each, records.NodeOvercommitted)]


def test_somebody_else_places_a_pod_where_ours_is() -> None:
    """The event names the pod, and how much there is of what."""
    engine = engine_of(NodeResourcesFit())
    observed(engine, *added(make_node(cpu=4000), make_pod(cpu=3000)))
    attempted(engine)
    intruder = make_pod("p2", cpu=1500, scheduler_name="other")
    assert told(observed(engine, records.PodAdded(pod=intruder))) == []
    bound = make_pod("p2", cpu=1500, scheduler_name="other", node_name="n1")
    found = told(observed(engine, records.PodUpdated(pod=bound)))
    assert found == [records.NodeOvercommitted(node="n1", by="p2", resources={"cpu": (4500, 4000)})]


def test_it_is_said_once() -> None:
    """And again when it was over in between, or for another resource."""
    engine = engine_of(NodeResourcesFit())
    pods = [make_pod(f"p{number}", cpu=3000, memory=0, node_name="n1") for number in range(3)]
    found = told(observed(engine, *added(make_node(cpu=4000, pods=3), *pods)))
    assert [each.by for each in found] == ["p1"]  # type: ignore[attr-defined]
    assert told(observed(engine, records.NodeUpdated(node=make_node(cpu=5000, pods=3)))) == []
    more = make_pod("p3", cpu=0, memory=0, node_name="n1")
    [again] = told(observed(engine, records.PodAdded(pod=more)))
    assert again == records.NodeOvercommitted(node="n1", by="p3", resources={"pods": (4, 3)})
    ends = [records.PodDeleted(uid=uid) for uid in ("p1", "p2", "p3")]
    assert told(observed(engine, *ends)) == []
    assert len(told(observed(engine, records.PodAdded(pod=pods[1])))) == 1


def test_a_node_becomes_smaller_or_comes_back() -> None:
    """Then no pod has done it."""
    engine = engine_of(NodeResourcesFit())
    observed(engine, *added(make_node(cpu=4000), make_pod(cpu=3000, node_name="n1")))
    [smaller] = told(observed(engine, records.NodeUpdated(node=make_node(cpu=2000))))
    assert smaller == records.NodeOvercommitted(node="n1", by="", resources={"cpu": (3000, 2000)})
    assert told(observed(engine, records.NodeDeleted(name="n1"))) == []
    assert told(observed(engine, records.NodeAdded(node=make_node(cpu=2000)))) == [smaller]


def test_our_own_bind_that_is_seen_in_a_watch_is_nothing_new() -> None:
    """It was counted when it was decided."""
    engine = engine_of(NodeResourcesFit())
    observed(engine, *added(make_node(cpu=1000), make_pod(cpu=1000)))
    attempted(engine)
    assert told(observed(engine, records.PodUpdated(pod=make_pod(node_name="n1")))) == []
