"""A node that holds more than it has: somebody else has placed a pod there, or it has shrunk.

Nothing is undone for it: that is for whoever watches (upstream tells nobody; the kubelet may refuse
the pod).
"""

from eventsched.domain.nodes.node_table import ALLOCATABLE, REQUESTED, NodeTable
from eventsched.domain.records import NodeOvercommitted


def excess(nodes: NodeTable, name: str) -> frozenset[str]:
    """The resources of which a node's pods request more than it has; none where it is not known."""
    row = nodes.rows.get(name)
    if row is None:
        return frozenset()
    over = nodes.books[row, REQUESTED] > nodes.books[row, ALLOCATABLE]
    unoffered = nodes.unoffered.get(row, {})
    if not unoffered and not over.any():
        return frozenset()
    found = [resource for resource, n in nodes.resource_index.items() if over[n]]
    return frozenset(found + [resource for resource, amount in unoffered.items() if amount > 0])


def overcommitted(
    nodes: NodeTable, name: str, before: frozenset[str], by: str
) -> NodeOvercommitted | None:
    """The event, where there was no such excess ``before``. ``by`` is the pod (a uid) that made it
    so, "" where it was the node."""
    new = excess(nodes, name) - before
    if not new:
        return None
    row = nodes.rows[name]
    return NodeOvercommitted(
        node=name, by=by, resources={each: _balance(nodes, row, each) for each in sorted(new)}
    )


def _balance(nodes: NodeTable, row: int, resource: str) -> tuple[int, int]:
    """What a row's pods request of a resource, and what the node has of it."""
    index = nodes.resource_index.get(resource)
    if index is None:
        return nodes.unoffered[row][resource], 0
    books = nodes.books[row]
    return int(books[REQUESTED, index]), int(books[ALLOCATABLE, index])
