"""Stimuli compared with the state: a watch that starts over repeats some and leaves out others."""

from eventsched.domain import records
from eventsched.domain.behaviours import Behaviour
from eventsched.domain.objects.registry import TYPES
from eventsched.domain.state.scheduler_state import SchedulerState
from eventsched.scheduling.framework.sampling import of_nodes

_COMPARED = frozenset((
    records.PodAdded, records.PodUpdated, records.PodDeleted,
    records.NodeAdded, records.NodeUpdated, records.NodeDeleted,
    records.ExtenderAnswered, records.SamplesTaken, records.ObjectChanged, records.ObjectDeleted,
))  # fmt: skip
"""The kinds of stimuli that are compared."""
_UPDATES = frozenset((records.PodUpdated, records.NodeUpdated, records.ObjectChanged))
ROW_REST = 600_000_000
"""How long (µs) the row of a deleted node stays free: what still refers to it (requests to an
extender, and answers on their way) is over by then."""


def as_seen(state: SchedulerState, stimulus: records.Stimulus) -> records.Stimulus | None:
    """The stimulus relative to the state: an addition of a known object is an update, an update of
    an unknown one an addition. None for the deletion of something unknown and for an answer that is
    not awaited."""
    if type(stimulus) not in _COMPARED:
        return stimulus
    pods, nodes = state.pods, state.nodes.rows
    match stimulus:
        case records.PodAdded():
            is_known = stimulus.pod.uid in pods
            return records.PodUpdated(pod=stimulus.pod) if is_known else stimulus
        case records.PodDeleted():
            return stimulus if stimulus.uid in pods else None
        case records.PodUpdated():
            is_known = stimulus.pod.uid in pods
            return stimulus if is_known else records.PodAdded(pod=stimulus.pod)
        case records.NodeAdded() | records.NodeUpdated():
            if stimulus.node.name in nodes:
                return records.NodeUpdated(node=stimulus.node)
            return records.NodeAdded(node=stimulus.node, row=_free_row(state))
        case records.NodeDeleted() if stimulus.name not in nodes:
            return None
        case records.ExtenderAnswered():
            consultation = state.consultation
            is_awaited = consultation is not None and consultation.awaits(stimulus)
            return stimulus if is_awaited else None
        case records.SamplesTaken():
            return of_nodes(stimulus, nodes)
        case records.ObjectDeleted(type=kind, namespace=namespace, name=name):
            known = state.registry.get(TYPES[kind], name, namespace) if kind in TYPES else None
            return None if known is None else stimulus
    return stimulus


def _free_row(state: SchedulerState) -> int:
    """The row for a new node; -1 for one at the end."""
    if Behaviour.REUSES_ROWS not in state.flags or state.consultation is not None:
        return -1
    return state.nodes.rested_row(state.now - ROW_REST)


def is_no_change(state: SchedulerState, stimulus: records.Stimulus) -> bool:
    """Whether an update has the value that the state already holds."""
    if type(stimulus) not in _UPDATES:
        return False
    match stimulus:
        case records.PodUpdated():
            return state.pods[stimulus.pod.uid].pod == stimulus.pod
        case records.NodeUpdated():
            nodes = state.nodes
            return nodes.nodes[nodes.rows[stimulus.node.name]] == stimulus.node
        case records.ObjectChanged(object=new):
            return state.registry.get(type(new), new.name, new.namespace) == new
    return False
