"""What the state knows about one pod: its object, its place, its queue and its counters."""

import msgspec

from eventsched.domain.objects import Pod
from eventsched.domain.records import Queue


class PodState(msgspec.Struct, eq=False, gc=False):
    """A pod, the node that its requests are booked on, and its place in the queues. Changed by
    SchedulerState alone. The fields are those of PodSnapshot, in its order. None refers to the
    state, so it is not garbage-collected."""

    pod: Pod
    row: int = -1
    """The node row that its requests are booked on; -1 for none."""
    booked_node: str = ""
    """The node that is bound or reserved, "" for none. ``row`` is -1 while that node is unknown."""
    booking_order: int = 0
    """Larger for pods that were booked on a node later."""
    bound: bool = False
    queue: Queue | None = None
    """None if it is bound, reserved, or not for this scheduler."""
    order: int = 0
    """Larger for pods that moved to a queue later: breaks ties."""
    since: int = 0
    """When it was added or last failed (µs): PrioritySort orders by it."""
    entered: int = 0
    """When it entered its present queue (µs): the flush of unschedulable pods counts from it."""
    until: int = 0
    """When its backoff ends (µs); 0 for none."""
    attempts: int = 0
    failures: int = 0
    errors: int = 0
    rejectors: tuple[str, ...] = ()
    pending: tuple[str, ...] = ()
    number: int = 0
    """Position of its PodAdded record; vectors name the pod by it."""
