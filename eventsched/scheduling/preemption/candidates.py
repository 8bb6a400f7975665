"""The nodes that preemption tries, the outcome of each, and the choice among the candidates.

Outcomes are cached by row for pods of one class and priority, so only changed rows are tried again.
Upstream: framework/preemption/preemption.go DryRunPreemption, pickOneNodeForPreemption.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from eventsched.domain.journal import Rows
from eventsched.domain.objects.registry import PodDisruptionBudget
from eventsched.scheduling.cycle.cycle_keys import KEY_PASSES
from eventsched.scheduling.cycle.dry_run import DryRun
from eventsched.scheduling.framework import PluginError
from eventsched.scheduling.preemption.disruption_budgets import DisruptionBudgets
from eventsched.scheduling.preemption.victim_rules import BY_PRIORITY, VictimRule
from eventsched.scheduling.preemption.victims import (
    NOT_STARTED,
    NOTHING_REMOVABLE,
    Candidate,
    try_rows,
)

NOT_TRIED = -4
"""Outcome of a row that was not tried yet, or has changed since."""
MIN_TRIED_TOGETHER = 16
"""The least number of rows to try in one dry run, if there are that many stale rows."""
PER_VICTIM = 2**31
"""The weight of one victim in the sum of priorities: fewer victims are better (upstream:
math.MaxInt32+1)."""

VIOLATIONS, HIGHEST_PRIORITY, PRIORITY_SUM, VICTIM_COUNT, START = range(5)
CRITERIA = ("violations", "highest", "total", "number", "start")
"""The criteria, in order. The latest start is best; for the others, the smallest value."""
ONLY, FIRST = "only", "first"
"""The criterion if there is one candidate, and if the first of several equal ones was chosen."""


class Window(NamedTuple):
    """The rows that were tried, in order, and the candidates among them: those that break no budget
    come first."""

    tried: Rows
    candidates: Rows


class CandidateTable:
    """Outcomes by row: ``by_row`` holds the Candidates, ``outcomes`` (int64[size]) their outcomes,
    ``criteria`` (int64[size, 5]) is 0 for rows that are not candidates, and ``stamps``
    (int64[size]) gets a new number each time a row is tried."""

    def __init__(self, rule: VictimRule = BY_PRIORITY) -> None:
        self.rule = rule
        self.by_row: list[Candidate | None] = []
        self.outcomes: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self.criteria: NDArray[np.int64] = np.zeros((0, 5), dtype=np.int64)
        self.stamps: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self._made = 0
        self._cursors = (-1, -1, -1)
        self._budgets: tuple[int, ...] = ()

    @property
    def bytes(self) -> int:
        """Approximate memory."""
        return len(self.by_row) * 400

    def refresh(self, dry_run: DryRun) -> None:
        """Marks rows that have changed since the last call as stale."""
        table = dry_run.table
        journals = (table.node_journal, table.usage_journal, dry_run.preemptions.journal)
        changed = [
            journal.since(cursor) if cursor >= 0 else None
            for journal, cursor in zip(journals, self._cursors, strict=True)
        ]
        budgets = dry_run.cycle.registry.version(PodDisruptionBudget)
        self._grow(table.size)
        if budgets != self._budgets or any(rows is None for rows in changed):
            self.outcomes[:] = NOT_TRIED
        else:
            for rows in changed:
                if rows is not None:
                    self.outcomes[rows[rows >= 0]] = NOT_TRIED
        self._budgets = budgets
        self._cursors = (journals[0].end, journals[1].end, journals[2].end)

    def mark_stale(self, row: int) -> None:
        """Marks a row as stale."""
        self.outcomes[row] = NOT_TRIED

    def search(self, dry_run: DryRun, rows: Rows, wanted: int) -> Window:
        """Tries rows in order until ``wanted`` candidates are found, at least one of which breaks
        no budget. Raises PluginError."""
        budgets = DisruptionBudgets(dry_run.cycle.registry)
        reach = 2 * max(wanted, 64)
        while True:
            part = rows[:reach]
            outcomes = self.outcomes[part]
            positions, end = self._known_candidates(part, outcomes, wanted)
            stale = np.flatnonzero(outcomes[:end] == NOT_TRIED)
            if len(stale):
                # A new candidate may end the search, so try no more rows than may be needed.
                certain = int(np.searchsorted(positions, stale[0]))
                needed = part[stale[: max(wanted - certain, 64)]]
                self._try_together(dry_run, needed, rows, budgets)
            elif end < reach or reach >= len(rows):
                break
            else:
                reach *= 4
        candidates = rows[positions]
        broken = self.criteria[candidates, VIOLATIONS] > 0
        if np.count_nonzero(broken):
            candidates = np.concatenate([candidates[~broken], candidates[broken][:wanted]])
        return Window(rows[:end], candidates)

    def _known_candidates(
        self, rows: Rows, outcomes: NDArray[np.int64], wanted: int
    ) -> tuple[Rows, int]:
        """The positions in ``rows`` of the known candidates before the end of the search, and that
        end."""
        positions = np.flatnonzero(outcomes == KEY_PASSES)
        wanted = max(wanted, 1)
        if len(positions) < wanted:
            return positions, len(rows)
        breaks_no_budget = self.criteria[rows[positions], VIOLATIONS] == 0
        number = max(wanted, int(breaks_no_budget.argmax()) + 1)
        if not breaks_no_budget[:number].any():
            return positions, len(rows)
        return positions[:number], int(positions[number - 1]) + 1

    def best(self, candidates: Rows) -> tuple[int, str]:
        """The best of one or more rows, and the criterion that decided."""
        left = candidates
        if len(left) == 1:
            return int(left[0]), ONLY
        criteria = self.criteria[left]
        for place, name in enumerate(CRITERIA):
            values = criteria[:, place]
            if place == PRIORITY_SUM:
                values = values + PER_VICTIM * criteria[:, VICTIM_COUNT]
            elif place == START:
                values = -np.where(values == 0, NOT_STARTED, values)
            least = values == values.min()
            if np.count_nonzero(least) == len(left):
                continue
            left, criteria = left[least], criteria[least]
            if len(left) == 1:
                return int(left[0]), name
        return int(left[0]), FIRST

    def _try_together(
        self, dry_run: DryRun, needed: Rows, rows: Rows, budgets: DisruptionBudgets
    ) -> None:
        """Tries the rows needed now. If they are few, other stale ``rows`` are tried with them:
        many rows cost little more than one, and the next pod of the class will need them. Raises
        PluginError, but only for a needed row."""
        if dry_run.repeatable and len(needed) < MIN_TRIED_TOGETHER:
            stale = rows[self.outcomes[rows] == NOT_TRIED]
            others = stale[~np.isin(stale, needed)][: MIN_TRIED_TOGETHER - len(needed)]
            try:
                self._try(dry_run, np.concatenate([needed, others]), budgets)
                return
            except PluginError:
                pass  # it may have failed on a row that is not needed
        self._try(dry_run, needed, budgets)

    def _try(self, dry_run: DryRun, rows: Rows, budgets: DisruptionBudgets) -> None:
        if not len(rows):
            return
        self.stamps[rows] = np.arange(self._made + 1, self._made + 1 + len(rows))
        self._made += len(rows)
        self.criteria[rows] = 0
        inside = self.rule.rows_with_removable_pods(rows)
        if inside is not None:
            self.outcomes[rows[~inside]] = NOTHING_REMOVABLE
            rows = rows[inside]
        candidates = try_rows(dry_run, rows, budgets, self.rule)
        for row, candidate in zip(rows.tolist(), candidates, strict=True):
            self.by_row[row] = candidate
            self.outcomes[row] = candidate.outcome
            if candidate.victims:
                self.criteria[row] = candidate.criteria

    def _grow(self, size: int) -> None:
        more = size - len(self.by_row)
        if more:
            self.by_row += [None] * more
            self.outcomes = np.pad(self.outcomes, (0, more), constant_values=NOT_TRIED)
            self.stamps = np.pad(self.stamps, (0, more))
            self.criteria = np.pad(self.criteria, ((0, more), (0, 0)))


def candidate_table_of(dry_run: DryRun, rule: VictimRule = BY_PRIORITY) -> CandidateTable:
    """The refreshed table for a pod: the one of its class and priority if outcomes may be shared,
    otherwise a new one."""
    candidate_table = CandidateTable(rule)
    if dry_run.repeatable and rule.remembered:
        cache = dry_run.cache()
        candidate_table = cache.candidate_table = cache.candidate_table or candidate_table
    candidate_table.refresh(dry_run)
    return candidate_table
