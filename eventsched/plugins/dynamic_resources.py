"""DynamicResources: devices of resource claims. eventsched does not allocate them yet, and says so
of the pods that have any; for all others this is what upstream's plugin does.

Upstream: plugins/dynamicresources/dynamicresources.go (PreFilter, PostFilter, SignPod).
"""

from typing import Any

from eventsched.domain.objects import Pod
from eventsched.scheduling.framework import ClusterEvent, Code, Cycle, NodeView, Status


class DynamicResources:
    """PreFilter and PostFilter by spec.resourceClaims."""

    name = "DynamicResources"
    wakes_on: tuple[ClusterEvent, ...] = ()
    """Nothing that happens gives a pod what this version cannot allocate."""

    @staticmethod
    def sign(pod: Pod) -> tuple[str, ...]:
        """The names of its resource claims: mostly none."""
        return pod.resource_claims

    def pre_filter(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> Status | None:
        """Refuses a pod with resource claims everywhere; there is nothing to do for the others."""
        if not pod.resource_claims:
            return Status.skip()
        return Status.unresolvable(
            f"pod has resource claims ({', '.join(pod.resource_claims)}), and eventsched does not "
            "allocate dynamic resources yet"
        )

    def post_filter(self, cycle: Cycle, pod: Pod, refused: Any) -> Status | None:
        """Upstream's words: it has no claim whose devices could be given up; or, where an earlier
        PreFilter ended the attempt so that its own was never asked, that its state is not there,
        which ends PostFilter."""
        if pod.resource_claims:
            return Status.unschedulable()  # all is said
        refusal = getattr(refused, "refusal", None)
        if refusal is not None and refusal[0] != self.name and refusal[1].code is Code.UNRESOLVABLE:
            return Status.error("not found")
        return Status.unschedulable("no new claims to deallocate")
