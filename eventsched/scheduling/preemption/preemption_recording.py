"""A preemption as it is logged: the candidates with their victims as vectors, whole or as a delta.

They go into the same Detail as the vectors of decisions: ``codes`` are the numbers of victims (0:
no candidate), the score columns are violations, highest priority, sum of priorities, earliest
start, then the most important victim of each row, the next one… A victim stands there as the
position of its PodAdded record. Only rows of the window of trials are up to date; the event says
which they are, and its digest covers these alone.
"""

import operator
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from eventsched.domain.journal import Rows
from eventsched.domain.records import PreemptionDecided
from eventsched.domain.records.verdicts import DeltaPart, Detail
from eventsched.domain.state.scheduler_state import SchedulerState
from eventsched.scheduling.cycle.judgement_recording import LONGEST_CHAIN
from eventsched.scheduling.preemption.candidates import CandidateTable
from eventsched.scheduling.preemption.evaluator import Preemption, is_leaving
from eventsched.scheduling.preemption.victims import Candidate

MOST_VICTIMS = 250
"""Victims of a node that have a column: a Detail has room for no more."""
_CRITERIA = 4
"""Columns before those of the victims."""


class RecordedPreemption(NamedTuple):
    """A decision's record, and the vectors that go with it (None where none are kept)."""

    decided: PreemptionDecided
    detail: Detail | None


class Changed(NamedTuple):
    """Rows (ascending) whose candidates differ from the last decision's, and what was recorded of
    them then: ``counts`` int64[n] and ``columns`` int64[n, 4 + victims]."""

    rows: Rows
    counts: NDArray[np.int64]
    columns: NDArray[np.int64]


class CandidateRecord:
    """The candidates of a class and priority as they were last recorded, to write the next decision
    as a delta: ``counts`` (int64[size]) of victims and ``columns`` (int64[size, 4 + victims])."""

    def __init__(self) -> None:
        self.by_row: list[Candidate | None] = []
        self.stamps: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        """Of the trials in ``candidate_table`` that are recorded."""
        self.candidate_table: CandidateTable | None = None
        self.counts: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self.columns: NDArray[np.int64] = np.zeros((0, _CRITERIA), dtype=np.int64)
        self.base: int | None = None
        self.chain = 0

    def take(self, state: SchedulerState, made: Preemption, rows: Rows) -> Changed:
        """Takes in the candidates (``rows``, ascending) of a decision; what differs."""
        fresh = made.candidate_table.by_row
        self._grow(len(fresh))
        gone = self.counts > 0
        gone[rows] = False
        window = window_of(int(made.tried[0]), int(made.tried[-1]), len(fresh))
        lost = window[gone[window]].tolist()
        for row in lost:
            self.by_row[row] = None
        self.stamps[lost] = 0
        if made.candidate_table is not self.candidate_table:
            self.candidate_table = made.candidate_table
            self.stamps[:] = 0
        stamps = made.candidate_table.stamps[rows]
        newer = rows[stamps != self.stamps[rows]].tolist()
        self.stamps[rows] = stamps
        changed = [row for row in newer if not _is_same(self.by_row[row], fresh[row])]
        differ = np.array(sorted(lost + changed), dtype=np.intp)
        before = Changed(differ, self.counts[differ], self.columns[differ])
        self.counts[lost], self.columns[lost] = 0, 0
        for row in changed:
            self._put(state, row, fresh[row])
        return before

    def detail(self, changed: Changed, position: int) -> Detail:
        """What is written at a position."""
        rows, size = changed.rows, len(self.counts)
        if self.base is None or self.chain >= LONGEST_CHAIN or len(rows) * 2 > size:
            codes = self.counts.astype(np.uint16)
            detail, self.chain = Detail(size, None, codes, tuple(self.columns.T.copy())), 0
        else:
            counts, columns = self.counts[rows], self.columns[rows]
            number = _part(rows, changed.counts, counts, np.uint16)
            pairs = zip(changed.columns.T, columns.T, strict=True)
            parts = tuple(_part(rows, old, new, np.int64) for old, new in pairs)
            detail, self.chain = Detail(size, self.base, number, parts), self.chain + 1
        self.base = position
        return detail

    def digest(self, rows: Rows) -> str:
        """32 hex digits over the candidates (``rows``, ascending), however they are stored."""
        counts, columns = self.counts[rows], self.columns[rows]
        places = np.arange(columns.shape[1] - _CRITERIA)
        victims = columns[:, _CRITERIA:][places < counts[:, np.newaxis]]
        hashed = blake2b(digest_size=16)
        for part in (rows, counts, *columns[:, :_CRITERIA].T, victims):
            hashed.update(np.ascontiguousarray(part, dtype="<i8").data)
        return hashed.hexdigest()

    def _grow(self, size: int) -> None:
        more = size - len(self.by_row)
        if more:
            self.by_row += [None] * more
            self.stamps = np.pad(self.stamps, (0, more))
            self.counts = np.pad(self.counts, (0, more))
            self.columns = np.pad(self.columns, ((0, more), (0, 0)))

    def _put(self, state: SchedulerState, row: int, candidate: Candidate | None) -> None:
        assert candidate is not None
        numbers = [state.pods[pod.uid].number for pod in candidate.victims[:MOST_VICTIMS]]
        values = [
            candidate.violations,
            candidate.highest,
            candidate.total,
            candidate.start,
            *numbers,
        ]
        if len(values) > self.columns.shape[1]:
            missing = len(values) - self.columns.shape[1]
            self.columns = np.pad(self.columns, ((0, 0), (0, missing)))
            self.base = None  # a delta has the columns of its base
        self.by_row[row], self.counts[row] = candidate, len(candidate.victims)
        self.columns[row] = 0
        self.columns[row, : len(values)] = values


