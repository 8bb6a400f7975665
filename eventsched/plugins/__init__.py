"""The plugins: one file each, none knows another; this is the explicit list of the in-tree ones."""

from eventsched.plugins.default_binder import DefaultBinder
from eventsched.plugins.first_scheduled_node import FirstScheduledNode
from eventsched.plugins.image_locality import ImageLocality
from eventsched.plugins.node_affinity import NodeAffinity
from eventsched.plugins.node_name import NodeName
from eventsched.plugins.node_ports import NodePorts
from eventsched.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from eventsched.plugins.node_resources_fit import NodeResourcesFit
from eventsched.plugins.node_unschedulable import NodeUnschedulable
from eventsched.plugins.priority_sort import PrioritySort
from eventsched.plugins.scheduling_gates import SchedulingGates
from eventsched.plugins.taint_toleration import TaintToleration

IN_TREE: dict[str, type] = {
    plugin.name: plugin
    for plugin in (
        DefaultBinder,
        FirstScheduledNode,
        ImageLocality,
        NodeAffinity,
        NodeName,
        NodePorts,
        NodeResourcesBalancedAllocation,
        NodeResourcesFit,
        NodeUnschedulable,
        PrioritySort,
        SchedulingGates,
        TaintToleration,
    )
}
"""Plugin name → class, of what comes with eventsched."""
