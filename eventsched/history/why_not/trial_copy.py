"""The part of a state that a pod is judged by."""

from msgspec.structs import replace

from eventsched.domain.state.snapshot import PodSnapshot, StateSnapshot
from eventsched.scheduling.framework.pod_groups import names_group


def trial_copy(copy: StateSnapshot, uid: str) -> StateSnapshot:
    """A copy of a state without the pods that only wait in a queue: judging pod ``uid`` does not
    look at them, but an engine would index them, and wake them after each change. Those that are
    nominated, or in a group, count for others."""
    nominated = copy.preemptions.nominations
    asked = copy.consultation.asked if copy.consultation is not None else []
    stay = {uid, *nominated, *copy.reservations, *(question.uid for question in asked)}

    def stays(pod: PodSnapshot) -> bool:
        return bool(pod.booked_node) or pod.pod.uid in stay or names_group(pod.pod)

    return replace(copy, pods=[pod for pod in copy.pods if stays(pod)])
