"""A simulated cluster in virtual time: pods arrive, are bound after a fixed delay, run and end.

It never reads a clock: it is a function of its inputs and of the effects that it executes.
Within an instant things happen in the order (kind, order of origin): other objects, nodes, pods on
them, outcomes, ends of pods, ends of evicted pods, arrivals. Claims are bound and volumes made by a
controller of its own (volume_controller.py).
"""

from collections.abc import Iterable
from heapq import heapify, heappop, heappush
from typing import Any

from eventsched.cluster.simulated.volume_controller import BINDING, Reaction, VolumeController
from eventsched.cluster.sources.arrivals import TracePod
from eventsched.domain import records
from eventsched.domain.objects import Node, Pod
from eventsched.domain.objects.registry import AnyObject
from eventsched.domain.records import (
    Consult,
    Effect,
    Evict,
    Prepare,
    SamplesTaken,
    Stimulus,
    decode,
    encode,
)

BIND_DELAY = 1_000
"""Microseconds from a decision to the outcome of its bind, or of an eviction."""
TERMINATION = 1_000_000
"""Microseconds from there to the end of a pod that is evicted."""

_OBJECT, _NODE, _BOUND_POD, _OUTCOME, _END, _GONE, _ARRIVAL = range(-1, 6)


class SimulatedCluster:
    """The Cluster port over a list of nodes and a list of pods."""

    def __init__(
        self,
        nodes: Iterable[Node],
        arrivals: Iterable[TracePod],
        bound: Iterable[Pod] = (),
        *,
        objects: Iterable[AnyObject] = (),
        samples: Iterable[SamplesTaken] = (),
        bind_delay: int = BIND_DELAY,
    ) -> None:
        """``bound`` pods are on their nodes from the start, and ``objects`` and
        ``samples`` there. Arrivals without a time come at 0; all times are µs."""
        self._bind_delay = bind_delay
        self._order = 0
        self._events: list[tuple[int, int, int, Stimulus]] = []
        self._runs_for: dict[str, int] = {}
        self._cut_short: set[str] = set()
        """Evicted pods: their scheduled end no longer counts."""
        nodes, objects = list(nodes), list(objects)
        self._volumes = VolumeController(objects, nodes)
        begun = self._volumes.begin()
        changed = {each.title: each for each in begun.now}
        for other in objects:
            shown = changed.get(other.title, other)
            self._push(0, _OBJECT, records.ObjectChanged(object=shown))
        self._react(begun._replace(now=()), 0)
        for node in nodes:
            self._push(0, _NODE, records.NodeAdded(node=node))
        for taken in samples:
            self._push(0, _NODE, taken)
        for pod in bound:
            self._push(0, _BOUND_POD, records.PodAdded(pod=pod))
        arriving = [(each.arrives_at or 0, order, each) for order, each in enumerate(arrivals)]
        arriving.sort(key=lambda each: each[:2], reverse=True)
        self._arrivals = arriving
        for _, _, each in arriving:
            if each.runs_for is not None:
                self._runs_for[each.pod.uid] = each.runs_for
        self._claims = {each.pod.uid: each.claims for _, _, each in arriving if each.claims}
        for at, _, each in reversed(arriving):
            for claim in each.claims:
                self._react(self._volumes.add(claim), at + bind_delay)

    @property
    def next_at(self) -> int | None:
        """When something happens next, whatever the scheduler does."""
        while self._events and self._is_cut_short(self._events[0]):
            self._cut_short.discard(heappop(self._events)[3].uid)  # type: ignore[attr-defined]
        events = self._events[0][0] if self._events else None
        arrival = self._arrivals[-1][0] if self._arrivals else None
        if events is None or arrival is None:
            return arrival if events is None else events
        return min(events, arrival)

    def take(self, now: int) -> list[Stimulus]:
        """What happens up to ``now``."""
        return [each[3] for each in self._due(now)]

    def _due(self, now: int) -> list[tuple[int, int, int, Stimulus]]:
        taken: list[tuple[int, int, int, Stimulus]] = []
        while self._events and self._events[0][0] <= now:
            event = heappop(self._events)
            if self._is_cut_short(event):
                self._cut_short.discard(event[3].uid)  # type: ignore[attr-defined]
            else:
                taken.append(event)
        while self._arrivals and self._arrivals[-1][0] <= now:
            at, order, each = self._arrivals.pop()
            taken.append((at, _ARRIVAL, order, records.PodAdded(pod=each.pod)))
        taken.sort(key=lambda each: each[:3])
        return taken

    def forget(self, number: int) -> None:
        """Drops the first ``number`` things that happen: they are in the log already. Effects that
        were executed before must have been executed again."""
        while number > 0:
            now = self.next_at
            if now is None:
                raise ValueError("the log says that more was observed than these inputs hold")
            taken = self._due(now)
            for late in taken[number:]:
                heappush(self._events, late)
            number -= len(taken)

    def snapshot(self) -> list[Any]:
        """What is to come, as JSON values, for ``restore``."""
        events = [[at, kind, n, encode(what).decode()] for at, kind, n, what in self._events]
        volumes = [
            encode(records.ObjectChanged(object=each)).decode() for each in self._volumes.snapshot()
        ]
        return [len(self._arrivals), self._order, events, sorted(self._cut_short), volumes]

    def restore(self, kept: list[Any]) -> None:
        """Continues from a snapshot of a cluster with the same inputs."""
        arrivals, self._order, events, cut_short, volumes = kept
        self._cut_short = set(cut_short)
        changes = [decode(each.encode()) for each in volumes]
        self._volumes.restore([c.object for c in changes if isinstance(c, records.ObjectChanged)])
        del self._arrivals[arrivals:]
        self._events = []
        for at, kind, number, what in events:
            stimulus = decode(what.encode())
            assert isinstance(stimulus, Stimulus)
            self._events.append((at, kind, number, stimulus))
        heapify(self._events)

    def execute(self, effect: Effect, at: int) -> None:
        """Binds a pod: it runs from the outcome on, and ends when its time is over. Or evicts one:
        it ends a while after the outcome. Or makes a change that a bind waits for."""
        bound_at = at + self._bind_delay
        if isinstance(effect, Prepare):
            self._write(effect, bound_at)
            return
        if isinstance(effect, Consult):
            raise ValueError("there are no extenders in a simulated cluster")
        if isinstance(effect, Evict):
            self._push(bound_at, _OUTCOME, records.EvictionSucceeded(uid=effect.uid))
            self._push(bound_at + TERMINATION, _GONE, records.PodDeleted(uid=effect.uid))
            self._release(effect.uid, bound_at + TERMINATION)
            if effect.uid in self._runs_for:
                self._cut_short.add(effect.uid)
            return
        outcome = records.BindSucceeded(uid=effect.uid, node=effect.node)
        self._push(bound_at, _OUTCOME, outcome)
        runs_for = self._runs_for.get(effect.uid)
        if runs_for is not None:
            self._push(bound_at + runs_for, _END, records.PodDeleted(uid=effect.uid))
            self._release(effect.uid, bound_at + runs_for)

    def _write(self, effect: Prepare, at: int) -> None:
        reaction = self._volumes.write(effect.write)
        self._react(reaction, at)
        uid, attempt, write = effect.uid, effect.attempt, effect.write
        outcome: Stimulus = records.WriteSucceeded(uid=uid, attempt=attempt, write=write)
        if reaction.problem:
            outcome = records.WriteFailed(
                uid=uid, attempt=attempt, write=write, message=reaction.problem
            )
        self._push(at, _OUTCOME, outcome)

    def _react(self, reaction: Reaction, at: int) -> None:
        for each in reaction.now:
            self._push(at, _OBJECT, records.ObjectChanged(object=each))
        for each in reaction.later:
            self._push(at + reaction.delay, _OBJECT, records.ObjectChanged(object=each))

    def _release(self, uid: str, at: int) -> None:
        """The claims of a pod's ephemeral volumes go a while after it."""
        gone: AnyObject
        for claim in self._claims.get(uid, ()):
            volume, goes = self._volumes.release(claim)
            if volume is not None and not goes:
                self._push(at + BINDING, _OBJECT, records.ObjectChanged(object=volume))
            for gone in [claim] + ([volume] if volume is not None and goes else []):
                self._push(
                    at + BINDING,
                    _OBJECT,
                    records.ObjectDeleted(
                        type=type(gone).__name__, name=gone.name, namespace=gone.namespace
                    ),
                )

    def _is_cut_short(self, event: tuple[int, int, int, Stimulus]) -> bool:
        what = event[3]
        return (
            event[1] == _END and isinstance(what, records.PodDeleted)
            and what.uid in self._cut_short
        )  # fmt: skip

    def _push(self, at: int, kind: int, stimulus: Stimulus) -> None:
        heappush(self._events, (at, kind, self._order, stimulus))
        self._order += 1
