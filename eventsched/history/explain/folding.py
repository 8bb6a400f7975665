"""Folds repeated rounds in a pod's steps: rounds that ended in the same way become one line.

A round is an attempt and what followed from it, up to the next attempt. Rounds are alike if their
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
"""The number of equal consecutive rounds from which on they are folded; fewer are shown in full."""


@dataclass(frozen=True)
class FoldedRounds:
    """``rounds`` rounds that ended like the one before them: attempts ``first`` to ``last``, from
    ``begin`` to ``end`` (µs). ``position`` is that of the last decision; ``woken`` counts the
    causes that brought the pod back to each round."""

    first: int
    last: int
    rounds: int
    begin: int
    end: int
    position: int
    woken: tuple[tuple[str, int], ...]


def fold_rounds(steps: Sequence[Step]) -> list[Step | FoldedRounds]:
    """The steps in order. Of ALIKE or more equal rounds the first is complete, the others are one
    FoldedRounds."""
    rounds: list[list[Step]] = [[]]
    for step in steps:
        if isinstance(step.record, PodDecided):
            rounds.append([])
        rounds[-1].append(step)
    folded: list[Step | FoldedRounds] = [*rounds[0]]
    begin = 1
    while begin < len(rounds):
        end = begin + 1
        result = _result_of(rounds[begin])
        while result is not None and end < len(rounds) and _result_of(rounds[end]) == result:
            end += 1
        folded += rounds[begin]
        if end - begin >= ALIKE:
            folded.append(_fold(rounds[begin:end]))
            # The moves after the last round show what led to the next one, which ended differently.
            folded += [step for step in rounds[end - 1][1:] if isinstance(step.record, PodQueued)]
        else:
            folded += [step for steps in rounds[begin + 1 : end] for step in steps]
        begin = end
    return folded


def _fold(alike: Sequence[Sequence[Step]]) -> FoldedRounds:
    """All of these rounds but the first."""
    decided = [steps[0] for steps in alike[1:]]
    woken = Counter(_cause_of_return(steps) for steps in alike[:-1])
    first, last = decided[0].record, decided[-1].record
    assert isinstance(first, PodDecided)
    assert isinstance(last, PodDecided)
    return FoldedRounds(
        first.attempt, last.attempt, len(decided), decided[0].at, decided[-1].at,
        decided[-1].position, tuple(woken.most_common()),
    )  # fmt: skip


def _cause_of_return(steps: Sequence[Step]) -> str:
    """The cause of the pod's return after a round; a change counts before the end of its
    backoff."""
    moves = [step.record for step in steps if isinstance(step.record, PodQueued)]
    causes = [move.cause for move in moves if move.cause not in _OWN]
    return causes[0] if causes else moves[-1].cause if moves else ""


def _result_of(steps: Sequence[Step]) -> tuple[object, ...] | None:
    """The result of a round, for comparison; None if it has a record that must not be folded."""
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
