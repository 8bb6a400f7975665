"""Merges repeated attempts in a pod's steps: those that ended in the same way become one line.

An attempt counts here with what followed from it, up to the next one. Attempts are alike if their
results are equal. What woke the pod may differ; it is counted.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from eventsched.domain import records
from eventsched.domain.records import MoveCause, PodDecided, PodQueued
from eventsched.history.explain.explanation import Step

_OWN = frozenset(
    {
        MoveCause.ATTEMPT_FAILED,
        MoveCause.BINDING_FAILED,
        MoveCause.PERMIT_DENIED,
        MoveCause.PARKED,
        MoveCause.BACKOFF_COMPLETE,
    }
)
"""Causes of moves after a failure that are due to the pod itself or to its backoff."""
ALIKE = 3
"""The least number of equal attempts in a row that are merged."""


@dataclass(frozen=True)
class RepeatedAttempts:
    """``count`` attempts that ended like the one before them: numbers ``first`` to ``last``, from
    ``begin`` to ``end`` (µs). ``position`` is that of the last decision; ``woken`` counts the
    causes that brought the pod back to each attempt."""

    first: int
    last: int
    count: int
    begin: int
    end: int
    position: int
    woken: tuple[tuple[str, int], ...]


def merge_repeated(steps: Sequence[Step]) -> list[Step | RepeatedAttempts]:
    """The steps in order. Of ALIKE or more equal attempts the first is complete, the others are one
    RepeatedAttempts."""
    attempts: list[list[Step]] = [[]]
    for step in steps:
        if isinstance(step.record, PodDecided):
            attempts.append([])
        attempts[-1].append(step)
    merged: list[Step | RepeatedAttempts] = [*attempts[0]]
    begin = 1
    while begin < len(attempts):
        end = begin + 1
        result = _result_of(attempts[begin])
        while result is not None and end < len(attempts) and _result_of(attempts[end]) == result:
            end += 1
        merged += attempts[begin]
        if end - begin >= ALIKE:
            merged.append(_merge(attempts[begin:end]))
            # The moves after the last one show what led to the next attempt, which ended otherwise.
            merged += [step for step in attempts[end - 1][1:] if isinstance(step.record, PodQueued)]
        else:
            merged += [step for steps in attempts[begin + 1 : end] for step in steps]
        begin = end
    return merged


def _merge(alike: Sequence[Sequence[Step]]) -> RepeatedAttempts:
    """All of these attempts but the first."""
    decided = [steps[0] for steps in alike[1:]]
    woken = Counter(_cause_of_return(steps) for steps in alike[:-1])
    first, last = decided[0].record, decided[-1].record
    assert isinstance(first, PodDecided)
    assert isinstance(last, PodDecided)
    return RepeatedAttempts(
        first.attempt, last.attempt, len(decided), decided[0].at, decided[-1].at,
        decided[-1].position, tuple(woken.most_common()),
    )  # fmt: skip


def _cause_of_return(steps: Sequence[Step]) -> str:
    """The cause of the pod's return after an attempt; a change counts before the end of its
    backoff."""
    moves = [step.record for step in steps if isinstance(step.record, PodQueued)]
    causes = [move.cause for move in moves if move.cause not in _OWN]
    return causes[0] if causes else moves[-1].cause if moves else ""


def _result_of(steps: Sequence[Step]) -> tuple[object, ...] | None:
    """The result of an attempt, for comparison; None if it has a record that must not be merged."""
    result: list[object] = []
    for step in steps:
        match step.record:
            case PodDecided() as decided:
                result.append((decided.outcome, decided.node, decided.plugin, decided.message))
            case records.PodUnreserved() as unreserved:
                result.append((unreserved.node, unreserved.plugin, unreserved.message))
            case records.PreparationIntended() as intended:
                result.append((intended.node, tuple(intended.writes)))
            case PodQueued():
                pass
            case _:
                return None
    return tuple(result)
