"""The part of a state that a pod is judged by."""

from eventsched.domain.state import snapshot
from eventsched.domain.state.pod_state import PodState
from eventsched.domain.state.scheduler_state import SchedulerState
from eventsched.scheduling.framework.pod_groups import names_group


def trial_copy(state: SchedulerState, uid: str) -> SchedulerState:
    """A copy of a state without the pods that only wait in a queue: judging pod ``uid`` does not
    look at them, but an engine would index them, and wake them after each change. Those that are
    nominated, or in a group, count for others."""
    asked = state.consultation.asked if state.consultation is not None else []
    stay = {uid, *state.preemptions.uids(), *state.reservations, *(each.uid for each in asked)}

    def stays(pod_state: PodState) -> bool:
        pod = pod_state.pod
        return bool(pod_state.booked_node) or pod.uid in stay or names_group(pod)

    copy = snapshot.duplicated(state)
    for gone in [gone for gone, pod_state in copy.pods.items() if not stays(pod_state)]:
        del copy.pods[gone]
    return copy
