"""PrioritySort: higher priority first, then who has waited longer.

Upstream: plugins/queuesort/priority_sort.go.
"""

from eventsched.scheduling.framework import QueuedPod


class PrioritySort:
    """The default QueueSort."""

    name = "PrioritySort"

    def sort_key(self, queued: QueuedPod) -> tuple[int, int]:
        """Smaller goes first."""
        return (-queued.pod.priority, queued.since)
