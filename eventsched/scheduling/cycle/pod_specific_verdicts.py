"""Verdicts that are not part of a pod's equivalence class: node sets from PreFilter, plugins that
run for every pod, nominated pods, the early end of a search, and the scores of the nodes that
remain.

Works on columns over the rows concerned; reads the class's columns and never changes them.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from eventsched.domain.journal import Rows
from eventsched.domain.nodes.node_table import NodeTable
from eventsched.domain.nodes.node_views import NodeView
from eventsched.domain.objects import Pod
from eventsched.domain.records.verdicts import Normalization, ScoreColumn, normalized, parameters_of
from eventsched.scheduling.cycle.cycle_keys import (
    CODES_A_FILTER,
    KEY_EXCLUDED,
    KEY_NO_NODE,
    KEY_NOT_EVALUATED,
    KEY_PASSES,
    NOT_FEASIBLE,
    CycleKey,
    Keys,
    Totals,
)
from eventsched.scheduling.cycle.equivalence import EquivalenceClass
from eventsched.scheduling.cycle.prefilter import NodeSets, skips_score
from eventsched.scheduling.framework import Cycle, IntColumn, PluginError
from eventsched.scheduling.framework.profile import Filter, Profile, Score

MIN_FEASIBLE_NODES = 100
"""The smallest number of feasible nodes at which a search may stop (upstream:
minFeasibleNodesToFind)."""

Int64s = NDArray[np.int64]


class Scored(NamedTuple):
    """One plugin's scores: ``raw`` over all rows (0 where not feasible); ``normalized``: the
    same after the plugin's own NormalizeScore, None if it has none."""

    column: ScoreColumn
    raw: NDArray[Any]
    normalized: Int64s | None = None


def weighted(scored: Scored, rows: Rows) -> Int64s:
    """int64[n]: the plugin's part of the totals of feasible rows."""
    if scored.normalized is not None:
        return scored.normalized[rows] * scored.column.weight
    return normalized(scored.column, scored.raw[rows]) * scored.column.weight


