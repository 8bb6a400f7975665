"""Pods that a list of the API server shows otherwise than the log, for metrics.

Most differences are normal: whatever happened during a gap is one. These contradict what the log
says has happened. They do no harm, because the cluster is believed, but they have a cause.
"""

from collections.abc import Iterable, Iterator
from enum import StrEnum

from eventsched.cluster.messages import Listing, PodSeen, Seen
from eventsched.domain.state.pod_state import PodState
from eventsched.domain.state.scheduler_state import SchedulerState
from eventsched.runtime.reconciliation.seen_versions import POD


class PodDivergence(StrEnum):
    """What differs. The values are labels of a metric."""

    MOVED = "moved"
    """The log has the pod on another node."""
    UNBOUND = "unbound"
    """The log has the pod on a node, the API server on none."""
    TAKEN = "taken"
    """The pod has another node than the one that is reserved for it."""
    FOREIGN = "foreign"
    """The pod waits in a queue of this scheduler, and has a node."""


def divergences(
    state: SchedulerState, listings: Iterable[Listing]
) -> Iterator[PodDivergence | None]:
    """How each listed pod differs; None if it does not. Call before the lists are taken in."""
    for listing in listings:
        if listing.resource == POD:
            for seen in listing.seen:
                yield _divergence(state, seen)


def _divergence(state: SchedulerState, seen: Seen) -> PodDivergence | None:
    if isinstance(seen, PodSeen) and (known := state.pods.get(seen.pod.uid)):
        return _kind(known, seen.pod.node_name)
    return None


def _kind(known: PodState, node: str) -> PodDivergence | None:
    if known.booked_node == node:
        return None
    if known.bound:
        return PodDivergence.MOVED if node else PodDivergence.UNBOUND
    if not node:
        return None
    if known.booked_node:
        return PodDivergence.TAKEN
    return PodDivergence.FOREIGN if known.queue is not None else None
