"""A preemption as it is logged: the candidates and their victims as vectors, whole or as a delta.

They are stored in a Detail, like the vectors of decisions. ``codes`` are the numbers of victims (0:
no candidate). The score columns are violations, highest priority, sum of priorities, earliest
start, then the victims of each row, the most important first. A victim is stored as the position of
its PodAdded record. Only the rows that were tried are up to date: the record says which, and its
digest covers only them. If only the best nodes are stored, they are the best candidates.
"""

import operator
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from eventsched.domain.detail_levels import DetailLevel
from eventsched.domain.journal import Rows
from eventsched.domain.records import PreemptionDecided
from eventsched.domain.records.verdicts import (
    STORED_NO_NODE,
    DeltaPart,
    Detail,
    may_build_on,
)
from eventsched.domain.state.scheduler_state import SchedulerState
from eventsched.scheduling.cycle.judgement_recording import LONGEST_CHAIN
from eventsched.scheduling.preemption.candidates import PER_VICTIM, CandidateTable
from eventsched.scheduling.preemption.evaluator import Preemption, is_leaving
from eventsched.scheduling.preemption.victims import NOT_STARTED, Candidate

MOST_VICTIMS = 250
"""The most victims of a node that are stored: a Detail has no more columns."""
_CRITERIA = 4
"""The number of columns before those of the victims."""


class RecordedPreemption(NamedTuple):
    """A decision's record and its vectors (None if no vectors are recorded)."""

    decided: PreemptionDecided
    detail: Detail | None


class Changed(NamedTuple):
    """The rows (ascending) whose candidates differ from those of the last decision, with the old
    values: ``counts`` int64[n] and ``columns`` int64[n, 4 + victims]."""

    rows: Rows
    counts: NDArray[np.int64]
    columns: NDArray[np.int64]


class CandidateRecord:
    """The candidates of one class and priority as the last decision recorded them; the next one is
    written as a delta to them. ``counts`` (int64[size]) is each row's number of victims, 0 for
    rows without a candidate; ``columns`` is int64[size, 4 + victims]."""

    def __init__(self) -> None:
        self.by_row: list[Candidate | None] = []
        self.stamps: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        """int64[size]: the stamp in ``candidate_table`` of each recorded candidate."""
        self.candidate_table: CandidateTable | None = None
        self.counts: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self.columns: NDArray[np.int64] = np.zeros((0, _CRITERIA), dtype=np.int64)
        self.base: int | None = None
        self.deltas_since_whole = 0

    def update(self, state: SchedulerState, preemption: Preemption, rows: Rows) -> Changed:
        """Stores the candidates (``rows``, ascending) of a decision; returns what changed."""
        candidates = preemption.candidate_table.by_row
        self._grow(len(candidates))
        is_gone = self.counts > 0
        is_gone[rows] = False
        window = window_of(int(preemption.tried[0]), int(preemption.tried[-1]), len(candidates))
        lost = window[is_gone[window]].tolist()
        for row in lost:
            self.by_row[row] = None
        self.stamps[lost] = 0
        if preemption.candidate_table is not self.candidate_table:
            self.candidate_table = preemption.candidate_table
            self.stamps[:] = 0
        stamps = preemption.candidate_table.stamps[rows]
        newer = rows[stamps != self.stamps[rows]].tolist()
        self.stamps[rows] = stamps
        changed = [row for row in newer if not _is_same(self.by_row[row], candidates[row])]
        differ = np.array(sorted(lost + changed), dtype=np.intp)
        before = Changed(differ, self.counts[differ], self.columns[differ])
        self.counts[lost], self.columns[lost] = 0, 0
        for row in changed:
            self._put(state, row, candidates[row])
        return before

    def detail(self, changed: Changed, position: int) -> Detail:
        """The vectors of the record at ``position``: a delta against the last ones, or whole if
        there are none to build on, the chain of deltas is too long or more than half of the rows
        changed."""
        rows, size = changed.rows, len(self.counts)
        if (
            self.base is None
            or not may_build_on(self.base, position)
            or self.deltas_since_whole >= LONGEST_CHAIN
            or len(rows) * 2 > size
        ):
            codes = self.counts.astype(np.uint16)
            detail, self.deltas_since_whole = (
                Detail(size, None, codes, tuple(self.columns.T.copy())),
                0,
            )
        else:
            counts, columns = self.counts[rows], self.columns[rows]
            number = _part(rows, changed.counts, counts, np.uint16)
            pairs = zip(changed.columns.T, columns.T, strict=True)
            parts = tuple(_part(rows, old, new, np.int64) for old, new in pairs)
            detail, self.deltas_since_whole = (
                Detail(size, self.base, number, parts),
                self.deltas_since_whole + 1,
            )
        self.base = position
        return detail

    def best(self, rows: Rows, chosen: int, first: int, nodes: int) -> Detail:
        """The partial vectors of a decision: those of the ``chosen`` row and of the best others
        among its candidates (``rows``, ascending), ``nodes`` in all. Of equals, the first from row
        ``first`` on is better."""
        counts = self.counts[rows]
        violations, highest, total, start = self.columns[rows, :_CRITERIA].T
        latest = np.where(start == 0, NOT_STARTED, start)
        order = np.lexsort(
            (rows < first, -latest, counts, total + PER_VICTIM * counts, highest, violations,
             rows != chosen)
        )  # fmt: skip
        kept = np.sort(rows[order[:nodes]])
        codes = np.full(len(self.counts), STORED_NO_NODE, dtype=np.uint16)
        codes[kept] = self.counts[kept]
        width = _CRITERIA + min(int(self.counts[kept].max()), MOST_VICTIMS)
        at = kept.astype(np.int32)
        columns = tuple(DeltaPart(at, column) for column in self.columns[kept, :width].T)
        return Detail(len(codes), None, codes, columns, is_partial=True)

    def digest(self, rows: Rows) -> str:
        """The digest (32 hex digits) of the candidates (``rows``, ascending). It does not depend on
        whether they are stored whole or as a delta."""
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
            self.base = None  # a delta cannot have more columns than its base
        self.by_row[row], self.counts[row] = candidate, len(candidate.victims)
        self.columns[row] = 0
        self.columns[row, : len(values)] = values


