"""The nodes that keep a pod away by taints, a cordon or their labels alone, and are large enough
for it.

NodeUnschedulable, TaintToleration and NodeAffinity refuse a node before NodeResourcesFit looks at
it, so an attempt does not say whether the pod would fit there. The nodes do.

Tainted nodes are taken for dedicated ones. A pod asks for what they offer if it requests an
extended resource that they have (the admission plugin ExtendedResourceToleration adds the
toleration to such pods), or if only closed nodes have the labels that it selects.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from eventsched.domain.nodes.node_table import ALLOCATABLE, REQUESTED, NodeTable
from eventsched.domain.nodes.node_views import NodeView
from eventsched.domain.objects import PODS, Node, Pod, Taint, Toleration, pod_requests
from eventsched.domain.objects.resource_names import is_extended
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
    enough for its requests, if they are empty, and ``with_room`` have room for them now (None: it
    is not known which pods are on them). ``example`` is the first of them, one with room if there
    is any. ``is_asked_for``: the pod asks for what they offer."""

    taints: tuple[Taint, ...]
    is_cordoned: bool
    nodes: int
    example: str
    with_room: int | None = None
    is_asked_for: bool = False

    @property
    def conditions(self) -> tuple[str, ...]:
        """What is wrong with the nodes, according to their taints."""
        found = (CONDITIONS[taint.key] for taint in self.taints if taint.key in CONDITIONS)
        return tuple(dict.fromkeys(found))

    @property
    def is_for_the_pod(self) -> bool:
        """Whether an operator would open the nodes to the pod: they are healthy, and only
        cordoned, or it asks for what they offer."""
        return not self.conditions and (not self.taints or self.is_asked_for)


class UnselectedNodes(NamedTuple):
    """Nodes by name, those with room for a pod first; ``with_room`` have it, None if that is not
    known. ``replaced``: the names of nodes that have another value for a label that the pod asks
    for, with these labels: other pods may select them."""

    names: tuple[str, ...] = ()
    with_room: int | None = None
    replaced: tuple[tuple[str, str], ...] = ()


def closed_nodes(table: NodeTable, pod: Pod, *, has_pods: bool = True) -> tuple[ClosedNodes, ...]:
    """The closed nodes that suit the pod's node selector and affinity: those last that have to be
    repaired first, then those first that are closed by less, then the larger groups. ``has_pods``:
    whether the table has the pods that are on the nodes."""
    rows, fits, has_room = _room(table, pod)
    is_selected = _selected(table, rows, pod)
    groups: dict[tuple[tuple[Taint, ...], bool], list[tuple[bool, str]]] = {}
    for row in np.flatnonzero(fits & is_selected):
        node = _node(table, rows[row])
        closed_by = _closed_by(node, pod.spec.tolerations)
        if any(closed_by):
            groups.setdefault(closed_by, []).append((not has_room[row], node.name))
    asks = bool(groups) and (requests_extended(pod) or _selects_closed(table, rows, pod))
    found = [
        ClosedNodes(
            taints, is_cordoned, len(nodes), min(nodes, key=lambda node: node[0])[1],
            sum(not is_full for is_full, _ in nodes) if has_pods else None, asks,
        )
        for (taints, is_cordoned), nodes in groups.items()
    ]  # fmt: skip
    return tuple(sorted(found, key=_order))


def unselected_nodes(table: NodeTable, pod: Pod, *, has_pods: bool = True) -> UnselectedNodes:
    """The open nodes that are large enough for the pod when empty, and that only its node selector
    or its affinity leaves out; ``has_pods`` as for ``closed_nodes``."""
    rows, fits, has_room = _room(table, pod)
    found = []
    for row in np.flatnonzero(fits & ~_selected(table, rows, pod)):
        node = _node(table, rows[row])
        if not any(_closed_by(node, pod.spec.tolerations)):
            found.append((not has_room[row], node))
    found.sort(key=lambda node: node[0])
    labels = ((node.name, _replaced(node, pod)) for _, node in found)
    with_room = sum(not is_full for is_full, _ in found)
    return UnselectedNodes(
        tuple(node.name for _, node in found),
        with_room if has_pods else None,
        tuple((name, other) for name, other in labels if other),
    )


def _replaced(node: Node, pod: Pod) -> str:
    """The labels of a node that would have to get another value for the pod; "" for none."""
    wanted: dict[str, tuple[str, ...]] = {}
    wanted |= {key: (value,) for key, value in pod.spec.node_selector.items()}
    terms = pod.spec.required_node_terms or ()
    for term in terms if len(terms) == 1 else ():
        wanted |= {each.key: each.values for each in term.expressions if each.operator == "In"}
    return ", ".join(
        f"{key}={node.labels[key]}"
        for key, values in wanted.items()
        if key in node.labels and node.labels[key] not in values
    )


def _room(table: NodeTable, pod: Pod) -> tuple[np.ndarray, Bools, Bools]:
    """The rows of the nodes, which of these hold the pod's requests when empty, and which of them
    do now."""
    rows = np.flatnonzero(table.alive[: table.size])
    fits, has_room = np.ones(len(rows), dtype=bool), np.ones(len(rows), dtype=bool)
    for resource, amount in {**pod_requests.of(pod.spec).effective, PODS: 1}.items():
        if not amount:
            continue
        column = table.resource_index.get(resource)
        if column is None:
            fits[:] = False  # no node offers it
        else:
            offered = table.books[rows, ALLOCATABLE, column]
            fits &= offered >= amount
            has_room &= offered - table.books[rows, REQUESTED, column] >= amount
    return rows, fits, fits & has_room


def requests_extended(pod: Pod) -> bool:
    """Whether the pod requests an extended resource."""
    requests = pod_requests.of(pod.spec).effective
    return any(amount and is_extended(name) for name, amount in requests.items())


def _selects_closed(table: NodeTable, rows: np.ndarray, pod: Pod) -> bool:
    """Whether the pod selects nodes by labels that no open node has."""
    if not pod.spec.node_selector and pod.spec.required_node_terms is None:
        return False
    selected = rows[_selected(table, rows, pod)]
    nodes = (_node(table, row) for row in selected)
    return all(any(_closed_by(node, pod.spec.tolerations)) for node in nodes)


def _selected(table: NodeTable, rows: np.ndarray, pod: Pod) -> Bools:
    return meets(NodeView(table, rows), pod.spec.node_selector, pod.spec.required_node_terms)


def _node(table: NodeTable, row: int) -> Node:
    node = table.nodes[row]
    assert node is not None
    return node


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
