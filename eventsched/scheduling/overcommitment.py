"""A node that holds more than it has: somebody else has placed a pod there, or it has shrunk.

Nothing is undone for it: that is for whoever watches (upstream tells nobody; the kubelet may refuse
the pod).
"""

from eventsched.domain.columns import ALLOCATABLE, REQUESTED, NodeTable
from eventsched.domain.records import NodeOvercommitted


def excess(nodes: NodeTable, name: str) -> frozenset[str]:
    """The resources of which a node's pods request more than it has; none where it is not known."""
    row = nodes.rows.get(name)
    if row is None:
        return frozenset()
    over = nodes.books[row, REQUESTED] > nodes.books[row, ALLOCATABLE]
    if not over.any():
        return frozenset()
    return frozenset(resource for resource, n in nodes.resource_index.items() if over[n])


def overcommitted(
    nodes: NodeTable, name: str, before: frozenset[str], by: str
) -> NodeOvercommitted | None:
    """The event, where there was no such excess ``before``. ``by`` is the pod (a uid) that made it
    so, "" where it was the node."""
    new = excess(nodes, name) - before
    if not new:
        return None
    books, index = nodes.books[nodes.rows[name]], nodes.resource_index
    return NodeOvercommitted(
        node=name,
        by=by,
        resources={
            each: (int(books[REQUESTED, index[each]]), int(books[ALLOCATABLE, index[each]]))
            for each in sorted(new)
        },
    )
