"""NodeUnschedulable: a cordoned node takes only pods that tolerate the cordon.

Upstream: plugins/nodeunschedulable/node_unschedulable.go.
"""

from eventsched.domain.objects import Pod, Taint
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
from eventsched.scheduling.rules.tolerations import tolerates

_CORDON = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")


class NodeUnschedulable:
    """Filter by spec.unschedulable."""

    name = "NodeUnschedulable"
    depends_on = DependsOn.NODE
    wakes_on = (
        ClusterEvent.NODE_ADD,
        ClusterEvent.NODE_UPDATE_TAINT,
        ClusterEvent.POD_UPDATE,
    )

    sign = staticmethod(signed_by_spec)

    def filter(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> IntColumn | None:
        """1 if the node is cordoned and the pod does not tolerate that."""
        cordoned = nodes.unschedulable
        if not cordoned.any() or tolerates(pod.spec.tolerations, _CORDON):
            return None
        return cordoned

    def explain(self, cycle: Cycle, pod: Pod, code: int) -> Status:
        """The reason, in upstream's words."""
        return Status.unresolvable("node(s) were unschedulable")

    def hint(self, cycle: Cycle, pod: Pod, change: Change) -> bool:
        """True if the node is no longer cordoned, or if the pod tolerates cordons."""
        if change.event is ClusterEvent.POD_UPDATE:
            return tolerates(pod.spec.tolerations, _CORDON)
        was_schedulable = change.old is not None and not change.old.unschedulable
        return not was_schedulable and not bool(change.nodes.unschedulable.any())
