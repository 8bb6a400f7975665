"""The pods at a position, as rows that have the columns of table pod_now.

The folded state says which pods there are and where each stands. Since when one waits, and what its
last attempt came to, is read from the derived rows, by index and before the position: only of the
pods of which a question needs it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from math import inf
from threading import RLock
from typing import Any

from sqlalchemy import RowMapping

from eventsched.domain.records import PodDecided
from eventsched.domain.records.verdicts import STORED_EXCLUDED
from eventsched.domain.state.scheduler_state import SchedulerState
from eventsched.history.past_state.state_document import (
    AT_PERMIT,
    BINDING,
    BOUND,
    NOT_SCHEDULED_HERE,
    PREPARING,
    standing,
)
from eventsched.questions.answer_shapes import NodesFilled
from eventsched.questions.decisions import refused_numbers
from eventsched.questions.past.arrival_queues import UNQUEUED, ArrivalQueues
from eventsched.questions.past.last_attempts import (
    LastAttempt,
    arrivals,
    chunks,
    last_attempts,
    of_pods,
)
from eventsched.questions.past.past_pod import PLACED, PastPod
from eventsched.questions.streams import LoggedStream
from eventsched.questions.visibility import Visibility
from eventsched.runtime import gc_tuning
from eventsched.runtime.queries.state_at import FoldedState

_AT_FIRST = 1
"""Pods of a group of which it is asked first since when they wait."""
_STATES = {AT_PERMIT: "waiting", PREPARING: "waiting", NOT_SCHEDULED_HERE: UNQUEUED}
"""Place of a pod in a state → its name in pod_now, for those that have another one."""
_FAILED = ("unschedulable", "error")

_NO_NUMBERS: frozenset[int] = frozenset()
_UNTRIED = {column: value for column, value in PLACED.items() if column != "waiting_since"}
"""What a last attempt would say, of a pod that had none."""

_QUEUED = """
SELECT CAST(m.pod AS text) AS uid, min(m.seq) AS seq, min(m.at) AS at
FROM eventsched_log.queue_move m
WHERE m.stream = :s AND m.pod = ANY(CAST(:uids AS uuid[])) AND m.seq >= :begin AND m.seq < :end
GROUP BY m.pod
"""
_FIRST_QUEUED = """
SELECT CAST(m.pod AS text) AS uid, min(m.seq) AS seq, min(m.at) AS at
FROM eventsched_log.queue_move m
WHERE m.stream = :s AND m.pod = ANY(CAST(:uids AS uuid[])) AND m.seq >= :begin AND m.seq < :end
  AND m.queue <> 'gated'
GROUP BY m.pod
"""
_BOUND = """
SELECT CAST(r.pod AS text) AS uid, min(r.seq) AS seq, min(r.at) AS at
FROM eventsched_log.reservation r
WHERE r.stream = :s AND r.pod = ANY(CAST(:uids AS uuid[])) AND r.seq >= :begin AND r.seq < :end
  AND r.ended_by = 'PodBound'
