"""NodeDeclaredFeatures: a pod that uses a newer feature of the kubelet needs a node that has it.

Upstream: plugins/nodedeclaredfeatures/nodedeclaredfeatures.go. Which features a pod uses is
inferred where it is translated (cluster/translate/pods.py); a node's status says which it has.
"""

from eventsched.domain.objects import Pod
from eventsched.scheduling.framework import (
    Change,
    ClusterEvent,
    Cycle,
    DependsOn,
    IntColumn,
    NodeView,
    Status,
    signed_by_spec,
)


class NodeDeclaredFeatures:
    """Filter by status.declaredFeatures."""

    name = "NodeDeclaredFeatures"
    depends_on = DependsOn.NODE
    wakes_on = (
        ClusterEvent.NODE_ADD,
        ClusterEvent.NODE_UPDATE_DECLARED_FEATURE,
        ClusterEvent.POD_UPDATE,
    )

    sign = staticmethod(signed_by_spec)

    def pre_filter(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> Status | None:
        """Nothing to do for a pod that needs no such feature."""
        return None if pod.spec.needed_features else Status.skip()

    def filter(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> IntColumn | None:
        """int64[n]: 1 where the node lacks a feature that the pod needs."""
        needed = frozenset(pod.spec.needed_features)
        if not needed:
            return None
        return nodes.answer(
            "declared features",
            lambda node: node.declared_features,
            lambda declared: int(not needed.issubset(declared or ())),
        )

    def explain(self, cycle: Cycle, pod: Pod, code: int) -> Status:
        """Upstream's words."""
        return Status.unresolvable("node(s) didn't match Pod's required features")

    def hint(self, cycle: Cycle, pod: Pod, change: Change) -> bool:
        """A node or a pod whose features are others now."""
        if change.event is ClusterEvent.POD_UPDATE:
            old = change.old_pod
            return old is None or old.spec.needed_features != pod.spec.needed_features
        before, after = change.old, change.node
        return (
            before is None or after is None or before.declared_features != after.declared_features
        )
