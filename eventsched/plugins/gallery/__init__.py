"""Plugins that run only if a configuration enables them: one file each, with a page in
docs/plugins.

No plugin imports another.
"""

from typing import Any

from eventsched.plugins.gallery.capacity_scheduling import CapacityScheduling
from eventsched.plugins.gallery.coscheduling import Coscheduling
from eventsched.plugins.gallery.first_scheduled_node import FirstScheduledNode
from eventsched.plugins.gallery.fixed_node import FixedNode
from eventsched.plugins.gallery.importance_sort import ImportanceSort
from eventsched.plugins.gallery.multipoint_communicating import MultipointCommunicating
from eventsched.plugins.gallery.network_traffic import NetworkTraffic
from eventsched.plugins.gallery.node_group import MyCustomPlugin, NodeGroup
from eventsched.plugins.gallery.node_hardware import NodeHardware
from eventsched.plugins.gallery.node_resource_topology_match import NodeResourceTopologyMatch
from eventsched.plugins.gallery.node_resources_allocatable import NodeResourcesAllocatable
from eventsched.plugins.gallery.priority_label import Priority, PriorityLabel
from eventsched.plugins.gallery.random_score import RandomScore
from eventsched.plugins.gallery.to_node_name_scoring import ToNodeNameScoring

GALLERY: tuple[type[Any], ...] = (
    CapacityScheduling,
    Coscheduling,
    FirstScheduledNode,
    FixedNode,
    ImportanceSort,
    MultipointCommunicating,
    MyCustomPlugin,
    NetworkTraffic,
    NodeGroup,
    NodeHardware,
    NodeResourceTopologyMatch,
    NodeResourcesAllocatable,
    Priority,
    PriorityLabel,
    RandomScore,
    ToNodeNameScoring,
)
