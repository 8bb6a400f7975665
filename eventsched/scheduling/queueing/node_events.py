"""What a change of a node is, in the terms in which plugins say what they want to hear of."""

from eventsched.domain import records
from eventsched.domain.objects import Node
from eventsched.scheduling.framework import ClusterEvent


def node_events(old: Node | None, stimulus: records.Stimulus) -> list[ClusterEvent]:
    """What a node's stimulus changes, in upstream's terms (backend/queue events:
    framework/events.go nodeSchedulingPropertiesChange)."""
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
