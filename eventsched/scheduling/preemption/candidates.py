"""The nodes that preemption tries, what it finds there, and which of them it takes.

Trials of pods of one class and priority are remembered by row, and made again only where something
has changed since. Upstream: framework/preemption/preemption.go DryRunPreemption,
pickOneNodeForPreemption.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from eventsched.domain.journal import Rows
from eventsched.domain.objects.registry import PodDisruptionBudget
from eventsched.scheduling.cycle.cycle_keys import KEY_PASSES
from eventsched.scheduling.cycle.dry_run import DryRun
from eventsched.scheduling.framework import PluginError
from eventsched.scheduling.preemption.disruption_budgets import Budgets
from eventsched.scheduling.preemption.victim_rules import BY_PRIORITY, VictimRule
from eventsched.scheduling.preemption.victims import NOBODY_LESS, NOW, Candidate, try_rows

STALE = -4
"""Outcome of a row that has to be tried (again)."""
TOGETHER = 16
"""Rows that are tried at a time if there are so many."""
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


class CandidateTable:
    """Trials by row: ``trials`` themselves, ``outcomes`` (int64[size], as Trial has them),
    ``criteria`` (int64[size, 5]; 0 where a row is no candidate) and ``stamps`` (int64[size]): which
    trial of the sheet it is, another number for each."""

    def __init__(self, rule: VictimRule = BY_PRIORITY) -> None:
        self.rule = rule
        self.trials: list[Candidate | None] = []
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

    def refresh(self, trials: DryRun) -> None:
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

    def look(self, trials: DryRun, rows: Rows, wanted: int) -> Window:
        """Tries rows in order until so many candidates are found, one of them without a broken
        budget. Raises PluginError."""
        budgets = Budgets(trials.cycle.registry)
        reach = 2 * max(wanted, 64)
        while True:
            part = rows[:reach]
            outcomes = self.outcomes[part]
            found, end = self._found(part, outcomes, wanted)
            stale = np.flatnonzero(outcomes[:end] == STALE)
            if len(stale):
                # A trial may end the search sooner: no more at once than might be needed.
                sure = int(np.searchsorted(found, stale[0]))
                needed = part[stale[: max(wanted - sure, 64)]]
                self._try_together(trials, needed, rows, budgets)
            elif end < reach or reach >= len(rows):
                break
            else:
                reach *= 4
        candidates = rows[found]
        broken = self.criteria[candidates, VIOLATIONS] > 0
        if np.count_nonzero(broken):
            candidates = np.concatenate([candidates[~broken], candidates[broken][:wanted]])
        return Window(rows[:end], candidates)

    def _found(self, rows: Rows, outcomes: NDArray[np.int64], wanted: int) -> tuple[Rows, int]:
        """The positions in ``rows`` of the candidates before the end of the search, as far as is
        known, and that end."""
        found = np.flatnonzero(outcomes == KEY_PASSES)
        wanted = max(wanted, 1)
        if len(found) < wanted:
            return found, len(rows)
        clean = self.criteria[rows[found], VIOLATIONS] == 0
        number = max(wanted, int(clean.argmax()) + 1)
        if not clean[:number].any():
            return found, len(rows)
        return found[:number], int(found[number - 1]) + 1

    def best(self, candidates: Rows) -> tuple[int, str]:
        """The row to take, of at least one, and the criterion that left it alone."""
        left = candidates
        if len(left) == 1:
            return int(left[0]), ONLY
        criteria = self.criteria[left]
        for place, name in enumerate(CRITERIA):
            values = criteria[:, place]
            if place == TOTAL:
                values = values + _STEP * criteria[:, NUMBER]
            elif place == START:
                values = -np.where(values == 0, NOW, values)
            least = values == values.min()
            if np.count_nonzero(least) == len(left):
                continue
            left, criteria = left[least], criteria[least]
            if len(left) == 1:
                return int(left[0]), name
        return int(left[0]), FIRST

    def _try_together(self, trials: DryRun, needed: Rows, rows: Rows, budgets: Budgets) -> None:
        """Tries the rows needed now. Where these are few, others of ``rows`` go with them: many
        cost little more than one, and pods of the same kind will ask. Raises PluginError, for what
        fails on a row that is needed."""
        if trials.repeatable and len(needed) < TOGETHER:
            stale = rows[self.outcomes[rows] == STALE]
            others = stale[~np.isin(stale, needed)][: TOGETHER - len(needed)]
            try:
                self._try(trials, np.concatenate([needed, others]), budgets)
                return
            except PluginError:
                pass  # perhaps not on one of those that matter
        self._try(trials, needed, budgets)

    def _try(self, trials: DryRun, rows: Rows, budgets: Budgets) -> None:
        if not len(rows):
            return
        self.stamps[rows] = np.arange(self._made + 1, self._made + 1 + len(rows))
        self._made += len(rows)
        self.criteria[rows] = 0
        inside = self.rule.narrowed(rows)
        if inside is not None:
            self.outcomes[rows[~inside]] = NOBODY_LESS
            rows = rows[inside]
        found = try_rows(trials, rows, budgets, self.rule)
        for row, trial in zip(rows.tolist(), found, strict=True):
            self.trials[row] = trial
            self.outcomes[row] = trial.outcome
            if trial.victims:
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


def sheet_of(trials: DryRun, rule: VictimRule = BY_PRIORITY) -> CandidateTable:
    """The sheet for a pod: that of its class and priority where their trials may be remembered, up
    to date; else one of its own."""
    sheet = CandidateTable(rule)
    if trials.repeatable and rule.remembered:
        kept = trials.memory()
        sheet = kept.sheet = kept.sheet or sheet
    sheet.refresh(trials)
    return sheet
