"""Nodes that only taints or a cordon close to a pod, and that are large enough for it."""

from typing import Any

import pytest

from eventsched.domain.nodes.node_table import NodeTable
from eventsched.domain.objects import (
    Container,
    NodeSelectorTerm,
    Pod,
    PodSpec,
    Requirement,
    Taint,
    Toleration,
)
from eventsched.history.closed_nodes import ClosedNodes, closed_nodes, unselected_nodes
from eventsched.history.why_not.changes import TaintRemoved
from eventsched.testing.objects import make_node

GPU = Taint("example.com/gpu", "present", "NoSchedule")
DB = Taint("dedicated", "db", "NoExecute")
SOFT = Taint("busy", "", "PreferNoSchedule")
CORDON = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")
TOLERATES_GPU = Toleration(key=GPU.key, operator="Exists")
TOLERATES_CORDON = Toleration(key=CORDON.key, operator="Exists")


def cluster() -> NodeTable:
    """Open nodes of 4 cpu, database nodes of 8, and GPU nodes of 16 with two GPUs each."""
    nodes = NodeTable()
    for name in ("web-0", "web-1"):
        nodes.add(make_node(name, cpu=4000, taints=(SOFT,)))
    for name in ("db-0", "db-1", "db-2"):
        nodes.add(make_node(name, cpu=8000, taints=(DB,), labels={"pool": "db"}))
    for name in ("gpu-0", "gpu-1"):
        nodes.add(make_node(name, cpu=16000, taints=(GPU, SOFT), extra={GPU.key: 2}))
    return nodes


def pod(name: str, cpu: int, gpus: int = 0, **spec: Any) -> Pod:
    requests = {"cpu": cpu, GPU.key: gpus} if gpus else {"cpu": cpu}
    return Pod(
        uid=name, name=name, spec=PodSpec(containers=(Container(requests=requests),), **spec)
    )


@pytest.mark.parametrize(
    ("asked", "wanted"),
    [
        (pod("a", 6000, 1), [ClosedNodes((GPU,), False, 2, "gpu-0", 2, True)]),
        (pod("a", 6000, 1, tolerations=(TOLERATES_GPU,)), []),
        (pod("a", 6000), [ClosedNodes((DB,), False, 3, "db-0", 3),
                          ClosedNodes((GPU,), False, 2, "gpu-0", 2)]),
        (pod("a", 6000, node_selector={"pool": "db"}),
         [ClosedNodes((DB,), False, 3, "db-0", 3, True)]),
        (pod("a", 16000), [ClosedNodes((GPU,), False, 2, "gpu-0", 2)]),
        (pod("a", 20000), []),
        (pod("a", 1000, 3), []),
    ],
)  # fmt: skip
def test_only_nodes_that_are_large_enough_count(asked: Pod, wanted: list[ClosedNodes]) -> None:
    assert list(closed_nodes(cluster(), asked)) == wanted


def test_a_pod_asks_for_nodes_only_if_no_open_node_has_their_labels() -> None:
    nodes = cluster()
    nodes.add(make_node("web-2", cpu=1000, labels={"pool": "db"}))
    [found] = closed_nodes(nodes, pod("a", 6000, node_selector={"pool": "db"}))
    assert not found.is_asked_for


def test_nodes_with_room_are_counted_and_come_first() -> None:
    nodes = cluster()
    for name, booked in (("db-0", 7000), ("gpu-0", 12000), ("web-0", 3500)):
        nodes.place(nodes.rows[name], pod(f"on-{name}", booked))
    assert list(closed_nodes(nodes, pod("a", 2000))) == [
        ClosedNodes((DB,), False, 3, "db-1", 2), ClosedNodes((GPU,), False, 2, "gpu-0", 2),
    ]  # fmt: skip
    asked = pod("a", 3000, node_selector={"pool": "none"})
    assert unselected_nodes(nodes, asked)[:2] == (("web-1", "web-0"), 1)


def test_no_node_offers_the_resource() -> None:
    nodes = NodeTable()
    nodes.add(make_node("db-0", taints=(DB,)))
    assert closed_nodes(nodes, pod("a", 1000, 1)) == ()


