"""The changes that can make a refused pod schedulable, and what a plugin's hint sees of one."""

from dataclasses import dataclass
from enum import StrEnum

from eventsched.domain.nodes.node_views import NodeView
from eventsched.domain.objects import Node, Pod
from eventsched.domain.objects.registry import ClusterObject


class ClusterEvent(StrEnum):
    """Changes that can make a refused pod schedulable (upstream: framework/events.go)."""

    NODE_ADD = "NodeAdd"
    NODE_UPDATE_ALLOCATABLE = "NodeUpdateAllocatable"
    NODE_UPDATE_LABEL = "NodeUpdateLabel"
    NODE_UPDATE_TAINT = "NodeUpdateTaint"
    NODE_UPDATE_DECLARED_FEATURE = "NodeUpdateDeclaredFeature"
    NODE_UPDATE_OTHER = "NodeUpdateOther"
    NODE_DELETE = "NodeDelete"
    ASSIGNED_POD_ADD = "AssignedPodAdd"
    ASSIGNED_POD_UPDATE = "AssignedPodUpdate"
    ASSIGNED_POD_DELETE = "AssignedPodDelete"
    OBJECT_CHANGE = "ObjectChange"
    """An object other than a pod or a node was added, changed or deleted. A plugin lists the types
    that it depends on in ``wakes_on_objects``."""
    POD_UPDATE = "PodUpdate"
    """The waiting pod itself has changed."""
    MEMORY_CHANGE = "MemoryChange"
    """The plugin's own memory has changed."""
    MEMORY_FORGOTTEN = "MemoryForgotten"
    """An operator made the plugin forget a key of its memory; sent besides MEMORY_CHANGE."""
    GROUP_CHANGE = "GroupChange"
    """A pod of the waiting pod's group has left it or has changed. Sent only to plugins that list
    it in ``wakes_on``; a hint is asked once for all pods of the group that the plugin refused."""
    SAMPLES_TAKEN = "SamplesTaken"
    """The samples of the plugin's own source have changed or have expired."""


@dataclass(frozen=True)
class Change:
    """What happened, for a hint to look at.

    Events of nodes: ``node`` is the node that was added or updated, ``old`` the one before an
    update or deletion. Events of pods: ``pod`` is the pod that changed (the waiting pod for
    POD_UPDATE), ``old_pod`` the same before an update. Events of other objects: ``old_object`` and
    ``new_object``.

    ``nodes`` is a view of one node, with its columns (arrays of length 1): in events of nodes the
    node after the change, in events of assigned pods the pod's node. It is empty (length 0) in all
    other events, and if there is no such node any more."""

    event: ClusterEvent
    nodes: NodeView
    node: Node | None = None
    old: Node | None = None
    pod: Pod | None = None
    old_pod: Pod | None = None
    old_object: ClusterObject | None = None
    new_object: ClusterObject | None = None
