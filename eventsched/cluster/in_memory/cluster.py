"""A cluster in memory, in virtual time: pods arrive, are bound after a fixed delay, run and end.

It never reads a clock: it is a function of its inputs and of the effects that it executes. Events
of one instant are ordered by kind, then by the order in which they were created. The kinds are, in
order: other objects, nodes, pods on them, outcomes, ends of pods, ends of evicted pods, arrivals,
ends of pods by rollouts of their Deployments.
volume_controller.py binds claims and provisions volumes.
"""

from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heappush
from typing import Any

from eventsched.cluster.in_memory.drain import Drain
from eventsched.cluster.in_memory.volume_controller import (
    CLAIM_BINDING_DELAY,
    Reaction,
    VolumeController,
)
from eventsched.cluster.sources.arrivals import Arrivals, GeneratedPods, TracePod
from eventsched.cluster.sources.node_churn import NodeChurn
from eventsched.cluster.sources.rollouts import Rollouts
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
"""Microseconds from a decision to the outcome of its bind or eviction."""
TERMINATION_DELAY = 1_000_000
"""Microseconds from the outcome of an eviction to the end of the pod."""

_OBJECT, _NODE, _BOUND_POD, _OUTCOME, _END, _GONE, _ARRIVAL, _ROLLOUT = range(-1, 7)
_NEVER = 2**63, _ROLLOUT
_RUNS_FOR_ALL = 1
"""The mark of a snapshot that has the running times of all pods, not only those of successors."""


