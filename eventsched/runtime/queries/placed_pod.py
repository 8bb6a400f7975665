"""The verdict about a pod without its numbers, which depend on the size of the cluster."""

from typing import NamedTuple

from eventsched.runtime.queries.placement_query import PlacementAnswer


class PlacedPod(NamedTuple):
    """What the scheduler decides about a pod: the ``nodes`` with the largest total (one of them is
    drawn; none if no node can take it), and the ``refusals`` of the other nodes as pairs of plugin
    and reasons."""

    nodes: frozenset[str]
    refusals: frozenset[tuple[str, str]]


def placement_of(answer: PlacementAnswer) -> PlacedPod:
    """An answer without its numbers, which depend on the size of the cluster."""
    return PlacedPod(
        frozenset(ranked.node for ranked in answer.best),
        frozenset((refused.plugin, "; ".join(refused.reasons)) for refused in answer.refused),
    )
