"""Overcommitted nodes: another scheduler has placed a pod there, or the node has shrunk.

The event only reports it; nothing is undone. (Upstream reports nothing; the kubelet may refuse the
pod.)
"""

from eventsched.domain.nodes.node_table import ALLOCATABLE, REQUESTED, NodeTable
from eventsched.domain.records import NodeOvercommitted


def overcommitted_resources(nodes: NodeTable, name: str) -> frozenset[str]:
    """The resources of which a node's pods request more than it has; none for an unknown node."""
    row = nodes.rows.get(name)
    if row is None:
        return frozenset()
    over = nodes.books[row, REQUESTED] > nodes.books[row, ALLOCATABLE]
    unoffered = nodes.unoffered.get(row, {})
    if not unoffered and not over.any():
        return frozenset()
    resources = [resource for resource, column in nodes.resource_index.items() if over[column]]
    resources += [resource for resource, amount in unoffered.items() if amount > 0]
    return frozenset(resources)


def overcommitted(
    nodes: NodeTable, name: str, before: frozenset[str], by: str
) -> NodeOvercommitted | None:
    """The event for resources that were not overcommitted ``before``; None if there are none.
    ``by`` is the uid of the pod that caused it, "" for the node itself."""
    new = overcommitted_resources(nodes, name) - before
    if not new:
        return None
    row = nodes.rows[name]
    return NodeOvercommitted(
        node=name,
        by=by,
        resources={resource: _balance(nodes, row, resource) for resource in sorted(new)},
    )


def _balance(nodes: NodeTable, row: int, resource: str) -> tuple[int, int]:
    """(requested by the row's pods, allocatable) of a resource."""
    index = nodes.resource_index.get(resource)
    if index is None:
        return nodes.unoffered[row][resource], 0
    books = nodes.books[row]
    return int(books[REQUESTED, index]), int(books[ALLOCATABLE, index])
