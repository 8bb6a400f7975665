"""A simulated cluster in virtual time: pods arrive, are bound after a fixed delay, run and end.

It never reads a clock: it is a function of its inputs and of the effects it was told to execute.
Within an instant things happen in the order (kind, order of origin): nodes, bind outcomes, ends of
pods, arrivals.
"""

from collections.abc import Iterable
from heapq import heappop, heappush
from itertools import count

from eventsched.cluster.arrivals import TracePod
from eventsched.domain import records
from eventsched.domain.objects import Node, Pod
from eventsched.domain.records import Bind, Stimulus

BIND_DELAY = 1_000
"""Microseconds from a decision to the outcome of its bind."""

_NODE, _BOUND_POD, _OUTCOME, _END, _ARRIVAL = range(5)


class SimulatedCluster:
    """The Cluster port over a list of nodes and a list of pods."""

    def __init__(
        self,
        nodes: Iterable[Node],
        arrivals: Iterable[TracePod],
        bound: Iterable[Pod] = (),
        *,
        bind_delay: int = BIND_DELAY,
    ) -> None:
        """``bound`` pods are on their nodes from the start. Arrivals without a time come at 0; all
        times are µs."""
        self._bind_delay = bind_delay
        self._order = count()
        self._events: list[tuple[int, int, int, Stimulus]] = []
        self._runs_for: dict[str, int] = {}
        for node in nodes:
            self._push(0, _NODE, records.NodeAdded(node=node))
        for pod in bound:
            self._push(0, _BOUND_POD, records.PodAdded(pod=pod))
        arriving = [(each.arrives_at or 0, order, each) for order, each in enumerate(arrivals)]
        arriving.sort(key=lambda each: each[:2], reverse=True)
        self._arrivals = arriving
        for _, _, each in arriving:
            if each.runs_for is not None:
                self._runs_for[each.pod.uid] = each.runs_for

    @property
    def next_at(self) -> int | None:
        """When something happens next, whatever the scheduler does."""
        events = self._events[0][0] if self._events else None
        arrival = self._arrivals[-1][0] if self._arrivals else None
        if events is None or arrival is None:
            return arrival if events is None else events
        return min(events, arrival)

    def take(self, now: int) -> list[Stimulus]:
        """What happens up to ``now``."""
        taken: list[tuple[int, int, int, Stimulus]] = []
        while self._events and self._events[0][0] <= now:
            taken.append(heappop(self._events))
        while self._arrivals and self._arrivals[-1][0] <= now:
            at, order, each = self._arrivals.pop()
            taken.append((at, _ARRIVAL, order, records.PodAdded(pod=each.pod)))
        taken.sort(key=lambda each: each[:3])
        return [each[3] for each in taken]

    def execute(self, effect: Bind, at: int) -> None:
        """Binds a pod: it runs from the outcome on, and ends when its time is over."""
        bound_at = at + self._bind_delay
        outcome = records.BindSucceeded(uid=effect.uid, node=effect.node)
        self._push(bound_at, _OUTCOME, outcome)
        runs_for = self._runs_for.get(effect.uid)
        if runs_for is not None:
            self._push(bound_at + runs_for, _END, records.PodDeleted(uid=effect.uid))

    def _push(self, at: int, kind: int, stimulus: Stimulus) -> None:
        heappush(self._events, (at, kind, next(self._order), stimulus))