def test_a_node_that_is_gone_or_takes_no_pods() -> None:
    nodes = NodeTable()
    nodes.add(make_node("db-0", taints=(DB,)))
    nodes.add(make_node("db-1", taints=(DB,), pods=0))
    nodes.add(make_node("db-2", taints=(DB,)))
    nodes.remove("db-0", 1)
    assert closed_nodes(nodes, pod("a", 1000)) == (ClosedNodes((DB,), False, 1, "db-2", 1),)


def test_a_cordon_and_its_taint_count_once() -> None:
    nodes = NodeTable()
    nodes.add(make_node("a", taints=(CORDON,), unschedulable=True))
    nodes.add(make_node("b", taints=(DB,), unschedulable=True))
    asked = pod("p", 1000)
    cordoned = ClosedNodes((), True, 1, "a", 1)
    assert closed_nodes(nodes, asked) == (cordoned, ClosedNodes((DB,), True, 1, "b", 1))
    tolerant = pod("p", 1000, tolerations=(TOLERATES_CORDON,))
    assert closed_nodes(nodes, tolerant) == (ClosedNodes((DB,), False, 1, "b", 1),)


def test_the_taint_of_a_cordon_is_a_cordon() -> None:
    """The node controller sets it after the cordon, and removes it after the end."""
    nodes = NodeTable()
    nodes.add(make_node("a", taints=(CORDON,)))
    assert closed_nodes(nodes, pod("p", 1000)) == (ClosedNodes((), True, 1, "a", 1),)
    assert closed_nodes(nodes, pod("p", 1000, tolerations=(TOLERATES_CORDON,))) == ()


def test_nodes_that_have_to_be_repaired_come_last() -> None:
    broken = [
        Taint("node.kubernetes.io/not-ready", "", "NoSchedule"),
        Taint("node.kubernetes.io/not-ready", "", "NoExecute"),
        Taint("node.kubernetes.io/disk-pressure", "", "NoSchedule"),
    ]
    nodes = NodeTable()
    nodes.add(make_node("a", taints=tuple(broken[:1])))
    nodes.add(make_node("b", taints=(DB, GPU)))
    nodes.add(make_node("c", taints=tuple(broken)))
    found = closed_nodes(nodes, pod("p", 1000))
    assert [each.example for each in found] == ["b", "a", "c"]
    assert found[0].conditions == ()
    assert found[2].conditions == ("not ready", "short of disk space")


def test_nodes_that_only_lack_a_label() -> None:
    """Those that are open and large enough, whose label the pod does not select."""
    nodes = cluster()
    asked = pod("a", 1000, node_selector={"pool": "db"})
    assert unselected_nodes(nodes, asked)[:2] == (("web-0", "web-1"), 2)
    assert unselected_nodes(nodes, pod("a", 5000, node_selector={"pool": "db"}))[:2] == ((), 0)
    tolerant = pod("a", 5000, node_selector={"pool": "db"}, tolerations=(TOLERATES_GPU,))
    assert unselected_nodes(nodes, tolerant)[:2] == (("gpu-0", "gpu-1"), 2)
    assert unselected_nodes(nodes, pod("a", 1000))[:2] == ((), 0)


@pytest.mark.parametrize(
    ("taint", "text"),
    [
        (Taint("node.kubernetes.io/not-ready", "", "NoExecute"),
         "repair the node, which is not ready: that ends its taint "
         "node.kubernetes.io/not-ready:NoExecute"),
        (CORDON, "uncordon the node: that ends its taint "
         "node.kubernetes.io/unschedulable:NoSchedule"),
        (DB, "remove the node's taint dedicated=db:NoExecute"),
    ],
)  # fmt: skip
def test_a_taint_of_the_node_controller_ends_with_its_condition(taint: Taint, text: str) -> None:
    assert TaintRemoved(taint).text == text


def test_a_label_that_nodes_have_with_another_value_is_named() -> None:
    nodes = NodeTable()
    nodes.add(make_node("a", labels={"pool": "web", "zone": "x"}))
    nodes.add(make_node("b", labels={"zone": "x"}))
    assert unselected_nodes(nodes, pod("p", 1, node_selector={"pool": "db"})).replaced == (
        ("a", "pool=web"),
    )
    term = NodeSelectorTerm(expressions=(Requirement("zone", "In", ("y", "z")),))
    spec: dict[str, Any] = {"node_selector": {"pool": "db"}, "required_node_terms": (term,)}
    found = unselected_nodes(nodes, pod("p", 1, **spec))
    assert found.replaced == (("a", "pool=web, zone=x"), ("b", "zone=x"))
