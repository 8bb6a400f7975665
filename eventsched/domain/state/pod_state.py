"""What the state knows about one pod: its object, its place, its queue and its counters."""

from eventsched.domain.objects import Pod
from eventsched.domain.records import Queue


class PodState:
    """A pod, the node that its requests are booked on, and its place in the queues. Changed by
    SchedulerState alone."""

    __slots__ = (
        "attempts", "booked_node", "booking_order", "bound", "entered", "errors", "failures",
        "number", "order", "pending", "pod", "queue", "rejectors", "row", "since", "until",
    )  # fmt: skip

    def __init__(self, pod: Pod) -> None:
        self.pod = pod
        self.number = 0
        """Position of its PodAdded record; vectors name the pod by it."""
        self.row = -1
        """The node row that its requests are booked on; -1 for none."""
        self.booked_node = ""
        """The node that is bound or reserved, "" for none. ``row`` is -1 while that node is
        unknown."""
        self.booking_order = 0
        """Larger for pods that were booked on a node later."""
        self.bound = bool(pod.node_name)
        self.queue: Queue | None = None
        """None if it is bound, reserved, or not for this scheduler."""
        self.order = 0
        """Larger for pods that moved to a queue later: breaks ties."""
        self.since = 0
        """When it was added or last failed (µs): PrioritySort orders by it."""
        self.entered = 0
        """When it entered its present queue (µs): the flush of unschedulable pods counts from
        it."""
        self.until = 0
        """When its backoff ends (µs); 0 for none."""
        self.attempts = 0
        self.failures = 0
        self.errors = 0
        self.rejectors: tuple[str, ...] = ()
        self.pending: tuple[str, ...] = ()
