"""Pods that wait too long, in two kinds that need different people.

A pod *starves* if later pods of its priority or less were placed, and it could run on some node
once pods there are gone: the scheduler, priorities or quotas have to change. It is *unplaceable* if
no node would take it even without other pods: its owner has to change it, or nodes are missing.
docs/sql.md has the definitions.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from eventsched.domain import records
from eventsched.domain.records import Outcome, Queue
from eventsched.domain.records.log_entry import LogEntry
from eventsched.domain.records.verdicts import STORED_NOT_EVALUATED, Code, Verdict
from eventsched.domain.state.scheduler_state import PodState, SchedulerState
from eventsched.domain.units import SECOND

PATIENCE = 600 * SECOND
"""How long a pod waits before it counts (µs)."""


class LongWaitCounts(NamedTuple):
    """Pods that wait too long, by profile. ``since`` is the time from which on the log was followed
    (s since 1970): waits that began before are known in part. None before the first record."""

    starving: Mapping[str, int]
    unplaceable: Mapping[str, int]
    since: float | None = None


class _Wait:
    """Since when (µs), and from which position of the log on, a pod waits with its gates open. Its
    last attempt says whether a node could take it; None if it has found none to say so."""

    __slots__ = "at", "could_fit", "seq"

    def __init__(self, seq: int, at: int) -> None:
        self.seq, self.at = seq, at
        self.could_fit: bool | None = None


class LongWaits:
    """Follows records, over terms of all replicas, with an entry for each waiting pod. A wait that
    began before the first of them is known from the pod's first move since, at the latest after
    the flush of five minutes."""

    def __init__(self) -> None:
        self._waits: dict[str, _Wait] = {}
        self._since: float | None = None
        self._next = 0
        """The position that comes next."""
        self._branches: dict[type, Callable[[Any, LogEntry, SchedulerState], None]] = {
            records.PodQueued: self._queued,
            records.PodDecided: self._decided,
            records.PodBound: self._ended,
            records.PodDeleted: self._ended,
            records.PlacementCompared: self._ended,
            records.PodUpdated: self._updated,
        }

    def follow(self, committed: Iterable[LogEntry], state: SchedulerState) -> None:
        """Notes committed records, in the order of the log. ``state`` has them, and may be ahead.
        Begins again if they do not follow those before."""
        for entry in committed:
            if self._since is None or entry.position != self._next:
                self._waits.clear()
                self._since = entry.at / SECOND
            self._next = entry.position + 1
            if (branch := self._branches.get(type(entry.record))) is not None:
                branch(entry.record, entry, state)

    def counts(self, state: SchedulerState) -> LongWaitCounts:
        """The pods that wait too long at the time of the state. Takes a look at every pod if one
        has waited for PATIENCE."""
        starving: Counter[str] = Counter()
        unplaceable: Counter[str] = Counter()
        placed: _Placed | None = None
        for uid, wait in self._waits.items():
            pod_state = state.pods.get(uid)
            if wait.at > state.now - PATIENCE or pod_state is None or not _is_tried(pod_state):
                continue
            if wait.could_fit is False:
                unplaceable[pod_state.pod.scheduler_name] += 1
                continue
            placed = placed or _Placed(state.pods.values())
            if placed.came_after(wait.seq, pod_state.pod.priority):
                starving[pod_state.pod.scheduler_name] += 1
        return LongWaitCounts(starving, unplaceable, self._since)

    def _queued(self, queued: records.PodQueued, entry: LogEntry, _: SchedulerState) -> None:
        if queued.queue is not Queue.GATED and queued.uid not in self._waits:
            self._waits[queued.uid] = _Wait(entry.position, entry.at)

    def _decided(self, decided: records.PodDecided, entry: LogEntry, state: SchedulerState) -> None:
        if (wait := self._waits.get(decided.uid)) is not None:
            wait.could_fit = could_fit(decided, state.verdicts)

    def _ended(
        self,
        ended: records.PodBound | records.PodDeleted | records.PlacementCompared,
        _: LogEntry,
        __: SchedulerState,
    ) -> None:
        self._waits.pop(ended.uid, None)

    def _updated(self, updated: records.PodUpdated, _: LogEntry, __: SchedulerState) -> None:
        if updated.pod.node_name:
            self._waits.pop(updated.pod.uid, None)


class _Placed:
    """The pods that were placed by attempts, by priority."""

    def __init__(self, pods: Iterable[PodState]) -> None:
        newest: dict[int, int] = {}
        for pod_state in pods:
            if pod_state.attempts and pod_state.queue is None and pod_state.booked_node:
                priority = pod_state.pod.priority
                newest[priority] = max(pod_state.number, newest.get(priority, -1))
        self._priorities = sorted(newest)
        self._newest = list(accumulate((newest[each] for each in self._priorities), max))

    def came_after(self, seq: int, priority: int) -> bool:
        """Whether one of this priority or less was added after a position of the log."""
        place = bisect_right(self._priorities, priority)
        return place > 0 and self._newest[place - 1] > seq


def could_fit(decided: records.PodDecided, verdicts: Sequence[Verdict | None]) -> bool | None:
    """Whether a node could take the pod of an attempt, now or without other pods on it: one passed
    the filters, or was refused with a code that a preemption can help with (Unschedulable, not
    UnschedulableAndUnresolvable). False also if PreFilter refused, before any node was judged. None
    if the attempt ended in an error. ``verdicts`` is the stream's dictionary."""
    if decided.outcome is Outcome.ERROR:
        return None
    return decided.feasible > 0 or any(
        number == STORED_NOT_EVALUATED
        or (number < len(verdicts) and _is_resolvable(verdicts[number]))
        for number, _ in decided.counts
    )


def _is_resolvable(verdict: Verdict | None) -> bool:
    return verdict is None or verdict.code is not Code.UNRESOLVABLE


def _is_tried(pod_state: PodState) -> bool:
    """Whether a pod is in a queue with its gates open, and was tried."""
    return pod_state.attempts > 0 and pod_state.queue not in (None, Queue.GATED)
