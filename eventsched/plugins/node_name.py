"""NodeName: a pod with spec.nodeName fits only on that node.

Upstream: plugins/nodename/node_name.go.
"""

from collections.abc import Hashable

import numpy as np

from eventsched.domain.objects import Pod
from eventsched.scheduling.framework import (
    ClusterEvent,
    Cycle,
    DependsOn,
    IntColumn,
    NodeView,
    Status,
)


class NodeName:
    """Filter by spec.nodeName."""

    name = "NodeName"
    depends_on = DependsOn.NODE
    wakes_on = (ClusterEvent.NODE_ADD,)

    def sign(self, pod: Pod) -> Hashable:
        """The pod's spec.nodeName."""
        return pod.node_name

    def filter(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> IntColumn | None:
        """1 if the pod names another node; None without spec.nodeName."""
        if not pod.node_name:
            return None
        return np.logical_not(nodes.is_named(pod.node_name))

    def explain(self, cycle: Cycle, pod: Pod, code: int) -> Status:
        """The reason, in upstream's words."""
        return Status.unresolvable("node(s) didn't match the requested node name")
