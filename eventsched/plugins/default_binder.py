"""DefaultBinder: binds the pod through its binding subresource.

Upstream: plugins/defaultbinder/default_binder.go. The API call is an effect: the runtime makes it
once the decision is committed.
"""

from eventsched.domain.objects import Pod
from eventsched.scheduling.framework import Cycle, Status


class DefaultBinder:
    """Binds every pod."""

    name = "DefaultBinder"

    def bind(self, cycle: Cycle, pod: Pod, node: str) -> Status | None:
        """Always succeeds."""
        return None