GROUP BY r.pod
"""


class PastPods:
    """The pods before the record at ``position``; ``now`` is the time then (µs). ``rows`` have the
    columns of pod_now, in the order in which the pods came; of a pod without a node also the
    ``outcome`` of its last attempt, how many nodes were ``feasible`` and, if it failed,
    ``numbers``: those of all its verdicts. ``nodes``: how full the nodes were.

    What the state does not say is missing in a row until it is asked for with a method, and then
    stays. Threads share it.
    """

    def __init__(self, stream: LoggedStream, folded: FoldedState, nodes: NodesFilled) -> None:
        self.position, self.now, self.nodes = folded.position, folded.state.now, nodes
        self.rows: Sequence[PastPod] = sorted(_rows(folded.state), key=lambda row: row.seq)
        self._stream = stream
        self._arrivals = ArrivalQueues(stream, folded)
        self._lock = RLock()

    def visible(self, sees: Visibility) -> Sequence[PastPod]:
        """The rows of the namespaces that may be seen."""
        if sees.is_whole:
            return self.rows
        return [row for row in self.rows if sees.sees(row.pod.namespace)]

    def add_waits(self, rows: Sequence[PastPod]) -> None:
        """Adds ``waiting_since`` to rows: None for pods on a node, or never in a queue. Raises
        UnavailableError."""
        with self._lock, gc_tuning.paused():
            lacking = _lacking("waiting_since", rows)
            queued = of_pods(self._stream, _QUEUED, arrivals(lacking.values()), self.position)
            began = {found["uid"]: (found["at"], found["seq"]) for found in queued}
            for uid, row in lacking.items():
                at, seq = began.get(uid, (None, None))
                row.add(waiting_since=at, queued_seq=seq)

    def waits(self, rows: Sequence[PastPod]) -> list[bool] | None:
        """Whether each of rows has a ``waiting_since`` that is not None, if all that have it have
        waited since they arrived: then those that came first have waited longest. None if the state
        does not say it about one of them. Raises UnavailableError."""
        with self._lock:
            return self._arrivals.waits(rows)

    def oldest(self, groups: Sequence[Sequence[PastPod]]) -> list[PastPod | None]:
        """The pod of each group that has waited longest, of equal ones the first; None if none
        waits. The rows of a group are in order. Not all of them are looked up: a pod that came
        after another had come to a queue does not wait longer, as the log's time never goes
        back. Raises UnavailableError."""
        found: list[PastPod | None] = [None] * len(groups)
        left = {number for number, rows in enumerate(groups) if rows}
        begin, many = 0, _AT_FIRST
        while left:
            looked = {number: groups[number][begin : begin + many] for number in left}
            self.add_waits([row for rows in looked.values() for row in rows])
            begin, many = begin + many, many * 2
            for number, rows in looked.items():
                best = min((*filter(None, [found[number]]), *rows), key=_wait)
                waits = best["waiting_since"] is not None
                found[number] = best if waits else None
                rest = groups[number][begin : begin + 1]
                if not rest or (waits and rest[0].seq > best.found["queued_seq"]):
                    left.remove(number)
        return found

    def add_since(self, rows: Sequence[PastPod]) -> None:
        """Adds ``since`` to rows: since when pods are in their queue, or on their node. None if no
        row says it: of a pod that another scheduler placed, or that left Permit. Raises
        UnavailableError."""
        with self._lock, gc_tuning.paused():
            lacking = _lacking("since", rows)
            self.add_attempts(list(lacking.values()))
            bound = {uid: row for uid, row in lacking.items() if row.state == BOUND}
            since = self._times(_BOUND, bound)
            # An attempt takes a pod out of a queue. Without one it may have come with its node.
            untried = {uid: row for uid, row in bound.items() if not row.attempts}
            queued = self._times(_QUEUED, untried)
            came = {row.seq: uid for uid, row in untried.items() if uid not in queued}
            for seqs in chunks(list(came)):  # with a node
                for seq, stored in self._stream.evidence().records_at(seqs).items():
                    since[came[seq]] = stored.at
            for uid, row in bound.items():
                row.add(since=since.get(uid))

    def add_attempts(self, rows: Sequence[PastPod]) -> None:
        """Adds to rows of pods without a node what their last attempts came to, and ``since``.
        Raises UnavailableError."""
        with self._lock, gc_tuning.paused():
            lacking = _lacking("decided_seq", rows)
            tried = last_attempts(self._stream, lacking.values(), self.position)
            attempts = {uid: _attempt(lacking[uid], found) for uid, found in tried.items()}
            _add_refusals(self._stream, attempts.values())
            for uid, row in lacking.items():
                row.found = attempts.get(uid) or {**_UNTRIED, "since": None, **row.found}

    def _times(self, query: str, rows: Mapping[str, PastPod]) -> dict[str, int]:
        """Uid → time (µs) of what a query finds of pods."""
        found = of_pods(self._stream, query, arrivals(rows.values()), self.position)
        return {row["uid"]: row["at"] for row in found}


def past_pods(stream: LoggedStream, folded: FoldedState, nodes: NodesFilled) -> PastPods:
    """The pods of a folded state. It may change afterwards."""
    with gc_tuning.paused():
        return PastPods(stream, folded, nodes)


def _rows(state: SchedulerState) -> Iterator[PastPod]:
    """What the state says about each pod."""
    nominated = state.preemptions.node if len(state.preemptions) else None
    for pod_state in state.pods.values():
        node = "" if nominated is None else nominated(pod_state.pod.uid)
        place = BOUND if pod_state.bound else standing(state, pod_state)
        yield PastPod(pod_state, _STATES.get(place, place), node)


def _wait(row: PastPod) -> tuple[float, int]:
    """What the pods that have waited longest have least of."""
    since = row["waiting_since"]
    return (inf if since is None else since, row.seq)


def _lacking(column: str, rows: Iterable[PastPod]) -> dict[str, PastPod]:
    """The rows without a column, by uid."""
    return {row["uid"]: row for row in rows if column not in row.found}


def _attempt(row: PastPod, found: LastAttempt) -> dict[str, Any]:
    """The columns of a row with its last attempt, before its refusals are read."""
    is_allowed = row.state == BINDING and found.outcome == "waiting"  # some time later
    columns: dict[str, Any] = {
        "since": None if is_allowed else found.at, "decided_seq": found.seq,
        "outcome": found.outcome, "feasible": found.feasible,
        "verdict": None, "numbers": _NO_NUMBERS, "plugin": None, "message": None,
    }  # fmt: skip
    columns.update(row.found)
    return columns


def _add_refusals(stream: LoggedStream, attempts: Iterable[dict[str, Any]]) -> None:
    """Why those of attempts failed that did: their verdicts, and the messages of those without one
    on a node."""
    failed = {each["decided_seq"]: each for each in attempts if each["outcome"] in _FAILED}
    same: Callable[[tuple[int, ...]], frozenset[int]] = cache(frozenset)  # few are different
    for seqs in chunks(sorted(failed)):
        for seq, numbers in refused_numbers(stream, seqs).items():
            attempt = failed[seq]
            attempt["verdict"], attempt["numbers"] = numbers[0], same(tuple(numbers))
    unnamed = (seq for seq, each in failed.items() if each["verdict"] in (None, STORED_EXCLUDED))
    for seqs in chunks(sorted(unnamed)):
        add_messages(stream, [failed[seq] for seq in seqs])


def first_queued(stream: LoggedStream, came: Mapping[str, int], end: int) -> Iterator[RowMapping]:
    """When each pod first was in a queue other than the gated one, since it ``came`` and before
    position ``end``: uid, seq, at."""
    return of_pods(stream, _FIRST_QUEUED, came, end)


def add_messages(stream: LoggedStream, rows: Sequence[dict[str, Any]]) -> None:
    """The plugin and the message of failed last attempts, from their records."""
    by_seq = {row["decided_seq"]: row for row in rows}
    for seq, stored in stream.evidence().records_at(by_seq).items() if by_seq else ():
        record = stored.record
        assert isinstance(record, PodDecided)
        if record.outcome.value in _FAILED:
            by_seq[seq]["plugin"], by_seq[seq]["message"] = record.plugin, record.message
