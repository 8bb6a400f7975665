"""What happens to each pod in history, and under the other rules."""

from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import NamedTuple

from eventsched.domain.objects import Pod
from eventsched.domain.records import (
    BindIntended,
    Outcome,
    PodAdded,
    PodDecided,
    PodDeleted,
    PodUnreserved,
    PreemptionDecided,
    Record,
)
from eventsched.domain.state.scheduler_state import SchedulerState


class Cause(StrEnum):
    """Which kind of reason it is: other scores; a verdict, because the rules filter otherwise or
    other pods are on the nodes; a draw among equally good nodes; or none of these, such as a
    decision at another time."""

    SCORE = "score"
    VERDICT = "verdict"
    DRAW = "draw"
    OTHER = "other"


class Reason(NamedTuple):
    """Why a pod was decided otherwise. ``plugin`` is the one whose verdict or score decided, "" if
    none did; ``position`` is that of the decision in history."""

    plugin: str
    text: str
    position: int = -1
    cause: Cause = Cause.OTHER


class Life:
    """A pod's life on one side. ``node`` is the one it was placed on last, at ``placed_at`` (µs);
    "" if on none. ``is_evicted``: it was, for a more important pod. ``ended_at`` (µs) is when it
    was gone; None if it was not."""

    __slots__ = ("ended_at", "is_evicted", "node", "placed_at")

    def __init__(self) -> None:
        self.node, self.placed_at = "", 0
        self.ended_at: int | None = None
        self.is_evicted = False


class PodFate:
    """A pod in both histories: ``before`` is what happened, ``after`` what would have. It arrived
    at ``arrived`` (µs). ``reason`` is why it was decided otherwise. ``had_node``: it came with its
    node, or had it before the first record, and is here because a side evicts it."""

    __slots__ = (
        "after", "arrived", "before", "had_node", "name", "namespace", "priority", "reason",
        "scheduler_name",
    )  # fmt: skip

    def __init__(self, pod: Pod, arrived: int) -> None:
        self.namespace, self.name, self.priority = pod.namespace, pod.name, pod.priority
        self.scheduler_name = pod.scheduler_name
        self.arrived = arrived
        self.before, self.after = Life(), Life()
        self.reason: Reason | None = None
        self.had_node = False

    @property
    def full_name(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    def wait(self, life: Life, now: int) -> int:
        """How long (µs) it waited on a side: to the decision that placed it; without a node to its
        end, or to ``now``, the end of the range."""
        end = life.placed_at if life.node else life.ended_at
        return max(0, (now if end is None else end) - self.arrived)

    @property
    def is_moved(self) -> bool:
        """Whether it was placed on both sides, and last on different nodes."""
        return bool(self.before.node and self.after.node) and self.before.node != self.after.node

    @property
    def differs(self) -> bool:
        """Whether it is on another node, on none, or evicted on one side only."""
        before, after = self.before, self.after
        return before.node != after.node or before.is_evicted != after.is_evicted


class Fates:
    """The fates by uid, in the order in which the pods were first seen. Pods that had their node
    before the first record are only there if they are evicted."""

    def __init__(self, state: SchedulerState) -> None:
        """``state`` is the one that history begins with."""
        self._by_uid: dict[str, PodFate] = {}
        for uid, pod_state in state.pods.items():
            if pod_state.queue is not None or uid in state.reservations:
                arrived = pod_state.pod.created_at or state.now
                fate = self._by_uid[uid] = PodFate(pod_state.pod, arrived)
                if uid in state.reservations and state.reservations[uid].intended:
                    for life in (fate.before, fate.after):
                        life.node, life.placed_at = pod_state.booked_node, state.now

    def __iter__(self) -> Iterator[PodFate]:
        return iter(self._by_uid.values())

    def get(self, uid: str) -> PodFate | None:
        """The fate of a pod; None if it was not seen."""
        return self._by_uid.get(uid)

    def known(self, pod: Pod, at: int) -> PodFate:
        """The fate of a pod, which begins here if it was not seen yet."""
        fate = self._by_uid.get(pod.uid)
        if fate is None:
            fate = self._by_uid[pod.uid] = PodFate(pod, at)
        return fate


TAKEN = frozenset(
    (BindIntended, PodAdded, PodDecided, PodDeleted, PodUnreserved, PreemptionDecided)
)
"""The kinds that say something of a pod's life."""


class LifeRecorder:
    """Notes the lives of pods on one side, from its records."""

    def __init__(self, fates: Fates, *, is_history: bool) -> None:
        self._fates, self._is_history = fates, is_history
        self.decisions = 0
        self.decided: set[str] = set()
        """The uids of the pods that were decided on this side."""
        self.preemptions = 0

    def take(self, records: Iterable[tuple[Record, int]], state: SchedulerState) -> None:
        """Takes records and their times (µs) after they were applied to ``state``: all of those
        whose kinds are ``TAKEN``, others are passed over."""
        for record, at in records:
            match record:  # the most frequent kinds first
                case PodDecided():
                    self.decisions += 1
                    self.decided.add(record.uid)
                    life = self._life(record.uid, state, at)
                    if life is not None and record.outcome is Outcome.SCHEDULED:
                        life.node, life.placed_at = record.node, at
                case PodDeleted():
                    if (fate := self._fates.get(record.uid)) is not None:
                        (fate.before if self._is_history else fate.after).ended_at = at
                case PodAdded() if not record.pod.node_name:
                    self._fates.known(record.pod, at)
                case BindIntended():
                    life = self._life(record.uid, state, at)
                    if life is not None:
                        life.node, life.placed_at = record.node, at
                case PodUnreserved():
                    life = self._life(record.uid, state, at)
                    if life is not None:
                        life.node = ""
                case PreemptionDecided():
                    self.preemptions += 1
                    for uid in record.evicted:
                        life = self._life(uid, state, at)
                        if life is not None:
                            life.is_evicted = True

    def _life(self, uid: str, state: SchedulerState, at: int) -> Life | None:
        fate = self._fates.get(uid)
        if fate is None:
            pod_state = state.pods.get(uid)
            if pod_state is None:
                return None
            fate = self._fates.known(pod_state.pod, at)
            if pod_state.bound:  # placed before the first record, on both sides alike
                fate.had_node = True
                for life in (fate.before, fate.after):
                    life.node, life.placed_at = pod_state.booked_node, at
        return fate.before if self._is_history else fate.after
