"""NodeGroup, or MyCustomPlugin: pods go to nodes of their group."""

import pytest

from eventsched.domain import records
from eventsched.domain.objects import Pod
from eventsched.domain.records import VerdictDefined
from eventsched.domain.records.verdicts import Code, Verdict
from eventsched.plugins.gallery.node_group import MyCustomPlugin, NodeGroup, NodeGroupArgs
from tests.builders import (
    SECOND,
    added,
    attempted,
    engine_of,
    make_node,
    make_pod,
    observed,
    parked,
    refused,
    scheduled,
    woken,
)

NODES = [
    make_node("m01"),
    make_node("m02", labels={"nodeGroup": "1"}),
    make_node("m03", labels={"nodeGroup": "2"}),
]
LACKS, DIFFERS = "node does not have required label", "nodeGroup of pod and node don't match"


def member(name: str, group: str, key: str = "nodeGroup") -> Pod:
    """A pod of a group."""
    return make_pod(name, labels={key: group})


@pytest.mark.parametrize("plugin", [NodeGroup, MyCustomPlugin])
def test_pods_go_to_nodes_of_their_group(plugin: type[NodeGroup]) -> None:
    """Under either name: the whole list of records."""
    engine = engine_of(plugin())
    pods = [member("one", "1"), member("two", "2"), make_pod("anywhere")]
    observed(engine, *added(*NODES, *pods))
    words = [
        VerdictDefined(
            number=number,
            verdict=Verdict(plugin=plugin.name, code=Code.UNRESOLVABLE, reasons=(reason,)),
        )
        for number, reason in ((1, LACKS), (2, DIFFERS))
    ]
    counts = ((1, 1), (2, 1))
    one = scheduled("one", "m02", row=1, evaluated=3, counts=counts)
    assert attempted(engine) == [*words, one]
    assert attempted(engine) == [scheduled("two", "m03", row=2, evaluated=3, counts=counts)]
    (decided,) = attempted(engine)
    assert (decided.feasible, decided.counts) == (3, ())


def test_a_pod_of_a_group_without_nodes_waits_for_one() -> None:
    """Another group's node does not wake it; a label does."""
    engine = engine_of(NodeGroup())
    observed(engine, *added(*NODES[:2], member("p1", "2")))
    *_, decided, queued = attempted(engine)
    message = f"0/2 nodes are available: 1 {LACKS}, 1 {DIFFERS}."
    assert decided == refused(message=message, evaluated=2, counts=((1, 1), (2, 1)))
    assert queued == parked("p1", "NodeGroup")
    other = added(make_node("m04", labels={"nodeGroup": "3"}))
    assert observed(engine, *other, at=SECOND) == other
    labelled = records.NodeUpdated(node=make_node("m01", labels={"nodeGroup": "2"}))
    move = woken("NodeUpdateLabel", "NodeGroup")
    assert observed(engine, labelled, at=SECOND) == [labelled, move]
    assert attempted(engine)[-1].node == "m01"


def test_a_pod_that_leaves_its_group_may_go_anywhere() -> None:
    """Its update wakes it."""
    engine = engine_of(NodeGroup())
    observed(engine, *added(NODES[0], member("p1", "2")))
    attempted(engine)
    free = records.PodUpdated(pod=make_pod("p1"))
    assert observed(engine, free, at=SECOND) == [free, woken("PodUpdate", "NodeGroup")]
    assert attempted(engine)[-1].node == "m01"


def test_another_label() -> None:
    """As the arguments say; its words name it."""
    engine = engine_of(NodeGroup(NodeGroupArgs(label="example.com/team")))
    node = make_node("n1", labels={"example.com/team": "red", "nodeGroup": "1"})
    observed(engine, *added(node, member("p1", "blue", "example.com/team"), member("p2", "2")))
    said = attempted(engine)[1].message
    assert said == "0/1 nodes are available: 1 example.com/team of pod and node don't match."
    assert attempted(engine)[-1].node == "n1"
