"""Which node: the largest total, and among equals the draw (``domain/draw.py``)."""

from typing import NamedTuple

import numpy as np

from eventsched.domain.draw import draw
from eventsched.scheduling.cycle.cycle_keys import NOT_FEASIBLE
from eventsched.scheduling.cycle.judgement import Judgement
from eventsched.scheduling.framework import Cycle


class Choice(NamedTuple):
    """The node chosen: its row and total, how many had the same total, the draw that decided among
    them (0 where there was nothing to decide), and the row that came next (-1: none)."""

    row: int
    score: int
    ties: int
    draw: int
    runner_up: int
    runner_up_score: int


def choose(judgement: Judgement, cycle: Cycle) -> Choice:
    """The node with the largest total; among equals the draw decides."""
    totals = judgement.totals
    first = int(totals.argmax())
    best = int(totals[first])
    equal = totals == best
    ties = int(np.count_nonzero(equal))
    if ties == 1:
        totals[first] = NOT_FEASIBLE
        second = int(totals.argmax())
        second_score = int(totals[second])
        totals[first] = best
        if second_score < 0:
            second, second_score = -1, 0
        return Choice(first, best, 1, 0, second, second_score)
    number = draw(cycle.seed, judgement.pod.uid, cycle.attempt, "tie-break")
    rows = equal.nonzero()[0]
    picked = number % ties
    return Choice(int(rows[picked]), best, ties, number, int(rows[1 if picked == 0 else 0]), best)
