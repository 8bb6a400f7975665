"""The smallest cluster with which a verdict stays the same.

First the nodes that the verdict names are tried alone: the chosen one, the runner-up, and one for
each refusal. If that is not enough, or in any case for the pods, parts are left out by halves, as
in delta debugging (Zeller, Hildebrandt: Simplifying and Isolating Failure-Inducing Input).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from eventsched.domain.objects import Node, Pod
from eventsched.runtime.assembly import Assembly
from eventsched.runtime.queries.placed_pod import PlacedPod, placement_of
from eventsched.runtime.queries.placement_query import ClusterSnapshot, PlacementAnswer, ask

_Item = TypeVar("_Item")
_TRIALS = 2_000
"""Decisions at most; the smallest cluster found by then is taken."""


class Shrinking:
    """Shrinks one cluster. ``node`` is the node that was chosen, "" for none."""

    def __init__(self, cluster: ClusterSnapshot, assembly: Assembly, node: str) -> None:
        self._assembly, self._node = assembly, node
        self.trials = 0
        self.answer = self._ask(cluster)
        self.placement = placement_of(self.answer)
        """The verdict in the whole cluster."""

    def shrunk(self, cluster: ClusterSnapshot) -> ClusterSnapshot:
        """The smallest cluster that was found. It has at least one node."""
        # The nodes first: each decision with all pods of a large cluster takes 0.1 s.
        cluster = self._smaller(cluster, self._with_nodes(cluster, self._named(cluster.nodes)))
        without_waiting = replace(cluster, pods=[pod for pod in cluster.pods if pod.node_name])
        cluster = self._smaller(cluster, without_waiting)
        nodes = self._fewest(cluster.nodes, lambda kept: self._with_nodes(cluster, kept))
        cluster = self._with_nodes(cluster, nodes)
        pods = self._fewest(cluster.pods, lambda kept: replace(cluster, pods=kept))
        cluster = replace(cluster, pods=pods)
        objects = self._fewest(cluster.objects, lambda kept: replace(cluster, objects=kept))
        return replace(cluster, objects=objects)

    def is_kept(self, found: PlacedPod, names: Mapping[str, str] | None = None) -> bool:
        """Whether a verdict is the same: the chosen node is still among the best, and the refusals
        are those of the whole cluster. With other ``names`` only the plugins of the refusals are
        compared, as names may be in the reasons."""
        node = self._node
        if names:
            node = names.get(node, node)
            plugins = {plugin for plugin, _ in self.placement.refusals}
            is_same = {plugin for plugin, _ in found.refusals} == plugins
        else:
            is_same = found.refusals == self.placement.refusals
        return is_same and (node in found.nodes if node else not found.nodes)

    def _ask(self, cluster: ClusterSnapshot) -> PlacementAnswer:
        self.trials += 1
        [answer] = ask(cluster, self._assembly)
        return answer

    def _keeps(self, cluster: ClusterSnapshot) -> bool:
        return bool(cluster.nodes) and self.is_kept(placement_of(self._ask(cluster)))

    def _smaller(self, cluster: ClusterSnapshot, smaller: ClusterSnapshot) -> ClusterSnapshot:
        """The smaller of two clusters if the verdict stays the same, otherwise the other."""
        return smaller if self._keeps(smaller) else cluster

    def _named(self, nodes: Sequence[Node]) -> list[Node]:
        """The chosen node, the next best, and one for each refusal."""
        names = {self._node} | {ranked.node for ranked in self.answer.ranked[:2]}
        names |= {refused.nodes[0] for refused in self.answer.refused}
        return [node for node in nodes if node.name in names]

    @staticmethod
    def _with_nodes(cluster: ClusterSnapshot, nodes: Sequence[Node]) -> ClusterSnapshot:
        """The cluster with fewer nodes and their pods. Pods without a node stay: they may belong to
        the pod's group."""
        names = {"", *(node.name for node in nodes)}
        pods: list[Pod] = [pod for pod in cluster.pods if pod.node_name in names]
        return replace(cluster, nodes=list(nodes), pods=pods)

    def _fewest(
        self, items: Sequence[_Item], cluster_with: Callable[[Sequence[_Item]], Any]
    ) -> Sequence[_Item]:
        """The fewest of the items with which the verdict stays the same, in their order."""
        items = list(items)
        parts = 2
        while items and self.trials < _TRIALS:
            size = -(-len(items) // parts)
            for first in range(0, len(items), size):
                rest = items[:first] + items[first + size :]
                if self._keeps(cluster_with(rest)):
                    items, parts = rest, max(2, parts - 1)
                    break
            else:
                if size == 1:
                    break
                parts = min(len(items), 2 * parts)
        return items
