"""Maps a change of a node to the cluster events that plugins register for."""

from eventsched.domain import records
from eventsched.domain.objects import Node
from eventsched.scheduling.framework import ClusterEvent


def node_events(old: Node | None, stimulus: records.Stimulus) -> list[ClusterEvent]:
    """The cluster events of a node's stimulus (upstream: framework/events.go
    nodeSchedulingPropertiesChange). ``old`` is the node before, None if it was unknown."""
    if isinstance(stimulus, records.NodeAdded):
        return [ClusterEvent.NODE_ADD]
    if not isinstance(stimulus, records.NodeUpdated) or old is None:
        return [ClusterEvent.NODE_DELETE]
    new, events = stimulus.node, []
    if old.allocatable != new.allocatable:
        events.append(ClusterEvent.NODE_UPDATE_ALLOCATABLE)
    if old.labels != new.labels:
        events.append(ClusterEvent.NODE_UPDATE_LABEL)
    if (old.taints, old.unschedulable) != (new.taints, new.unschedulable):
        events.append(ClusterEvent.NODE_UPDATE_TAINT)
    if old.declared_features != new.declared_features:
        events.append(ClusterEvent.NODE_UPDATE_DECLARED_FEATURE)
    return events or [ClusterEvent.NODE_UPDATE_OTHER]
