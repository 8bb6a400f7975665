"""PrioritySort: higher priority first, then the longer wait.

Upstream: plugins/queuesort/priority_sort.go.
"""

from eventsched.scheduling.framework import QueuedPod


class PrioritySort:
    """The default QueueSort."""

    name = "PrioritySort"

    def sort_key(self, queued: QueuedPod) -> tuple[int, int]:
        """The sort key: smaller goes first."""
        return (-queued.pod.priority, queued.since)