class PodSpecificVerdicts:
    """One pod's verdicts and scores. ``keys`` and ``counts`` are those of the class until a row is
    refused for this pod alone; then they are copies."""

    def __init__(
        self,
        table: NodeTable,
        profile: Profile,
        pod: Pod,
        cycle: Cycle,
        equivalence_class: EquivalenceClass,
    ) -> None:
        self._table, self._profile, self._pod, self._cycle = table, profile, pod, cycle
        self._class = equivalence_class
        self.keys: Keys = equivalence_class.keys
        self.counts: dict[CycleKey, int] = equivalence_class.counts
        self.uncached_scores: list[Score] = []
        self._raw: dict[str, Int64s] = {}
        self._normalized: dict[str, Int64s] = {}
        self._rows: Rows | None = None

    @property
    def refused_more(self) -> bool:
        """Whether the keys differ from the class's."""
        return self.keys is not self._class.keys

    @property
    def feasible(self) -> Rows:
        """The rows that all filters let pass, ascending."""
        if not self.refused_more:
            return self._class.rows
        if self._rows is None:
            self._rows = np.flatnonzero(self.keys == KEY_PASSES)
        return self._rows

    # --- verdicts -------------------------------------------------------------------------

    def narrow(self, narrowed: NodeSets) -> None:
        """Excludes the nodes that PreFilter did not name."""
        if not narrowed:
            return
        names = frozenset.intersection(*(wanted for _, wanted in narrowed))
        inside = np.zeros(self._table.size, dtype=bool)
        inside[[self._table.rows[name] for name in names if name in self._table.rows]] = True
        keys = self._private_keys()
        keys[~inside & (keys != KEY_NO_NODE)] = KEY_EXCLUDED
        self.counts = counted(keys)

    def filter(self, filters: list[Filter]) -> None:
        """Runs filters on the rows that no earlier filter refused, as upstream does. Raises
        PluginError."""
        for plugin in filters:
            first = plugin.position * CODES_A_FILTER
            asked = self.keys >= first + CODES_A_FILTER
            if KEY_EXCLUDED in self.counts:
                asked &= self.keys != KEY_EXCLUDED
            rows = None if asked.all() else np.flatnonzero(asked)
            if rows is not None and not len(rows):
                continue
            codes = plugin(self._cycle, self._pod, NodeView(self._table, rows))
            if codes is None:
                continue
            if np.count_nonzero(codes):
                self._refuse(rows, codes, first)

    def refuse_for_nominated(self, rows: Rows, refused: Keys) -> None:
        """Refuses rows that have no room for the pod besides their nominated pods."""
        if not len(rows):
            return
        before = self.keys[rows]
        other = (refused != before) & (before != KEY_NO_NODE) & (before != KEY_EXCLUDED)
        if np.count_nonzero(other):
            keys = self._private_keys()
            keys[rows[other]] = refused[other]
            self.counts = recounted(self.counts, before[other], refused[other])

    def refuse(self, rows: Rows, codes: IntColumn, first: int) -> None:
        """Refuses feasible rows (ascending) whose code is not 0, with the keys from ``first``
        on."""
        if np.count_nonzero(codes):
            self._refuse(rows, codes, first)

    def stop_early(self, percentage: int, start: int, nominated: str = "") -> None:
        """Ends the search after upstream's number of feasible nodes, counted from the ``start``-th
        node on (schedule_one.go numFeasibleNodesToFind, findNodesThatPassFilters); the pod's
        nominated node is evaluated in any case. 0 per cent means all nodes here; upstream it means
        a number that depends on the size of the cluster (docs/conformance.md)."""
        if not 0 < percentage < 100:
            return
        nodes = np.flatnonzero((self.keys != KEY_NO_NODE) & (self.keys != KEY_EXCLUDED))
        if len(nodes) < MIN_FEASIBLE_NODES:
            return
        enough = max(MIN_FEASIBLE_NODES, len(nodes) * percentage // 100)
        order = np.roll(nodes, -(start % len(nodes)))
        feasible_so_far = np.cumsum(self.keys[order] == KEY_PASSES)
        if feasible_so_far[-1] <= enough:
            return
        keys = self._private_keys()
        # The search ends at the first feasible node beyond the number it needs.
        nominated_row = self._table.rows.get(nominated, -1)
        nominated_key = keys[nominated_row]
        keys[order[int(np.searchsorted(feasible_so_far, enough + 1)) :]] = KEY_NOT_EVALUATED
        if nominated_row >= 0:
            keys[nominated_row] = nominated_key
        self.counts = counted(keys)

    def _private_keys(self) -> Keys:
        if not self.refused_more:
            self.keys, self.counts = self.keys.copy(), dict(self.counts)
        self._rows = None
        return self.keys

    def _refuse(self, rows: Rows | None, codes: IntColumn, first: int) -> None:
        """Applies a filter's codes to rows, or to all rows."""
        keys = self._private_keys()
        mine = keys if rows is None else keys[rows]
        refused = codes != 0
        number, highest = int(np.count_nonzero(refused)), int(codes.max())
        if int(np.count_nonzero(codes == highest)) == number:
            numbers = {highest: number}
            np.putmask(mine, refused, np.int32(first + highest))
        else:
            numbers = {code: n for code, n in enumerate(np.bincount(codes).tolist()) if code and n}
            np.putmask(mine, refused, (codes + first).astype(np.int32))
        if rows is not None:
            keys[rows] = mine
        if self.counts.keys() - {KEY_PASSES, KEY_NO_NODE}:
            self.counts = counted(keys)
            return
        self.counts[KEY_PASSES] = len(codes) - number
        if number == len(codes):
            del self.counts[KEY_PASSES]
        self.counts |= {CycleKey(first + code): n for code, n in numbers.items()}

    # --- scores ---------------------------------------------------------------------------

    def pre_score(self) -> PluginError | None:
        """Runs PreScore and selects the scores to compute; returns PreScore's error."""
        uncached = self._class.uncached_scores
        if KEY_PASSES not in self.counts:
            return None
        if self._class.score_problem is not None or not uncached:
            return self._class.score_problem
        view = NodeView(self._table, self.feasible)
        try:
            skipped = {
                plugin.name
                for plugin in self._class.uncached_pre_scores
                if skips_score(plugin, self._cycle, self._pod, view)
            }
        except PluginError as problem:
            return problem
        self.uncached_scores = [score for score in uncached if score.name not in skipped]
        return None

    def ask_scores(self) -> None:
        """Computes these scores, and refuses nodes with a score out of range. Raises
        PluginError."""
        if not self.uncached_scores:
            return
        rows = self.feasible
        if not len(rows):
            return
        view = NodeView(self._table, None if len(rows) == self._table.size else rows)
        refused: Keys | None = None
        for score in self.uncached_scores:
            self._raw[score.name], outliers = score(self._cycle, self._pod, view)
            if outliers is not None:
                refused = _refused_too(refused, outliers, score)
        self._drop(view.rows, refused)
        for score in self.uncached_scores:
            if score.normalization is Normalization.OWN and len(self.feasible):
                raw = self._raw[score.name]
                self._normalized[score.name], outliers = score.normalize(
                    self._cycle, self._pod, raw
                )
                if outliers is not None:
                    self._drop(self.feasible, _refused_too(None, outliers, score))

    def _drop(self, rows: Rows, refused: Keys | None) -> None:
        """Removes the rows whose new key is not KEY_PASSES from the feasible rows and scores."""
        if refused is None:
            return
        stays = refused == KEY_PASSES
        keys = self._private_keys()
        keys[rows[~stays]] = refused[~stays]
        self.counts = counted(keys)
        for columns in (self._raw, self._normalized):
            for name in columns:
                columns[name] = columns[name][stays]

    def scored(self) -> tuple[list[Scored], Totals]:
        """The scores, in the profile's order, and int64[size] totals."""
        rows, size = self.feasible, self._table.size
        if not len(rows):
            return [], np.full(size, NOT_FEASIBLE, dtype=np.int64)
        totals = self._class.totals.copy()
        by_plugin = {scored.column.plugin: scored for scored in self._cached(totals)}
        for score in self.uncached_scores:
            by_plugin[score.name] = self._late(score, rows, totals)
        if self.refused_more:
            np.putmask(totals, self.keys != KEY_PASSES, NOT_FEASIBLE)
        order = (score.name for score in self._profile.scores)
        return [by_plugin[name] for name in order if name in by_plugin], totals

    def _cached(self, totals: Totals) -> list[Scored]:
        """The class's scores on feasible rows. Fewer feasible nodes can mean another largest score;
        the totals are then corrected."""
        if not self.refused_more:
            return [Scored(cache.column, cache.raw) for cache in self._class.caches]
        feasible = self.keys == KEY_PASSES
        cached = []
        for cache in self._class.caches:
            if cache.column.parameters == (0,):
                cached.append(Scored(cache.column, cache.raw))  # zeros everywhere
                continue
            raw = cache.raw * feasible
            column = cache.score.column(parameters_of(cache.score.normalization, raw))
            if column.parameters != cache.column.parameters:
                more = normalized(column, raw) - normalized(cache.column, cache.raw)
                totals += more * column.weight
            cached.append(Scored(column, raw))
        return cached

    def _late(self, score: Score, rows: Rows, totals: Totals) -> Scored:
        """The scores of a plugin that was asked for this pod; adds them to the totals."""
        answers = self._raw[score.name]
        if score.normalization is Normalization.RATIO:
            # Only distances count: a shift of all nodes changes nothing.
            answers = answers - answers.min()
        column = score.column(parameters_of(score.normalization, answers))
        own = self._normalized.get(score.name)
        values = normalized(column, answers) if own is None else own
        totals[rows] += values * score.weight
        raw = self._spread_out(answers, rows, score.width)
        return Scored(column, raw, None if own is None else self._spread_out(own, rows, np.int64))

    def _spread_out(self, values: Int64s, rows: Rows, width: type[np.integer[Any]]) -> NDArray[Any]:
        """A column over all rows, 0 for rows without a value."""
        if len(values) == self._table.size:
            return values.astype(width)
        column = np.zeros(self._table.size, dtype=width)
        column[rows] = values
        return column


def _refused_too(refused: Keys | None, outliers: NDArray[np.bool_], score: Score) -> Keys:
    """Keys with the refusals of one more score; the first in the order counts."""
    if refused is None:
        refused = np.full(len(outliers), KEY_PASSES, dtype=np.int32)
    refused[outliers] = np.minimum(refused[outliers], score.refusal)
    return refused


def recounted(counts: dict[CycleKey, int], before: Keys, after: Keys) -> dict[CycleKey, int]:
    """Key → number of rows, after some rows have got another key."""
    changed = dict(counts)
    for keys, sign in ((before, -1), (after, 1)):
        for key, number in counted(keys).items():
            changed[key] = changed.get(key, 0) + sign * number
    return {key: number for key, number in changed.items() if number}


def counted(keys: Keys) -> dict[CycleKey, int]:
    """Key → number of rows."""
    if len(keys) and np.count_nonzero(keys == keys[0]) == len(keys):
        return {keys[0].item(): len(keys)}  # saves the sort
    values, numbers = np.unique(keys, return_counts=True)
    return dict(zip(values.tolist(), numbers.tolist(), strict=True))
