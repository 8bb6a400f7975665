"""The vectors of a decision's best nodes, which are stored instead of those of all nodes."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from eventsched.domain.journal import Rows
from eventsched.domain.records.verdicts import (
    STORED_NO_NODE,
    STORED_PASSES,
    Codes,
    DeltaPart,
    Detail,
)
from eventsched.scheduling.cycle.cycle_keys import Totals
from eventsched.scheduling.cycle.judgement import Judgement

EXAMPLES = 3
"""Nodes that are kept for each refusal."""


def best_nodes(judgement: Judgement, codes: Codes, chosen: int, nodes: int) -> Detail:
    """The partial detail of a decision: the scores of the ``chosen`` row (-1: none) and of the best
    others, ``nodes`` in all; and for each refusal the first rows that have it. ``codes`` are those
    of all rows."""
    scores = judgement.scores if judgement.feasible else []
    best = _best_rows(judgement.totals, judgement.feasible, chosen, nodes)
    kept_codes = np.full(len(codes), STORED_NO_NODE, dtype=np.uint16)
    kept_codes[best] = STORED_PASSES
    examples = _first_of_each(codes)
    kept_codes[examples] = codes[examples]
    listed = best.astype(np.int32)

    def kept(column: NDArray[Any]) -> DeltaPart:
        return DeltaPart(listed, column[best])

    own = [None if scored.normalized is None else kept(scored.normalized) for scored in scores]
    return Detail(
        len(codes),
        None,
        kept_codes,
        tuple(kept(scored.raw) for scored in scores),
        tuple(own) if any(column is not None for column in own) else (),
        is_partial=True,
    )


def _best_rows(totals: Totals, feasible: int, chosen: int, nodes: int) -> Rows:
    """``nodes`` feasible rows, ascending: the chosen one and those with the largest totals, the
    first of equals."""
    number = min(nodes, feasible)
    if not number:
        return np.zeros(0, dtype=np.intp)
    if chosen >= 0:
        totals = totals.copy()
        totals[chosen] = np.iinfo(np.int64).max
    least = np.partition(totals, len(totals) - number)[len(totals) - number]
    better = np.flatnonzero(totals > least)
    equal = np.flatnonzero(totals == least)[: number - len(better)]
    return np.sort(np.concatenate([better, equal]))


def _first_of_each(codes: Codes) -> Rows:
    """The first rows of each refusal."""
    refused = np.flatnonzero((codes != STORED_PASSES) & (codes != STORED_NO_NODE))
    order = refused[np.argsort(codes[refused], kind="stable")]
    first = np.unique(codes[order], return_index=True)[1]
    lengths = np.diff(np.append(first, len(order)))
    place = np.arange(len(order)) - np.repeat(first, lengths)
    return order[place < EXAMPLES]
