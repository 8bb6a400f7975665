"""The nodes that preemption tries, what it finds there, and which of them it takes.

Trials of pods of one class and priority are remembered by row, and made again only where something
has changed since. Upstream: framework/preemption/preemption.go DryRunPreemption,
pickOneNodeForPreemption.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from eventsched.domain.journal import Rows
from eventsched.domain.registry import PodDisruptionBudget
from eventsched.scheduling.budgets import Budgets
from eventsched.scheduling.classes import PASSES
from eventsched.scheduling.trials import Trials
from eventsched.scheduling.victims import NOW, Trial, try_rows

STALE = -4
"""Outcome of a row that has to be tried (again)."""
_STEP = 2**31
"""What each victim adds to the sum of priorities, so that fewer are better (upstream:
math.MaxInt32+1)."""

VIOLATIONS, HIGHEST, TOTAL, NUMBER, START = range(5)
CRITERIA = ("violations", "highest", "total", "number", "start")
"""What candidates are compared by, in this order; the latest start is best, of all others the
least."""
ONLY, FIRST = "only", "first"
"""Criteria of a node that was the only candidate, or the first of several that are alike."""


class Window(NamedTuple):
    """The rows that were tried, in order, and the candidates among them, in order: those without a
    broken budget first."""

    tried: Rows
    candidates: Rows


class Sheet:
    """Trials by row: ``trials`` themselves, ``outcomes`` (int64[size], as Trial has them),
    ``criteria`` (int64[size, 5]; 0 where a row is no candidate) and ``stamps`` (int64[size]): which
    trial of the sheet it is, another number for each."""

    def __init__(self) -> None:
        self.trials: list[Trial | None] = []
        self.outcomes: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self.criteria: NDArray[np.int64] = np.zeros((0, 5), dtype=np.int64)
        self.stamps: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self._made = 0
        self._cursors = (-1, -1, -1)
        self._budgets: tuple[int, ...] = ()

    @property
    def bytes(self) -> int:
        """Memory held, roughly."""
        return len(self.trials) * 400

    def refresh(self, trials: Trials) -> None:
        """Drops what may have changed since the last time."""
        table = trials.table
        journals = (table.node_journal, table.usage_journal, trials.preemptions.journal)
        changed = [
            journal.since(cursor) if cursor >= 0 else None
            for journal, cursor in zip(journals, self._cursors, strict=True)
        ]
        budgets = trials.cycle.registry.version(PodDisruptionBudget)
        self._grow(table.size)
        if budgets != self._budgets or any(rows is None for rows in changed):
            self.outcomes[:] = STALE
        else:
            for rows in changed:
                if rows is not None:
                    self.outcomes[rows[rows >= 0]] = STALE
        self._budgets = budgets
        self._cursors = (journals[0].end, journals[1].end, journals[2].end)

    def spoil(self, row: int) -> None:
        """Drops one row's trial."""
        self.outcomes[row] = STALE

    def look(self, trials: Trials, rows: Rows, wanted: int) -> Window:
        """Tries rows in order until so many candidates are found, one of them without a broken
        budget. Raises PluginError."""
        budgets = Budgets(trials.cycle.registry)
        at, found, clean = 0, 0, False
        parts: list[Rows] = []
        while at < len(rows):
            part = rows[at : at + max(wanted - found, 64)]
            self._try(trials, part[self.outcomes[part] == STALE], budgets)
            fits = self.outcomes[part] == PASSES
            numbers = found + np.cumsum(fits)
            cleans = np.logical_or.accumulate(fits & (self.criteria[part, VIOLATIONS] == 0)) | clean
            enough = cleans & (numbers >= wanted)
            if enough.any():
                parts.append(part[: int(enough.argmax()) + 1])
                break
            parts.append(part)
            at, found, clean = at + len(part), int(numbers[-1]), bool(cleans[-1])
        tried = np.concatenate(parts)
        candidates = tried[self.outcomes[tried] == PASSES]
        broken = self.criteria[candidates, VIOLATIONS] > 0
        ordered = np.concatenate([candidates[~broken], candidates[broken][:wanted]])
        return Window(tried, ordered)

    def best(self, candidates: Rows) -> tuple[int, str]:
        """The row to take, of at least one, and the criterion that left it alone."""
        left = candidates
        if len(left) == 1:
            return int(left[0]), ONLY
        for place, name in enumerate(CRITERIA):
            values = self.criteria[left, place]
            if place == TOTAL:
                values = values + _STEP * self.criteria[left, NUMBER]
            elif place == START:
                values = -np.where(values == 0, NOW, values)
            left = left[values == values.min()]
            if len(left) == 1:
                return int(left[0]), name
        return int(left[0]), FIRST

    def _try(self, trials: Trials, rows: Rows, budgets: Budgets) -> None:
        if not len(rows):
            return
        self.stamps[rows] = np.arange(self._made + 1, self._made + 1 + len(rows))
        self._made += len(rows)
        for row, trial in zip(rows.tolist(), try_rows(trials, rows, budgets), strict=True):
            self.trials[row] = trial
            self.outcomes[row] = trial.outcome
            self.criteria[row] = (
                trial.violations, trial.highest, trial.total, len(trial.victims), trial.start
            )  # fmt: skip

    def _grow(self, size: int) -> None:
        more = size - len(self.trials)
        if more:
            self.trials += [None] * more
            self.outcomes = np.pad(self.outcomes, (0, more), constant_values=STALE)
            self.stamps = np.pad(self.stamps, (0, more))
            self.criteria = np.pad(self.criteria, ((0, more), (0, 0)))


def sheet_of(trials: Trials) -> Sheet:
    """The sheet for a pod: that of its class and priority where their trials may be remembered, up
    to date; else one of its own."""
    sheet = Sheet()
    if trials.repeatable:
        kept = trials.memory()
        sheet = kept.sheet = kept.sheet or sheet
    sheet.refresh(trials)
    return sheet
