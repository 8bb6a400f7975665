"""The in-tree plugins: one file each. No plugin imports another.

``IN_TREE`` lists them. It includes ``gallery.GALLERY``: plugins that run only if a configuration
enables them. This package imports ``eventsched.scheduling`` and ``eventsched.domain``; assembly
imports ``IN_TREE``.
"""

from eventsched.plugins.default_binder import DefaultBinder
from eventsched.plugins.default_preemption import DefaultPreemption
from eventsched.plugins.dynamic_resources import DynamicResources
from eventsched.plugins.gallery import GALLERY
from eventsched.plugins.image_locality import ImageLocality
from eventsched.plugins.inter_pod_affinity import InterPodAffinity
from eventsched.plugins.node_affinity import NodeAffinity
from eventsched.plugins.node_declared_features import NodeDeclaredFeatures
from eventsched.plugins.node_name import NodeName
from eventsched.plugins.node_ports import NodePorts
from eventsched.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from eventsched.plugins.node_resources_fit import NodeResourcesFit
from eventsched.plugins.node_unschedulable import NodeUnschedulable
from eventsched.plugins.node_volume_limits import NodeVolumeLimits
from eventsched.plugins.pod_topology_spread import PodTopologySpread
from eventsched.plugins.priority_sort import PrioritySort
from eventsched.plugins.scheduling_gates import SchedulingGates
from eventsched.plugins.taint_toleration import TaintToleration
from eventsched.plugins.volume_binding import VolumeBinding
from eventsched.plugins.volume_restrictions import VolumeRestrictions
from eventsched.plugins.volume_zone import VolumeZone

IN_TREE: dict[str, type] = {
    plugin.name: plugin
    for plugin in (
        DefaultBinder,
        DefaultPreemption,
        DynamicResources,
        ImageLocality,
        InterPodAffinity,
        NodeAffinity,
        NodeDeclaredFeatures,
        NodeName,
        NodePorts,
        NodeResourcesBalancedAllocation,
        NodeResourcesFit,
        NodeUnschedulable,
        NodeVolumeLimits,
        PodTopologySpread,
        PrioritySort,
        SchedulingGates,
        TaintToleration,
        VolumeBinding,
        VolumeRestrictions,
        VolumeZone,
    )
} | {plugin.name: plugin for plugin in GALLERY}
"""Plugin name → class."""
