"""A pod's steps with repetition folded: rounds that ended in the same way become one line.

A round is an attempt with what followed from it, up to the next attempt. Rounds are alike if they
said the same; how the pod was woken may differ, and is counted.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from eventsched.domain import records
from eventsched.domain.records import PodDecided, PodQueued
from eventsched.history.explain.explanation import Step

_OWN = frozenset({"AttemptFailed", "BindingFailed", "PermitDenied", "Parked", "BackoffComplete"})
"""Causes of moves after a failure that lie with the pod itself or with its backoff."""
ALIKE = 3
"""Rounds in a row that are folded; fewer are shown in full."""


@dataclass(frozen=True)
class FoldedRounds:
    """Rounds that ended as the one before them did: attempts ``first`` to ``last``, from ``begin``
    to ``end`` (µs), ``position`` of the last one's decision; ``woken`` counts by cause what brought
    the pod back to each of them."""

    first: int
    last: int
    rounds: int
    begin: int
    end: int
    position: int
    woken: tuple[tuple[str, int], ...]


def fold_rounds(steps: Sequence[Step]) -> list[Step | FoldedRounds]:
    """The steps in order; of ALIKE and more rounds that are alike the first in full, and the rest
    as one."""
    rounds: list[list[Step]] = [[]]
    for step in steps:
        if isinstance(step.record, PodDecided):
            rounds.append([])
        rounds[-1].append(step)
    found: list[Step | FoldedRounds] = [*rounds[0]]
    at = 1
    while at < len(rounds):
        end = at + 1
        key = _key(rounds[at])
        while key is not None and end < len(rounds) and _key(rounds[end]) == key:
            end += 1
        found += rounds[at]
        if end - at >= ALIKE:
            found.append(_fold(rounds[at:end]))
            # What came of the last one shows what brought the pod to the next, different end.
            found += [step for step in rounds[end - 1][1:] if isinstance(step.record, PodQueued)]
        else:
            found += [step for each in rounds[at + 1 : end] for step in each]
        at = end
    return found


def _fold(alike: Sequence[Sequence[Step]]) -> FoldedRounds:
    """All but the first of these."""
    decided = [each[0] for each in alike[1:]]
    woken = Counter(_woken(each) for each in alike[:-1])
    first, last = decided[0].record, decided[-1].record
    assert isinstance(first, PodDecided)
    assert isinstance(last, PodDecided)
    return FoldedRounds(
        first.attempt, last.attempt, len(decided), decided[0].at, decided[-1].at,
        decided[-1].position, tuple(woken.most_common()),
    )  # fmt: skip


def _woken(steps: Sequence[Step]) -> str:
    """What brought the pod back after a round: a change rather than the end of its backoff."""
    moves = [step.record for step in steps if isinstance(step.record, PodQueued)]
    causes = [move.cause for move in moves if move.cause not in _OWN]
    return causes[0] if causes else moves[-1].cause if moves else ""


def _key(steps: Sequence[Step]) -> tuple[object, ...] | None:
    """What a round said; None if there is something in it that is to be shown in any case."""
    said: list[object] = []
    for step in steps:
        match step.record:
            case PodDecided() as decided:
                said.append((decided.outcome, decided.node, decided.plugin, decided.message))
            case records.PodUnreserved() as ended:
                said.append((ended.node, ended.plugin, ended.message))
            case records.PreparationIntended() as asked:
                said.append((asked.node, tuple(asked.writes)))
            case PodQueued():
                pass
            case _:
                return None
    return tuple(said)
