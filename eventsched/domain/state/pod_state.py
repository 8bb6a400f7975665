"""A pod and where it stands: what the state knows of it (scheduler_state.py)."""

from eventsched.domain.objects import Pod
from eventsched.domain.records import Queue


class PodState:
    """A pod and where it stands. ``row`` is the node row that its requests are booked on, -1 for
    none; ``queue`` None means that it is placed, reserved, or not ours to place."""

    __slots__ = (
        "attempts", "bound", "came", "entered", "errors", "failures", "home", "number", "order",
        "pending", "pod", "queue", "rejectors", "row", "since", "until",
    )  # fmt: skip

    def __init__(self, pod: Pod) -> None:
        self.pod = pod
        self.number = 0
        """The position of its PodAdded record: a short name for it in vectors."""
        self.row = -1
        self.home = ""
        """The node its requests belong to, "" for none; booked there while the node is known."""
        self.came = 0
        """Rises with each pod that comes to a node."""
        self.bound = bool(pod.node_name)
        self.queue: Queue | None = None
        self.order = 0
        """Rises with each move: what came first among equals."""
        self.since = 0
        """When it was added or last failed (µs): what PrioritySort orders by."""
        self.entered = 0
        """When it came into its present queue (µs): what the flush counts from."""
        self.until = 0
        self.attempts = 0
        self.failures = 0
        self.errors = 0
        self.rejectors: tuple[str, ...] = ()
        self.pending: tuple[str, ...] = ()
