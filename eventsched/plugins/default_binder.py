"""DefaultBinder: the pod is bound through its binding subresource.

Upstream: plugins/defaultbinder/default_binder.go. The call itself is an effect: the runtime carries
it out once the decision is committed.
"""

from eventsched.domain.objects import Pod
from eventsched.scheduling.framework import Cycle, Status


class DefaultBinder:
    """Takes every pod that comes to it."""

    name = "DefaultBinder"

    def bind(self, cycle: Cycle, pod: Pod, node: str) -> Status | None:
        """Success: the intent becomes the decision's outcome."""
        return None
