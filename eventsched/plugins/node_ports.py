"""NodePorts: a host port can be used once a node.

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
        """Nothing to do for a pod without host ports."""
        return None if pod.spec.host_ports else Status.skip()

    def filter(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> IntColumn:
        """1 where one of the pod's host ports is taken."""
        taken = np.zeros(len(nodes), dtype=bool)
        for port in pod.spec.host_ports:
            taken |= nodes.ports_in_use(port)
        return taken

    def explain(self, cycle: Cycle, pod: Pod, code: int) -> Status:
        """Upstream's words."""
        return Status.unschedulable("node(s) didn't have free ports for the requested pod ports")

    def hint(self, cycle: Cycle, pod: Pod, change: Change) -> bool:
        """A node where the ports are free now, or would be after preemption."""
        taken = self.filter(cycle, pod, change.nodes.without_lesser(pod))
        return not taken.all() or not len(change.nodes)

    @staticmethod
    def hint_sign(pod: Pod) -> Hashable:
        """All that ``hint`` reads of a pod."""
        return pod.spec.key, pod.priority, pod.preemption_policy
