"""NodePorts: each host port of a node can be used once.

Upstream: plugins/nodeports/node_ports.go.
"""

from collections.abc import Hashable

import numpy as np

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


class NodePorts:
    """Filter by host ports in use."""

    name = "NodePorts"
    depends_on = DependsOn.USAGE
    wakes_on = (ClusterEvent.ASSIGNED_POD_DELETE, ClusterEvent.NODE_ADD)

    sign = staticmethod(signed_by_spec)

    def pre_filter(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> Status | None:
        """Skips a pod without host ports."""
        return None if pod.spec.host_ports else Status.skip()

    def filter(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> IntColumn:
        """1 if one of the pod's host ports is in use."""
        in_use = np.zeros(len(nodes), dtype=bool)
        for port in pod.spec.host_ports:
            in_use |= nodes.ports_in_use(port)
        return in_use

    def explain(self, cycle: Cycle, pod: Pod, code: int) -> Status:
        """The reason, in upstream's words."""
        return Status.unschedulable("node(s) didn't have free ports for the requested pod ports")

    def hint(self, cycle: Cycle, pod: Pod, change: Change) -> bool:
        """True if the ports are free on a changed node, or would be after preemption; also if no
        node has changed."""
        refused = self.filter(cycle, pod, change.nodes.without_lesser(pod))
        return not refused.all() or not len(change.nodes)

    @staticmethod
    def hint_sign(pod: Pod) -> Hashable:
        """All that ``hint`` reads of a pod."""
        return pod.spec.key, pod.priority, pod.preemption_policy
