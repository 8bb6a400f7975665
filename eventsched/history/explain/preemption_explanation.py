"""Explains a preemption from its record and its vectors."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from eventsched.domain import records
from eventsched.domain.records import PodDecided, PodDeleted, PreemptionDecided
from eventsched.domain.records.verdicts import STORED_NO_NODE, Detail
from eventsched.history.evictor_outcomes import ELSEWHERE, FOUND_NODE, evictor_outcome
from eventsched.history.explain.evidence import Evidence, uid_key

NODES_SHOWN = 4
"""The number of candidates shown, including the chosen one."""
_CRITERIA = 4
_NOT_STARTED = 2**62
_PER_VICTIM = 2**31


@dataclass(frozen=True)
class ExplainedCandidate:
    """A candidate node: its victims, the most important first, and the criteria that are compared.
    ``start`` is in µs, 0 if none of the most important victims has started."""

    node: str
    chosen: bool
    victims: tuple[str, ...]
    violations: int
    highest: int
    total: int
    start: int


@dataclass(frozen=True)
class PreemptionExplanation:
    """A preemption: the names of the victims, the outcome for each, the best candidates (if the log
    has the vectors), the node and position where the pod was placed afterwards ("" and -1 while
    it is not), and what happened to it (EVICTOR_OUTCOMES)."""

    position: int
    decided: PreemptionDecided
    victims: tuple[str, ...]
    outcomes: tuple[str, ...]
    compared: tuple[ExplainedCandidate, ...]
    landed: str
    landed_at: int
    outcome: str


@dataclass(frozen=True)
class UnusedRoom:
    """The node that a preemption was to free for a pod which was placed elsewhere, and the names of
    the victims; ``landed`` is the node where it was placed."""

    node: str
    victims: tuple[str, ...]
    landed: str


def unused_room(evidence: Evidence, uid: str, steps: Iterable[Any]) -> UnusedRoom | None:
    """The room of the last preemption for a pod before it was placed, if the last attempt that
    found a node chose another one. ``uid`` is as uid_key has it, ``steps`` are the pod's."""
    decided: PreemptionDecided | None = None
    found: tuple[PreemptionDecided, str] | None = None
    for step in steps:
        record = step.record
        if isinstance(record, PreemptionDecided) and uid_key(record.uid) == uid:
            decided = record
        elif isinstance(record, PodDecided) and record.outcome in FOUND_NODE:
            found = None if decided is None else (decided, record.node)
    if found is None:
        return None
    decided, landed = found
    if evictor_outcome(decided.node, landed, is_gone=False) != ELSEWHERE:
        return None
    names = evidence.names(decided.victims)
    victims = tuple(names.get(each, each) for each in decided.victims)
    return UnusedRoom(decided.node, victims, landed)


def explain_preemption(
    evidence: Evidence,
    position: int,
    decided: PreemptionDecided,
    later: Iterable[Any],
    detail: Detail | None,
) -> PreemptionExplanation:
    """What the log says about a preemption; ``later`` are the pod's steps after it, ``detail`` are
    its vectors, if they are there."""
    names = evidence.names(decided.victims)
    landed, landed_at, is_gone = "", -1, False
    for step in later:
        record = step.record
        if isinstance(record, PodDecided) and record.outcome in FOUND_NODE:
            landed, landed_at = record.node, step.position
            break
        is_gone = is_gone or isinstance(record, PodDeleted)
    return PreemptionExplanation(
        position,
        decided,
        tuple(names.get(uid, uid) for uid in decided.victims),
        tuple(_outcomes(evidence, position, decided)),
        () if detail is None else _compared(evidence, position, decided, detail),
        landed,
        landed_at,
        evictor_outcome(decided.node, landed, is_gone=is_gone),
    )


def _outcomes(evidence: Evidence, position: int, decided: PreemptionDecided) -> Iterable[str]:
    for uid in decided.victims:
        if uid in decided.leaving:
            yield "was being deleted already"
        elif uid in decided.sent_back:
            yield "its bind still waited: it was sent back"
        else:
            yield _outcome(evidence, position, uid)


def _outcome(evidence: Evidence, position: int, uid: str) -> str:
    """The outcome of an eviction up to the log's end."""
    outcome = "is asked to go"
    for pod in evidence.pods(uid):
        for stored in evidence.records(pod):
            if stored.position <= position:
                continue
            match stored.record:
                case records.EvictionFailed() as failed:
                    return f"was not evicted: {failed.message}"
                case records.PodDeleted():
                    return f"is gone (position {stored.position})"
                case records.EvictionSucceeded():
                    outcome = f"is being deleted (position {stored.position})"
    return outcome


def _compared(
    evidence: Evidence, position: int, decided: PreemptionDecided, detail: Detail
) -> tuple[ExplainedCandidate, ...]:
    """The chosen candidate and the next best."""
    assert isinstance(detail.codes, np.ndarray), "a whole record has all columns"
    rows = np.arange(detail.size)
    first, last = decided.first, decided.last
    inside = (rows >= first) & (rows <= last) if first <= last else (rows >= first) | (rows <= last)
    is_candidate = (detail.codes > 0) & (detail.codes != STORED_NO_NODE)
    rows = np.flatnonzero(inside & is_candidate)
    columns = [column[rows] for column in detail.scores if isinstance(column, np.ndarray)]
    counts = detail.codes[rows].astype(np.int64)
    violations, highest, total, start = columns[:_CRITERIA]
    late = np.where(start == 0, _NOT_STARTED, start)
    keys = (rows < first, -late, counts, total + _PER_VICTIM * counts, highest, violations)
    best = [place for place in np.lexsort(keys).tolist() if rows[place] != decided.row]
    chosen = np.flatnonzero(rows == decided.row).tolist()
    names = evidence.nodes(position)
    return tuple(
        ExplainedCandidate(
            names[rows[place]],
            bool(rows[place] == decided.row),
            _victims(evidence, [int(c[place]) for c in columns[_CRITERIA:]][: int(counts[place])]),
            int(violations[place]),
            int(highest[place]),
            int(total[place]),
            int(start[place]),
        )
        for place in (chosen + best)[:NODES_SHOWN]
    )


def _victims(evidence: Evidence, positions: Sequence[int]) -> tuple[str, ...]:
    stored = evidence.records_at(positions)
    names = []
    for position in positions:
        record = stored[position].record
        assert isinstance(record, records.PodAdded)
        names.append(record.pod.full_name)
    return tuple(names)
