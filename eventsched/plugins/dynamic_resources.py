"""DynamicResources: refuses pods with resource claims, because eventsched cannot allocate devices.

For all other pods it does the same as upstream.

Upstream: plugins/dynamicresources/dynamicresources.go (PreFilter, PostFilter, SignPod).
"""

from typing import Any

from eventsched.domain.objects import Pod
from eventsched.scheduling.framework import ClusterEvent, Code, Cycle, NodeView, Status


class DynamicResources:
    """PreFilter and PostFilter by spec.resourceClaims."""

    name = "DynamicResources"
    wakes_on: tuple[ClusterEvent, ...] = ()
    """No change helps a pod that needs devices."""

    @staticmethod
    def sign(pod: Pod) -> tuple[str, ...]:
        """The names of the pod's resource claims."""
        return pod.resource_claims

    def pre_filter(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> Status | None:
        """Refuses a pod with resource claims; skips all others."""
        if not pod.resource_claims:
            return Status.skip()
        return Status.unresolvable(
            f"pod has resource claims ({', '.join(pod.resource_claims)}), and eventsched does not "
            "allocate dynamic resources yet"
        )

    def post_filter(self, cycle: Cycle, pod: Pod, refused: Any) -> Status | None:
        """As upstream: there is no claim to deallocate. If another plugin's PreFilter refused the
        pod first, this plugin's state is missing, and PostFilter ends with an error."""
        if pod.resource_claims:
            return Status.unschedulable()  # PreFilter has given the reason
        refusal = getattr(refused, "refusal", None)
        if refusal is not None and refusal[0] != self.name and refusal[1].code is Code.UNRESOLVABLE:
            return Status.error("not found")
        return Status.unschedulable("no new claims to deallocate")
