"""Missed wake-ups: pods that only the flush of the unschedulable queue brought to their node.

Such a pod was refused, waited until the flush, and was placed by the next attempt. Some change
between the refusal and the flush made room for it, and the queueing hint of the plugin that had
refused it did not wake it. The change is found by deciding the attempt again: there is a step
before which the pod fits no node, and after which it fits one.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from eventsched.domain.records import MoveCause, Outcome, PodDecided, PodDeleted, PodQueued
from eventsched.domain.state import snapshot
from eventsched.domain.state.scheduler_state import SchedulerState
from eventsched.domain.state.state_snapshot import StateSnapshot, copied
from eventsched.eventlog.port import StoredLog, StoredRecord
from eventsched.eventlog.postgres.reader import Reader
from eventsched.history.explain.record_text import describe_with_pod
from eventsched.scheduling.engine import Engine
from eventsched.scheduling.framework import PluginError

MakeEngine = Callable[[StateSnapshot, int], Engine]
"""Makes an engine from the copy of a state and its position."""
_PLACED = (Outcome.SCHEDULED, Outcome.WAITING)
_DEFINITIONS = ("VerdictDefined", "ScoringDefined")


class FlushedPod(NamedTuple):
    """A pod that the flush brought to a node: the positions of the attempt that failed, of the
    flush, and of the decision for the node."""

    failed: int
    flushed: int
    placed: int


@dataclass(frozen=True)
class MissedWakeUp:
    """A pod that a change should have woken. ``change`` is the position of the change, ``kind`` and
    ``text`` say what it was, ``late`` is how long (µs) the pod waited from then to the flush.
    ``plugins`` refused the pod right before it, so their hints missed it."""

    pod: str
    uid: str
    flush: FlushedPod
    change: int
    kind: str
    text: str
    late: int
    plugins: tuple[str, ...]


def scanned_flushes(log: Iterable[StoredRecord]) -> Iterator[FlushedPod]:
    """The pods that the flush brought to a node, from the records of a log, in order of the
    decisions."""
    failed: dict[str, int] = {}
    flushed: dict[str, tuple[int, int]] = {}
    for stored in log:
        if stored.kind not in ("PodQueued", "PodDecided", "PodDeleted"):
            continue
        match stored.record:
            case PodQueued(uid=uid, cause=MoveCause.FLUSH) if uid in failed:
                flushed[uid] = failed[uid], stored.position
            case PodDecided(uid=uid, outcome=outcome):
                move = flushed.pop(uid, None)
                if move is not None and outcome in _PLACED:
                    yield FlushedPod(*move, stored.position)
                failed[uid] = stored.position
            case PodDeleted(uid=uid):
                flushed.pop(uid, None)
                failed.pop(uid, None)


_FLUSHES = """
SELECT failed.seq AS failed, m.seq AS flushed, placed.seq AS placed
FROM eventsched_log.queue_move m
CROSS JOIN LATERAL (
    SELECT seq FROM eventsched_log.decision
    WHERE stream = :s AND pod = m.pod AND seq < m.seq ORDER BY seq DESC LIMIT 1
) failed
CROSS JOIN LATERAL (
    SELECT seq, outcome FROM eventsched_log.decision
    WHERE stream = :s AND pod = m.pod AND seq > m.seq ORDER BY seq LIMIT 1
) placed
WHERE m.stream = :s AND m.cause = 'Flush' AND m.seq >= :begin AND m.seq < :end
  AND placed.outcome IN ('scheduled', 'waiting')
ORDER BY placed.seq
"""


def stored_flushes(reader: Reader, begin: int, end: int) -> list[FlushedPod]:
    """The same from the rows of a database, of flushes from position ``begin`` to before
    ``end``."""
    rows = reader.rows(_FLUSHES, begin=begin, end=end)
    return [FlushedPod(row["failed"], row["flushed"], row["placed"]) for row in rows]


def missed_wake_up(
    log: StoredLog,
    flush: FlushedPod,
    state_at: Callable[[int], SchedulerState],
    make_engine: MakeEngine,
) -> MissedWakeUp | None:
    """The change that should have woken a pod. ``state_at`` gives the state before a position. None
    if the pod fitted no node at the flush yet, or fitted one right after its attempt: then no
    plugin missed a change."""
    span = list(log_between(log, flush.failed, flush.flushed + 1))
    first_cause, flushed = span[0].cause, span[-1]
    steps = sorted({each.cause for each in span if each.cause > first_cause} | {flushed.cause})
    record = flushed.record
    assert isinstance(record, PodQueued)
    past = _PastDecisions(log, steps[0], state_at(steps[0]), record.uid, make_engine)
    low, high = 0, len(steps) - 1
    if past.refusers(steps[low]) is None or past.refusers(steps[high]) is not None:
        return None
    while high - low > 1:  # the pod fits no node before step low, and one before step high
        middle = (low + high) // 2
        if past.refusers(steps[middle]) is None:
            high = middle
        else:
            low = middle
    change = next(
        each for each in span if each.cause == steps[low] and each.kind not in _DEFINITIONS
    )
    return MissedWakeUp(
        past.pod_name, record.uid, flush, change.position, change.kind,
        describe_with_pod(change.record, past.name), flushed.at - change.at,
        past.refusers(steps[low]) or (),
    )  # fmt: skip


def log_between(log: StoredLog, begin: int, end: int) -> Iterator[StoredRecord]:
    """The records from a position to before another."""
    for stored in log.read(begin):
        if stored.position >= end:
            return
        yield stored


class _PastDecisions:
    """Decides about one pod again, at positions after one whose state is known."""

    def __init__(
        self, log: StoredLog, first: int, state: SchedulerState, uid: str, make_engine: MakeEngine
    ) -> None:
        self._log, self._first, self._uid = log, first, uid
        self._copy = copied(state)
        self._make_engine = make_engine
        self._known: dict[int, tuple[str, ...] | None] = {}
        self.pod_name = state.pods[uid].pod.full_name
        self._names = {key: pod.pod.full_name for key, pod in state.pods.items()}

    def name(self, uid: str) -> str:
        """The name of a pod, its uid if that is not known."""
        return self._names.get(uid, uid)

    def refusers(self, position: int) -> tuple[str, ...] | None:
        """The plugins that refuse the pod right before a position; None if it fits a node."""
        if position not in self._known:
            self._known[position] = self._refusers(position)
        return self._known[position]

    def _refusers(self, position: int) -> tuple[str, ...] | None:
        state = SchedulerState()
        snapshot.restore(state, self._copy)
        for stored in log_between(self._log, self._first, position):
            state.apply(stored.record, stored.at)
        self._names.update((uid, each.pod.full_name) for uid, each in state.pods.items())
        engine = self._make_engine(copied(state), position)
        try:
            judgement = engine.judge(state.pods[self._uid].pod)
        except PluginError as problem:
            return (problem.plugin,)
        return None if judgement.feasible else judgement.rejectors()[0]
