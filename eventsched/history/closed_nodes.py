"""The nodes that keep a pod away by taints, a cordon or their labels alone, and are large enough
for it.

NodeUnschedulable, TaintToleration and NodeAffinity refuse a node before NodeResourcesFit looks at
it, so an attempt does not say whether the pod would fit there. The nodes do.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from eventsched.domain.nodes.node_table import ALLOCATABLE, NodeTable
from eventsched.domain.nodes.node_views import NodeView
from eventsched.domain.objects import PODS, Node, Pod, Taint, Toleration, pod_requests
from eventsched.scheduling.rules.selection import Bools, meets
from eventsched.scheduling.rules.tolerations import tolerates

CORDON = "node.kubernetes.io/unschedulable"
_REFUSING = ("NoSchedule", "NoExecute")
CONDITIONS = {
    "node.kubernetes.io/not-ready": "not ready",
    "node.kubernetes.io/unreachable": "unreachable",
    "node.kubernetes.io/memory-pressure": "short of memory",
    "node.kubernetes.io/disk-pressure": "short of disk space",
    "node.kubernetes.io/pid-pressure": "short of process IDs",
    "node.kubernetes.io/network-unavailable": "without a network",
}
"""What is wrong with a node that has a taint of such a key. The node controller sets these taints
and removes them when the condition ends (pkg/controller/nodelifecycle)."""


class ClosedNodes(NamedTuple):
    """Nodes that the same taints close to a pod, or a cordon, or both: ``nodes`` of them are large
    enough for its requests, if they are empty. ``example`` is the first of them."""

    taints: tuple[Taint, ...]
    is_cordoned: bool
    nodes: int
    example: str

    @property
    def conditions(self) -> tuple[str, ...]:
        """What is wrong with the nodes, according to their taints."""
        found = (CONDITIONS[taint.key] for taint in self.taints if taint.key in CONDITIONS)
        return tuple(dict.fromkeys(found))


def closed_nodes(table: NodeTable, pod: Pod) -> tuple[ClosedNodes, ...]:
    """The closed nodes that suit the pod's node selector and affinity: those last that have to be
    repaired first, then those first that are closed by less, then the larger groups."""
    rows, fits = _large_enough(table, pod)
    fits &= _selected(table, rows, pod)
    groups: dict[tuple[tuple[Taint, ...], bool], list[str]] = {}
    for node in _nodes(table, rows[fits]):
        closed_by = _closed_by(node, pod.spec.tolerations)
        if any(closed_by):
            groups.setdefault(closed_by, []).append(node.name)
    found = [
        ClosedNodes(taints, is_cordoned, len(names), names[0])
        for (taints, is_cordoned), names in groups.items()
    ]
    return tuple(sorted(found, key=_order))


def unselected_nodes(table: NodeTable, pod: Pod) -> tuple[str, ...]:
    """The names of the open nodes that are large enough for the pod when empty, and that only its
    node selector or its affinity leaves out."""
    rows, fits = _large_enough(table, pod)
    fits &= ~_selected(table, rows, pod)
    nodes = _nodes(table, rows[fits])
    return tuple(node.name for node in nodes if not any(_closed_by(node, pod.spec.tolerations)))


def _large_enough(table: NodeTable, pod: Pod) -> tuple[np.ndarray, Bools]:
    """The rows of the nodes, and which of these hold the pod's requests when empty."""
    rows = np.flatnonzero(table.alive[: table.size])
    fits = np.ones(len(rows), dtype=bool)
    for resource, amount in {**pod_requests.of(pod.spec).effective, PODS: 1}.items():
        if not amount:
            continue
        column = table.resource_index.get(resource)
        if column is None:
            fits[:] = False  # no node offers it
        else:
            fits &= table.books[rows, ALLOCATABLE, column] >= amount
    return rows, fits


def _selected(table: NodeTable, rows: np.ndarray, pod: Pod) -> Bools:
    return meets(NodeView(table, rows), pod.spec.node_selector, pod.spec.required_node_terms)


def _nodes(table: NodeTable, rows: np.ndarray) -> Iterable[Node]:
    for row in rows:
        node = table.nodes[row]
        assert node is not None
        yield node


def _order(closed: ClosedNodes) -> tuple[bool, int, int]:
    return bool(closed.conditions), len(closed.taints) + closed.is_cordoned, -closed.nodes


def _closed_by(node: Node, tolerations: Iterable[Toleration]) -> tuple[tuple[Taint, ...], bool]:
    """The taints that repel a pod with these tolerations, and whether a cordon does. A cordoned
    node has a taint that says so, which counts as the cordon."""
    own = tuple(tolerations)
    repelling = [
        taint
        for taint in node.taints
        if taint.effect in _REFUSING and not tolerates(own, taint)
    ]  # fmt: skip
    cordon = Taint(CORDON, "", "NoSchedule")
    has_taint = any(taint.key == CORDON for taint in repelling)
    is_cordoned = has_taint or (node.unschedulable and not tolerates(own, cordon))
    return tuple(taint for taint in repelling if taint.key != CORDON), is_cordoned
