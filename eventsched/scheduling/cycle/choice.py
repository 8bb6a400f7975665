"""The choice of a node: the largest total; a draw decides ties (``domain/draw.py``)."""

from typing import NamedTuple

import numpy as np

from eventsched.domain.draw import draw
from eventsched.scheduling.cycle.cycle_keys import NOT_FEASIBLE, Totals
from eventsched.scheduling.cycle.judgement import Judgement
from eventsched.scheduling.framework import Cycle


class Choice(NamedTuple):
    """The chosen row and its total; ``ties`` is the number of rows with that total, ``draw`` the
    number that decided among them (0 if there was one), ``runner_up`` the next row (-1: none)."""

    row: int
    score: int
    ties: int
    draw: int
    runner_up: int
    runner_up_score: int


def choose(judgement: Judgement, cycle: Cycle) -> Choice:
    """The row with the largest total; the draw decides ties."""
    totals = judgement.totals
    first = int(totals.argmax())
    best = int(totals[first])
    equal = totals == best
    ties = int(np.count_nonzero(equal))
    if ties == 1:
        return Choice(first, best, 1, 0, *_runner_up(totals, first))
    number = draw(cycle.seed, judgement.pod.uid, cycle.attempt, "tie-break")
    rows = equal.nonzero()[0]
    picked = number % ties
    return Choice(int(rows[picked]), best, ties, number, int(rows[1 if picked == 0 else 0]), best)


def _runner_up(totals: Totals, first: int) -> tuple[int, int]:
    """The first row with the largest total besides row ``first``, and that total; (-1, 0) if no
    other row is feasible."""
    row, score = -1, NOT_FEASIBLE
    if first:
        row = int(totals[:first].argmax())
        score = int(totals[row])
    behind = totals[first + 1 :]
    if len(behind):
        offset = int(behind.argmax())
        if (other := int(behind[offset])) > score:
            row, score = first + 1 + offset, other
    return (row, score) if score >= 0 else (-1, 0)
