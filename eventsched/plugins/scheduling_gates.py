"""SchedulingGates: a pod with schedulingGates stays out of the queue until they are removed.

Upstream: plugins/schedulinggates/scheduling_gates.go.
"""

from eventsched.domain.objects import Pod
from eventsched.scheduling.framework import ClusterEvent, Status


class SchedulingGates:
    """PreEnqueue by spec.schedulingGates."""

    name = "SchedulingGates"
    wakes_on = (ClusterEvent.POD_UPDATE,)

    def pre_enqueue(self, pod: Pod) -> Status | None:
        """Holds a gated pod. The reason lists its gates in Go's notation, as upstream does."""
        if not pod.gates:
            return None
        return Status.unresolvable(f"waiting for scheduling gates: [{' '.join(pod.gates)}]")