class InMemoryCluster:
    """The Cluster port over a list of nodes and a list of pods."""

    def __init__(
        self,
        nodes: Iterable[Node],
        arrivals: Iterable[TracePod],
        bound: Iterable[Pod] = (),
        *,
        objects: Iterable[AnyObject] = (),
        samples: Iterable[SamplesTaken] = (),
        churn: NodeChurn | None = None,
        rollouts: Rollouts | None = None,
        bind_delay: int = BIND_DELAY,
        known: Iterable[Node | AnyObject] = (),
    ) -> None:
        """``bound`` pods are on their nodes from the start. ``objects`` and ``samples`` also exist
        from the start. Pods without a time arrive at 0. ``churn`` replaces and changes nodes,
        ``rollouts`` replaces pods. Those of ``nodes`` and ``objects`` that are ``known`` to the
        scheduler, as they are, give no event. All times are in µs."""
        self._bind_delay = bind_delay
        self._order = 0
        self._events: list[tuple[int, int, int, Stimulus]] = []
        self._runs_for: dict[str, int] = {}
        """How long (µs) the pods run that exist or are about to arrive, by uid."""
        self._cut_short: set[str] = set()
        """Uids of evicted pods: their regular ends, still in ``_events``, are dropped."""
        self._churn, self._rollouts, self._drain = churn, rollouts, Drain()
        nodes, objects = list(nodes), list(objects)
        self._volumes = VolumeController(objects, nodes)
        initial = self._volumes.begin()
        seen = {id(each) for each in known}  # they stay in these lists meanwhile
        changed = {obj.title: obj for obj in initial.now}
        for obj in objects:
            current = changed.get(obj.title, obj)
            if id(current) not in seen:
                self._push(0, _OBJECT, records.ObjectChanged(object=current))
        self._react(initial._replace(now=()), 0)
        for index, node in enumerate(nodes):
            if id(node) not in seen:
                self._push(0, _NODE, records.NodeAdded(node=node))
            if churn is not None:
                self._push_end(churn, index, 0)
                self._push_change(churn, index, 0)
        for sample in samples:
            self._push(0, _NODE, sample)
        for pod in bound:
            self._push(0, _BOUND_POD, records.PodAdded(pod=pod))
        self._take_in(arrivals)

    def _take_in(self, arrivals: Iterable[TracePod]) -> None:
        """The pods that arrive, with the claims of their ephemeral volumes."""
        pods: Sequence[TracePod]
        if isinstance(arrivals, GeneratedPods):
            pods, claimants = arrivals, []
        else:
            pods = sorted(arrivals, key=lambda arrival: arrival.arrives_at or 0)
            claimants = [arrival for arrival in pods if arrival.claims]
        self._arrivals = Arrivals(pods, self._loaded)
        self._claims = {arrival.pod.uid: arrival.claims for arrival in claimants}
        for arrival in claimants:
            for claim in arrival.claims:
                at = arrival.arrives_at or 0
                self._react(self._volumes.add(claim), at + self._bind_delay)

    def _loaded(self, arrival: TracePod) -> None:
        if arrival.runs_for is not None:
            self._runs_for[arrival.pod.uid] = arrival.runs_for

    @property
    def next_at(self) -> int | None:
        """The time of the next event if the scheduler does nothing; None if there is none."""
        self._drop_cut_short()
        events = self._events[0][0] if self._events else None
        arrival = self._arrivals.next_at
        if events is None or arrival is None:
            return arrival if events is None else events
        return min(events, arrival)

    def due_stimuli(self, now: int) -> list[Stimulus]:
        """The events up to ``now``, in order. They are removed."""
        due: list[Stimulus] = []
        while (at := self.next_at) is not None and at <= now:
            due.append(self._next())
        return due

    def _next(self) -> Stimulus:
        """Removes the next event, of which there is one, and adds what follows from it."""
        at, kind = self._events[0][:2] if self._events else _NEVER
        arrival = self._arrivals.next_at
        if arrival is not None and (arrival, _ARRIVAL) <= (at, kind):
            at, kind = arrival, _ARRIVAL
            stimulus: Stimulus = records.PodAdded(pod=self._arrivals.pop())
        else:
            stimulus = heappop(self._events)[3]
        if self._churn is not None:
            self._follow_up_node(self._churn, at, stimulus)
        if self._is_replacing:
            self._follow_up_pod(at, kind, stimulus)
        if isinstance(stimulus, records.PodDeleted):
            self._runs_for.pop(stimulus.uid, None)
        return stimulus

    @property
    def _is_replacing(self) -> bool:
        """Whether pods may get successors."""
        return self._churn is not None or self._rollouts is not None

    def _drop_cut_short(self) -> None:
        while self._events and self._is_cut_short(self._events[0]):
            self._cut_short.discard(heappop(self._events)[3].uid)  # type: ignore[attr-defined]

    def forget_before(self, at: int) -> int:
        """Drops the events before a time (µs), because they are in the log already. Returns how
        many there were. Call it before the effects of that time are executed again."""
        number = 0
        while (next_at := self.next_at) is not None and next_at < at:
            self._next()
            number += 1
        return number

    def forget(self, number: int) -> None:
        """Drops the next ``number`` events, because they are in the log already. First execute the
        effects of the log again. Raises ValueError if there are fewer events."""
        for _ in range(number):
            if self.next_at is None:
                raise ValueError("the log has more events than these inputs produce")
            self._next()

    def snapshot(self) -> list[Any]:
        """The future events and the changed volumes, as JSON values, for ``restore``."""
        events = [
            [at, kind, order, encode(stimulus).decode()]
            for at, kind, order, stimulus in self._events
        ]
        volumes = [
            encode(records.ObjectChanged(object=obj)).decode() for obj in self._volumes.snapshot()
        ]
        state = [len(self._arrivals), self._order, events, sorted(self._cut_short), volumes]
        return [*state, self._drain.snapshot(), self._runs_for, _RUNS_FOR_ALL]

    def restore(self, snapshot: list[Any]) -> None:
        """Continues from a snapshot of a cluster with the same inputs."""
        arrivals, self._order, events, cut_short, volumes, drain, runs_for, *form = snapshot
        self._drain.restore(drain)
        # Earlier versions stored the running times of successors only.
        self._arrivals.skip_to(arrivals, load=not form)
        self._runs_for.update(runs_for)
        self._cut_short = set(cut_short)
        changes = [decode(text.encode()) for text in volumes]
        self._volumes.restore([c.object for c in changes if isinstance(c, records.ObjectChanged)])
        self._events = []
        for at, kind, order, text in events:
            stimulus = decode(text.encode())
            assert isinstance(stimulus, Stimulus)
            self._events.append((at, kind, order, stimulus))
        heapify(self._events)

    def execute(self, effect: Effect, at: int) -> None:
        """Executes an effect that was decided at ``at``. The outcome follows after the bind delay.

        - ``Bind``: the pod runs from the outcome on, and ends when its running time is over.
        - ``Evict``: the pod ends ``TERMINATION_DELAY`` after the outcome.
        - ``Prepare``: the change is visible together with the outcome.

        Raises ValueError for ``Consult``: there are no extenders.
        """
        # A run that is resumed executes the effects of a time before its arrivals.
        self._arrivals.load_until(at)
        bound_at = at + self._bind_delay
        if isinstance(effect, Prepare):
            self._write(effect, bound_at)
            return
        if isinstance(effect, Consult):
            raise ValueError("there are no extenders in a simulated cluster")
        if isinstance(effect, Evict):
            self._drain.ended(effect.uid)
            self._push(bound_at, _OUTCOME, records.EvictionSucceeded(uid=effect.uid))
            self._push(bound_at + TERMINATION_DELAY, _GONE, records.PodDeleted(uid=effect.uid))
            self._release(effect.uid, bound_at + TERMINATION_DELAY)
            if effect.uid in self._runs_for:
                self._cut_short.add(effect.uid)
            return
        outcome = records.BindSucceeded(uid=effect.uid, node=effect.node)
        self._push(bound_at, _OUTCOME, outcome)
        runs_for = self._runs_for.get(effect.uid)
        if self._is_replacing:
            ends_at = None if runs_for is None else bound_at + runs_for
            self._drain.bound(effect.uid, effect.node, ends_at)
        if runs_for is not None:
            self._push(bound_at + runs_for, _END, records.PodDeleted(uid=effect.uid))
            self._release(effect.uid, bound_at + runs_for)

    def _follow_up_node(self, churn: NodeChurn, at: int, stimulus: Stimulus) -> None:
        """What follows from an event of a node: its successor and the end of its pods, which begin
        again elsewhere; its next change."""
        match stimulus:
            case records.NodeDeleted(name=name):
                index = churn.index(name)
                self._push(at, _NODE, records.NodeAdded(node=churn.node(index, at)))
                self._push_end(churn, index, at)
                for uid, successor, runs_for in self._drain.drained(name, at):
                    gone_at = at + TERMINATION_DELAY
                    self._push(gone_at, _GONE, records.PodDeleted(uid=uid))
                    self._release(uid, gone_at)
                    self._replace(uid, successor, runs_for, gone_at)
            case records.NodeUpdated(node=node):
                self._push_change(churn, churn.index(node.name), at)

    def _follow_up_pod(self, at: int, kind: int, stimulus: Stimulus) -> None:
        """What follows from an event of a pod: the rollout that ends it; its successor."""
        match stimulus:
            case records.PodAdded(pod=pod):
                self._drain.arrived(pod)
                rolled_at = self._rollouts.next_end(pod, at) if self._rollouts else None
                if rolled_at is not None:
                    self._push(rolled_at, _ROLLOUT, records.PodDeleted(uid=pod.uid))
            case records.PodDeleted(uid=uid) if kind == _ROLLOUT:
                pod, is_bound, ends_at = self._drain.rolled(uid, at)
                runs_for = self._runs_for.get(uid)
                if is_bound and ends_at is not None:
                    runs_for = ends_at - at
                self._release(uid, at)
                # Not in the same instant: a resumed run executes its bind before this event.
                self._replace(uid if is_bound else "", pod, runs_for, at + TERMINATION_DELAY)
            case records.PodDeleted(uid=uid):
                self._drain.ended(uid)

    def _replace(self, uid: str, successor: Pod, runs_for: int | None, at: int) -> None:
        """A pod's successor arrives, and runs for a time (µs). ``uid`` is the replaced pod's if it
        has an end to come."""
        if runs_for is not None:
            if uid:
                self._cut_short.add(uid)
            self._runs_for[successor.uid] = runs_for
        if self._rollouts is not None:
            successor = self._rollouts.pod(successor, at)
        self._push(at, _ARRIVAL, records.PodAdded(pod=successor))

    def _push_end(self, churn: NodeChurn, index: int, after: int) -> None:
        at = churn.next_end(index, after)
        if at is not None:
            self._push(at, _NODE, records.NodeDeleted(name=churn.node(index, after).name))

    def _push_change(self, churn: NodeChurn, index: int, after: int) -> None:
        at = churn.next_change(index, after)
        if at is not None:
            self._push(at, _NODE, records.NodeUpdated(node=churn.node(index, at)))

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
        for obj in reaction.now:
            self._push(at, _OBJECT, records.ObjectChanged(object=obj))
        for obj in reaction.later:
            self._push(at + reaction.delay, _OBJECT, records.ObjectChanged(object=obj))

    def _release(self, uid: str, at: int) -> None:
        """Deletes the claims of a pod's ephemeral volumes; ``at`` is the end of the pod."""
        deleted: AnyObject
        for claim in self._claims.get(uid, ()):
            volume, deletes_volume = self._volumes.release(claim)
            if volume is not None and not deletes_volume:
                self._push(at + CLAIM_BINDING_DELAY, _OBJECT, records.ObjectChanged(object=volume))
            for deleted in [claim] + ([volume] if volume is not None and deletes_volume else []):
                self._push(
                    at + CLAIM_BINDING_DELAY,
                    _OBJECT,
                    records.ObjectDeleted(
                        type=type(deleted).__name__, name=deleted.name, namespace=deleted.namespace
                    ),
                )

    def _is_cut_short(self, event: tuple[int, int, int, Stimulus]) -> bool:
        _, kind, _, stimulus = event
        if kind not in (_END, _ROLLOUT) or not isinstance(stimulus, records.PodDeleted):
            return False
        if kind == _ROLLOUT:
            return stimulus.uid not in self._drain
        return stimulus.uid in self._cut_short

    def _push(self, at: int, kind: int, stimulus: Stimulus) -> None:
        heappush(self._events, (at, kind, self._order, stimulus))
        self._order += 1
