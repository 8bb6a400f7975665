"""The nodes that keep a pod away by taints or by a cordon alone, and are large enough for it.

TaintToleration and NodeUnschedulable refuse a node before NodeResourcesFit looks at it, so an
attempt does not say whether the pod would fit there. The nodes do.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from eventsched.domain.nodes.node_table import ALLOCATABLE, NodeTable
from eventsched.domain.nodes.node_views import NodeView
from eventsched.domain.objects import PODS, Node, Pod, Taint, Toleration, pod_requests
from eventsched.scheduling.rules.selection import meets
from eventsched.scheduling.rules.tolerations import tolerates

_CORDON = "node.kubernetes.io/unschedulable"
_REFUSING = ("NoSchedule", "NoExecute")


class ClosedNodes(NamedTuple):
    """Nodes that the same taints close to a pod, or a cordon, or both: ``nodes`` of them are large
    enough for its requests, if they are empty. ``example`` is the first of them."""

    taints: tuple[Taint, ...]
    is_cordoned: bool
    nodes: int
    example: str


def closed_nodes(table: NodeTable, pod: Pod) -> tuple[ClosedNodes, ...]:
    """The closed nodes that suit the pod's node selector and affinity, those first that are closed
    by less, then the larger groups."""
    rows = np.flatnonzero(table.alive[: table.size])
    fits = meets(NodeView(table, rows), pod.spec.node_selector, pod.spec.required_node_terms)
    for resource, amount in {**pod_requests.of(pod.spec).effective, PODS: 1}.items():
        if not amount:
            continue
        column = table.resource_index.get(resource)
        if column is None:
            return ()  # no node offers it
        fits &= table.books[rows, ALLOCATABLE, column] >= amount
    groups: dict[tuple[tuple[Taint, ...], bool], list[str]] = {}
    for row in rows[fits]:
        node = table.nodes[row]
        assert node is not None
        closed_by = _closed_by(node, pod.spec.tolerations)
        if any(closed_by):
            groups.setdefault(closed_by, []).append(node.name)
    found = [
        ClosedNodes(taints, is_cordoned, len(names), names[0])
        for (taints, is_cordoned), names in groups.items()
    ]
    return tuple(sorted(found, key=_order))


def _order(closed: ClosedNodes) -> tuple[int, int]:
    return len(closed.taints) + closed.is_cordoned, -closed.nodes


def _closed_by(node: Node, tolerations: Iterable[Toleration]) -> tuple[tuple[Taint, ...], bool]:
    """The taints that repel a pod with these tolerations, and whether a cordon does. A cordoned
    node has a taint that says so, which counts as the cordon."""
    own = tuple(tolerations)
    repelling = [
        taint
        for taint in node.taints
        if taint.effect in _REFUSING and not tolerates(own, taint)
    ]  # fmt: skip
    cordon = Taint(_CORDON, "", "NoSchedule")
    is_cordoned = node.unschedulable and not tolerates(own, cordon)
    taints = tuple(taint for taint in repelling if not is_cordoned or taint.key != _CORDON)
    return taints, is_cordoned
