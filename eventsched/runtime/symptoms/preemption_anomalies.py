"""Counts preemptions that do not help: workloads that are evicted and pods that are nominated
again and again, and victims that left for nothing. docs/sql.md has the definitions."""

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from eventsched.domain import records
from eventsched.domain.objects import Pod
from eventsched.domain.records import Outcome
from eventsched.domain.records.log_entry import LogEntry
from eventsched.domain.state.scheduler_state import SchedulerState
from eventsched.domain.units import SECOND

EVICTED_AGAIN, NOMINATED_AGAIN, FOR_NOTHING = (
    "evicted_again", "nominated_again", "preempted_for_nothing",
)  # fmt: skip
KINDS = EVICTED_AGAIN, NOMINATED_AGAIN, FOR_NOTHING
WINDOW = 3_600 * SECOND
"""Evictions and nominations count together if they are at most this far apart (µs)."""
LOOKED_AT = 1_000
"""Evictions that are remembered, the newest."""


class _Eviction:
    """A pod that had to leave. ``came`` is the position of its PodAdded, ``workload`` its
    namespace and owner; ``is_gone`` once it is deleted."""

    __slots__ = "at", "came", "is_gone", "seq", "workload"

    def __init__(self, seq: int, at: int, came: int, pod: Pod) -> None:
        self.seq, self.at, self.came = seq, at, came
        kind, name = (pod.owner.kind, pod.owner.name) if pod.owner else ("Pod", pod.name)
        self.workload = (pod.namespace, kind, name)
        self.is_gone = False


class _Room:
    """What a pod had others leave a node for. ``staying`` are the victims that are still there;
    ``has_left`` says that one is gone."""

    __slots__ = "has_left", "staying"

    def __init__(self) -> None:
        self.staying: set[str] = set()
        self.has_left = False


class PreemptionAnomalies:
    """Follows records, over terms of all replicas. ``counts`` has every kind of KINDS and never
    falls."""

    def __init__(self) -> None:
        self.counts = dict.fromkeys(KINDS, 0)
        self._next = 0
        """The position that comes next."""
        self._is_own = True
        """Whether the present record is this process's own, and counts."""
        self._branches: dict[type, Callable[[Any, LogEntry, SchedulerState], None]] = {
            records.PreemptionDecided: self._preempted,
            records.PodDecided: self._decided,
            records.PodDeleted: self._deleted,
            records.PodUpdated: self._updated,
        }
        self._forget()

    def follow(
        self, committed: Iterable[LogEntry], state: SchedulerState, *, is_own: bool = True
    ) -> None:
        """Takes in committed records, in the order of the log. ``state`` has them, and may be
        ahead. What follows from records that are not this process's own is not counted: their
        writer does. Begins again if the records do not follow those before."""
        self._is_own = is_own
        for entry in committed:
            if entry.position != self._next:
                self._forget()
            self._next = entry.position + 1
            if (branch := self._branches.get(type(entry.record))) is not None:
                branch(entry.record, entry, state)

    def _forget(self) -> None:
        self._evictions: dict[str, _Eviction] = {}
        """By uid, the newest last."""
        self._nominations: dict[str, deque[int]] = {}
        """Uid of a pod that has found no node since → when it was nominated (µs)."""
        self._rooms: dict[str, dict[str, _Room]] = {}
        """Uid of a pod that preempted and waits → node → what left it."""
        self._waits_of: dict[str, set[str]] = {}
        """Victim that is there → the pods that it has to leave for."""

    def _count(self, kind: str) -> None:
        self.counts[kind] += self._is_own

    def _preempted(
        self, decided: records.PreemptionDecided, entry: LogEntry, state: SchedulerState
    ) -> None:
        if state.shadows:  # no pod leaves because of a shadow
            return
        times = self._nominations.setdefault(decided.uid, deque(maxlen=3))
        times.append(entry.at)
        if len(times) == 3 and entry.at - times[0] <= WINDOW:
            self._count(NOMINATED_AGAIN)
        if not decided.evicted:
            return
        room = self._rooms.setdefault(decided.uid, {}).setdefault(decided.node, _Room())
        for uid in decided.evicted:
            room.staying.add(uid)
            self._waits_of.setdefault(uid, set()).add(decided.uid)
            if (pod_state := state.pods.get(uid)) is not None:
                self._evicted(
                    uid, _Eviction(entry.position, entry.at, pod_state.number, pod_state.pod)
                )

    def _evicted(self, uid: str, third: _Eviction) -> None:
        """Evicted, replaced, evicted, replaced, evicted: within WINDOW."""
        second = self._eviction_before(third)
        first = self._eviction_before(second) if second is not None else None
        if first is not None and third.at - first.at <= WINDOW:
            self._count(EVICTED_AGAIN)
        self._evictions.pop(uid, None)
        self._evictions[uid] = third
        if len(self._evictions) > LOOKED_AT:
            del self._evictions[next(iter(self._evictions))]

    def _eviction_before(self, later: _Eviction) -> _Eviction | None:
        """The newest eviction of the workload that was before a pod of it was added."""
        for eviction in reversed(self._evictions.values()):
            is_earlier = eviction.seq < later.came and eviction.is_gone
            if is_earlier and eviction.workload == later.workload:
                return eviction
        return None

    def _decided(self, decided: records.PodDecided, _: LogEntry, __: SchedulerState) -> None:
        if decided.outcome in (Outcome.SCHEDULED, Outcome.WAITING):
            self._ended(decided.uid, decided.node)

    def _updated(self, updated: records.PodUpdated, _: LogEntry, __: SchedulerState) -> None:
        """Another scheduler may have placed the pod."""
        if updated.pod.node_name:
            self._ended(updated.pod.uid, updated.pod.node_name)

    def _deleted(self, deleted: records.PodDeleted, _: LogEntry, __: SchedulerState) -> None:
        uid = deleted.uid
        self._ended(uid, "")
        if uid in self._evictions:
            self._evictions[uid].is_gone = True
        for waiting in self._waits_of.pop(uid, ()):
            for room in self._rooms[waiting].values():
                if uid in room.staying:
                    room.staying.discard(uid)
                    room.has_left = True

    def _ended(self, uid: str, node: str) -> None:
        """A pod has found a node, or is gone ("")."""
        self._nominations.pop(uid, None)
        for name, room in self._rooms.pop(uid, {}).items():
            if room.has_left and name != node:
                self._count(FOR_NOTHING)
            for victim in room.staying:
                waits = self._waits_of.get(victim)
                if waits is not None:
                    waits.discard(uid)
                    if not waits:
                        del self._waits_of[victim]