def _part(
    rows: Rows, old: NDArray[np.int64], new: NDArray[np.int64], dtype: type[np.integer[Any]]
) -> DeltaPart | None:
    """The rows at which a column changed, and the new values; None if there are none."""
    differs = np.flatnonzero(old != new)
    if not len(differs):
        return None
    return DeltaPart(rows[differs].astype(np.int32), new[differs].astype(dtype))


def _is_same(old: Candidate | None, new: Candidate | None) -> bool:
    """Whether two candidates have the same victims. Pods are compared by identity, because a uid
    may have been deleted and added again."""
    if old is new or old is None or new is None:
        return old is new
    return (
        old.violations == new.violations
        and len(old.victims) == len(new.victims)
        and all(map(operator.is_, old.victims, new.victims))
    )


def window_of(first: int, last: int, size: int) -> Rows:
    """The rows from ``first`` to ``last``, ascending. If ``last`` is smaller, the window goes on at
    row 0 after the end of the table (``size`` rows)."""
    if first <= last:
        return np.arange(first, last + 1, dtype=np.intp)
    return np.concatenate([np.arange(last + 1), np.arange(first, size)]).astype(np.intp)


def _vectors(
    state: SchedulerState, preemption: Preemption, rows: Rows, position: int, level: DetailLevel
) -> tuple[Detail | None, str]:
    """The vectors of a decision that are stored, and the digest of its candidates (``rows``,
    ascending)."""
    memory = preemption.dry_run.cache()
    candidate_record: CandidateRecord = memory.recorded or CandidateRecord()
    memory.recorded = candidate_record
    changed = candidate_record.update(state, preemption, rows)
    digest = candidate_record.digest(rows)
    if level.nodes is None:
        return candidate_record.detail(changed, position), digest
    candidate_record.base = None
    if not level.nodes:
        return None, digest
    first = int(preemption.tried[0])
    return candidate_record.best(rows, preemption.row, first, level.nodes), digest


def _waiting(state: SchedulerState, preemption: Preemption) -> set[str]:
    """The uids of the victims that wait at Permit or in PreBind."""
    return {
        pod.uid
        for pod in preemption.victims
        if (reservation := state.reservations.get(pod.uid)) and reservation.waiting
    }


def record(
    state: SchedulerState, preemption: Preemption, position: int, level: DetailLevel | None
) -> RecordedPreemption:
    """The record of a decision that will be logged at ``position``. Without a ``level`` it has
    neither vectors nor a digest."""
    dry_run = preemption.dry_run
    rows = np.sort(preemption.candidates)
    detail, digest = None, ""
    if level is not None:
        detail, digest = _vectors(state, preemption, rows, position, level)
    candidate = preemption.candidate_table.by_row[preemption.row]
    assert candidate is not None
    victims = tuple(pod.uid for pod in preemption.victims)
    waiting = _waiting(state, preemption)
    leaving = {pod.uid for pod in preemption.victims if is_leaving(pod, dry_run)} - waiting
    decided = PreemptionDecided(
        uid=dry_run.pod.uid,
        attempt=dry_run.cycle.attempt,
        node=dry_run.table.names[preemption.row],
        row=preemption.row,
        criterion=preemption.criterion,
        victims=victims,
        leaving=tuple(uid for uid in victims if uid in leaving),
        sent_back=tuple(uid for uid in victims if uid in waiting),
        nodes=preemption.nodes,
        looked=len(preemption.tried),
        candidates=len(rows),
        first=int(preemption.tried[0]),
        last=int(preemption.tried[-1]),
        draw=preemption.draw,
        violations=candidate.violations,
        highest=candidate.highest,
        total=candidate.total,
        start=candidate.start,
        digest=digest,
        plugin=preemption.candidate_table.rule.plugin,
    )
    return RecordedPreemption(decided, detail)
