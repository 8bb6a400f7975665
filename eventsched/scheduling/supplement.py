"""What the columns of a pod's class do not hold: narrowing by PreFilter, plugins that are asked
anew for every pod, the end of a search that was told to stop early, and what follows for the scores.

All of it as columns over the rows concerned; the class's columns are read, never changed.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from eventsched.domain.columns import NodeTable
from eventsched.domain.journal import Rows
from eventsched.domain.objects import Pod
from eventsched.domain.verdicts import Normalization, ScoreColumn, normalized, parameters_of
from eventsched.domain.views import NodeView
from eventsched.scheduling.classes import (
    NO_NODE,
    NOT_FEASIBLE,
    PASSES,
    ClassColumns,
    Keys,
    Totals,
)
from eventsched.scheduling.framework import Cycle
from eventsched.scheduling.prefilter import Narrowed, skips_score
from eventsched.scheduling.profile import Filter, Profile, Score

EXCLUDED = PASSES - 1
"""Key of a node that PreFilter left out."""
NOT_EVALUATED = PASSES - 2
"""Key of a node that the search did not come to."""
FEWEST = 100
"""A search does not stop before so many feasible nodes (upstream: minFeasibleNodesToFind)."""

Int64s = NDArray[np.int64]


class Scored(NamedTuple):
    """One plugin's scores: ``raw`` over all rows (0 where not feasible), ``normalized`` likewise
    but only where the plugin normalises by its own code."""

    column: ScoreColumn
    raw: NDArray[Any]
    normalized: Int64s | None = None


def weighted(scored: Scored, rows: Rows) -> Int64s:
    """int64[n]: what the plugin added to the totals of feasible rows."""
    if scored.normalized is not None:
        return scored.normalized[rows] * scored.column.weight
    return normalized(scored.column, scored.raw[rows]) * scored.column.weight


class Supplement:
    """The judgement of one pod where its class's columns alone do not answer. ``keys`` and
    ``counts`` are the class's own as long as nothing more was refused."""

    def __init__(
        self, table: NodeTable, profile: Profile, pod: Pod, cycle: Cycle, columns: ClassColumns
    ) -> None:
        self._table, self._profile, self._pod, self._cycle = table, profile, pod, cycle
        self._columns = columns
        self.keys: Keys = columns.keys
        self.counts: dict[int, int] = columns.counts
        self.late_scores: list[Score] = []

    @property
    def refused_more(self) -> bool:
        """Whether the keys differ from the class's."""
        return self.keys is not self._columns.keys

    @property
    def feasible(self) -> Rows:
        """The rows that all filters let pass, ascending."""
        return np.flatnonzero(self.keys == PASSES) if self.refused_more else self._columns.rows

    # --- verdicts -------------------------------------------------------------------------

    def narrow(self, narrowed: Narrowed) -> None:
        """Leaves out the nodes that PreFilter did not name."""
        if not narrowed:
            return
        names = frozenset.intersection(*(wanted for _, wanted in narrowed))
        inside = np.zeros(self._table.size, dtype=bool)
        inside[[self._table.rows[name] for name in names if name in self._table.rows]] = True
        keys = self._own_keys()
        keys[~inside & (keys != NO_NODE)] = EXCLUDED
        self.counts = counted(keys)

    def filter(self, filters: list[Filter]) -> None:
        """Asks filters about the rows that no earlier one refused: upstream stops there too.
        Raises PluginError."""
        for each in filters:
            first = each.position * 65_536
            asked = (self.keys >= first + 65_536) & (self.keys != EXCLUDED)
            rows = None if asked.all() else np.flatnonzero(asked)
            if rows is not None and not len(rows):
                continue
            codes = each(self._cycle, self._pod, NodeView(self._table, rows))
            if codes is None:
                continue
            refused = np.flatnonzero(codes)
            if len(refused):
                hit = refused if rows is None else rows[refused]
                self._refuse(hit, (codes[refused] + first).astype(np.int32))

    def stop_early(self, percentage: int, start: int) -> None:
        """Ends the search after upstream's number of feasible nodes, counted from the ``start``-th
        node on (schedule_one.go numFeasibleNodesToFind, findNodesThatPassFilters). 0 per cent
        stands for all nodes here (design 9.10)."""
        nodes = np.flatnonzero((self.keys != NO_NODE) & (self.keys != EXCLUDED))
        if not 0 < percentage < 100 or len(nodes) < FEWEST:
            return
        enough = max(FEWEST, len(nodes) * percentage // 100)
        order = np.roll(nodes, -(start % len(nodes)))
        found = np.cumsum(self.keys[order] == PASSES)
        if found[-1] <= enough:
            return
        keys = self._own_keys()
        # It ends where it meets one feasible node more than it needs.
        keys[order[int(np.searchsorted(found, enough + 1)) :]] = NOT_EVALUATED
        self.counts = counted(keys)

    def _own_keys(self) -> Keys:
        if not self.refused_more:
            self.keys, self.counts = self.keys.copy(), dict(self.counts)
        return self.keys

    def _refuse(self, rows: Rows, found: Keys) -> None:
        keys = self._own_keys()
        before = keys[rows]
        keys[rows] = found
        if len(self.counts) > 2 or np.count_nonzero(before != PASSES):
            self.counts = counted(keys)
            return
        left = self.counts.pop(PASSES) - len(rows)
        if left:
            self.counts[PASSES] = left
        lowest = int(found.min())
        for code, number in enumerate(np.bincount(found - lowest).tolist()):
            if number:
                self.counts[lowest + code] = number

    # --- scores ---------------------------------------------------------------------------

    def pre_score(self) -> None:
        """Finds the scores that are to be asked for. Raises PluginError."""
        late = self._columns.late_scores
        if not late or PASSES not in self.counts:
            return
        names = {each.name for each in late}
        view = NodeView(self._table, self.feasible)
        for plugin in self._profile.points["preScore"]:
            if plugin.name in names and skips_score(plugin, self._cycle, self._pod, view):
                names.discard(plugin.name)
        self.late_scores = [each for each in late if each.name in names]

    def scored(self) -> tuple[list[Scored], Totals]:
        """The scores, in the profile's order, and int64[size] totals. Raises PluginError."""
        rows = self.feasible
        totals = np.full(self._table.size, NOT_FEASIBLE, dtype=np.int64)
        if not len(rows):
            return [], totals
        sums = self._columns.totals[rows]
        found = {scored.column.plugin: scored for scored in self._cached(rows, sums)}
        view = NodeView(self._table, rows)
        for each in self.late_scores:
            late = self._late(each, view)
            found[each.name] = late
            sums += weighted(late, rows)
        totals[rows] = sums
        order = (each.name for each in self._profile.scores)
        return [found[name] for name in order if name in found], totals

    def _cached(self, rows: Rows, sums: Int64s) -> list[Scored]:
        """The class's scores on feasible rows; corrects their sums where fewer feasible nodes mean
        another largest score."""
        if not self.refused_more:
            return [Scored(cache.column, cache.raw) for cache in self._columns.caches]
        found = []
        for cache in self._columns.caches:
            if cache.column.parameters == (0,):
                found.append(Scored(cache.column, cache.raw))  # zeros everywhere
                continue
            values = cache.raw[rows]
            raw = np.zeros(self._table.size, dtype=cache.raw.dtype)
            raw[rows] = values
            column = cache.score.column(parameters_of(cache.score.normalization, values))
            if column.parameters != cache.column.parameters:
                more = normalized(column, values) - normalized(cache.column, values)
                sums += more * column.weight
            found.append(Scored(column, raw))
        return found

    def _late(self, score: Score, view: NodeView) -> Scored:
        found = score(self._cycle, self._pod, view)
        if score.normalization is Normalization.RATIO:
            # Only distances count: what moves all nodes alike is no change.
            found = found - found.min()
        raw = np.zeros(self._table.size, dtype=score.width)
        raw[view.rows] = found
        own = None
        if score.normalization is Normalization.OWN:
            own = np.zeros(self._table.size, dtype=np.int64)
            own[view.rows] = score.normalize(self._cycle, self._pod, found)
        column = score.column(parameters_of(score.normalization, found))
        return Scored(column, raw, own)


def counted(keys: Keys) -> dict[int, int]:
    """Key → number of rows."""
    values, numbers = np.unique(keys, return_counts=True)
    return dict(zip(values.tolist(), numbers.tolist(), strict=True))
