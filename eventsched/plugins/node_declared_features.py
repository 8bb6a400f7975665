"""NodeDeclaredFeatures: a pod that needs a kubelet feature fits only on nodes that declare it.

Upstream: plugins/nodedeclaredfeatures/nodedeclaredfeatures.go. The pod's features are
inferred in cluster/translate/pods.py; the node's are in its status.
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
        """Skips a pod that needs no such feature."""
        return None if pod.spec.needed_features else Status.skip()

    def filter(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> IntColumn | None:
        """int64[n]: 1 if the node lacks a feature that the pod needs."""
        needed = frozenset(pod.spec.needed_features)
        if not needed:
            return None
        return nodes.answer(
            "declared features",
            lambda node: node.declared_features,
            lambda declared: int(not needed.issubset(declared or ())),
        )

    def explain(self, cycle: Cycle, pod: Pod, code: int) -> Status:
        """The reason, in upstream's words."""
        return Status.unresolvable("node(s) didn't match Pod's required features")

    def hint(self, cycle: Cycle, pod: Pod, change: Change) -> bool:
        """True if the features of the node or the pod have changed."""
        if change.event is ClusterEvent.POD_UPDATE:
            old = change.old_pod
            return old is None or old.spec.needed_features != pod.spec.needed_features
        before, after = change.old, change.node
        return (
            before is None or after is None or before.declared_features != after.declared_features
        )