def _part(
    rows: Rows, old: NDArray[np.int64], new: NDArray[np.int64], dtype: type[np.integer[Any]]
) -> DeltaPart | None:
    """Where a column differs among these rows."""
    differs = np.flatnonzero(old != new)
    if not len(differs):
        return None
    return DeltaPart(rows[differs].astype(np.int32), new[differs].astype(dtype))


def _is_same(one: Candidate | None, other: Candidate | None) -> bool:
    """Whether two trials are the same, down to the very pods: a uid may have come back."""
    if one is other or one is None or other is None:
        return one is other
    return (
        one.violations == other.violations
        and len(one.victims) == len(other.victims)
        and all(map(operator.is_, one.victims, other.victims))
    )


def window_of(first: int, last: int, size: int) -> Rows:
    """The rows from one on to another, ascending; through the end where ``last`` is smaller."""
    if first <= last:
        return np.arange(first, last + 1, dtype=np.intp)
    return np.concatenate([np.arange(last + 1), np.arange(first, size)]).astype(np.intp)


def record(
    state: SchedulerState, made: Preemption, position: int, *, with_detail: bool
) -> RecordedPreemption:
    """The record of a decision that will stand at ``position``."""
    dry_run, memory = made.dry_run, made.dry_run.memory()
    rows = np.sort(made.candidates)
    detail, digest = None, ""
    if with_detail:
        kept: CandidateRecord = memory.recorded or CandidateRecord()
        memory.recorded = kept
        detail = kept.detail(kept.take(state, made, rows), position)
        digest = kept.digest(rows)
    candidate = made.candidate_table.by_row[made.row]
    assert candidate is not None
    waiting = {
        pod.uid
        for pod in made.victims
        if (held := state.reservations.get(pod.uid)) and held.waiting
    }
    victims = tuple(pod.uid for pod in made.victims)
    leaving = {pod.uid for pod in made.victims if is_leaving(pod, dry_run)} - waiting
    decided = PreemptionDecided(
        uid=dry_run.pod.uid,
        attempt=dry_run.cycle.attempt,
        node=dry_run.table.names[made.row],
        row=made.row,
        criterion=made.criterion,
        victims=victims,
        leaving=tuple(uid for uid in victims if uid in leaving),
        sent_back=tuple(uid for uid in victims if uid in waiting),
        nodes=made.nodes,
        looked=len(made.tried),
        candidates=len(rows),
        first=int(made.tried[0]),
        last=int(made.tried[-1]),
        draw=made.draw,
        violations=candidate.violations,
        highest=candidate.highest,
        total=candidate.total,
        start=candidate.start,
        digest=digest,
        plugin=made.candidate_table.rule.plugin,
    )
    return RecordedPreemption(decided, detail)
