"""Columns of verdicts and scores for a class of pods, updated row by row.

Pods with equal signatures get equal verdicts and raw scores, so these are cached by class, and only
rows named by the node table's journals are computed again. The cache can be dropped at any time; a
new one holds the same vectors (tests/properties check that).

A row's key (cycle_keys.py) is its first refusal: the smallest key among the filters.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eventsched.domain.journal import Rows
from eventsched.domain.nodes.node_table import NodeTable
from eventsched.domain.nodes.node_views import NodeView
from eventsched.domain.objects import Pod
from eventsched.domain.records.verdicts import Normalization
from eventsched.scheduling.cycle.cycle_keys import (
    CODES_A_FILTER,
    KEY_NO_NODE,
    KEY_PASSES,
    NOT_FEASIBLE,
    CycleKey,
    Keys,
    Totals,
)
from eventsched.scheduling.cycle.prefilter import NodeSets, Refusal, ask_pre_filter, skips_score
from eventsched.scheduling.cycle.score_cache import ScoreCache, longer
from eventsched.scheduling.framework import Cycle, PluginError
from eventsched.scheduling.framework.profile import Filter, Profile, Score

_OVERHEAD = 16_384
"""Approximate bytes of a class besides its arrays."""

_FEW = 128
"""Up to this number of rows, counting in plain Python is faster than a sort."""

_PASSES = np.array(KEY_PASSES, dtype=np.int32)
"""To compare a few keys with: a comparison with a plain number takes twice as long."""

INCREMENTAL = (Normalization.IDENTITY, Normalization.DEFAULT, Normalization.REVERSED)


class EquivalenceClass:
    """Verdict keys, raw scores and totals of one class over all rows, for the signed plugins."""

    def __init__(self, profile: Profile, pod: Pod, unsigned: frozenset[str], cycle: Cycle) -> None:
        """Runs PreFilter and PreScore once: for a signed plugin they depend on the pod alone.
        Raises PluginError."""
        self.unsigned = unsigned
        self.unsigned_pre_filters = [p for p in profile.pre_filter if p.name in unsigned]
        self.refusal: Refusal | None = None
        self.narrowed: NodeSets = []
        skipped = self._pre_filter(profile, pod, unsigned, cycle)
        filters = [f for f in profile.filters if f.name not in skipped]
        self.filters = [f for f in filters if f.name not in unsigned]
        self.uncached_filters = [f for f in filters if f.name in unsigned]
        self.score_problem: PluginError | None = None
        """The error of PreScore. It counts only if a node is left to be scored."""
        scores = self._scored(profile, pod, unsigned, cycle)
        self.uncached_scores = [
            s for s in scores if s.name in unsigned or s.normalization not in INCREMENTAL
        ]
        uncached = {score.name for score in self.uncached_scores}
        self.uncached_pre_scores = [p for p in profile.pre_score if p.name in uncached]
        self.caches = [ScoreCache(s) for s in scores if s.name not in uncached]
        self._dynamic_filters = [f for f in self.filters if f.dynamic]
        self._static_filters = [f for f in self.filters if not f.dynamic]
        self._dynamic_caches = [cache for cache in self.caches if cache.score.dynamic]
        cached: list[Filter | Score] = [*self.filters, *(cache.score for cache in self.caches)]
        self._reads_images = any(plugin.reads_images for plugin in cached)
        self._reads_samples = any(plugin.reads_samples for plugin in cached)
        self._rescorable = all(
            cache.score.normalization is Normalization.IDENTITY for cache in self._dynamic_caches
        )
        self.keys: Keys = np.zeros(0, dtype=np.int32)
        self.totals: Totals = np.zeros(0, dtype=np.int64)
        self.counts: dict[CycleKey, int] = {}
        self.unrecorded: list[Rows] | None = None
        """Rows that differ from the last recorded decision; None if all may."""
        self.keys_changed = True
        """Whether a key differs."""
        self.static_changed = True
        """Whether a score that does not depend on usage differs."""
        self.recorded: Any = None
        """The recorder's state of the class (see judgement_recording.py)."""
        self.pod_specific_record: Any = None
        """The same for decisions with pod-specific verdicts."""
        self._column_bytes = 0
        self._spec_bytes = len(pod.spec.key)
        self.dry_run_caches: dict[int, Any] = {}
        """What is remembered of dry runs, by the priority of the pod (see
        dry_run.py)."""
        self._feasible: Rows | None = None
        self._static: Keys = np.zeros(0, dtype=np.int32)
        self._is_plain: NDArray[np.bool_] = np.zeros(0, dtype=bool)
        """The rows whose scores that do not depend on usage are known to be 0."""
        self._plain_total = sum(cache.total_of_zero for cache in self.caches)
        """The total of such a row, without the scores that depend on usage."""
        self._cursors = (-1, -1, -1)

    def _pre_filter(
        self, profile: Profile, pod: Pod, unsigned: frozenset[str], cycle: Cycle
    ) -> set[str]:
        skipped: set[str] = set()
        for plugin in profile.pre_filter:
            if plugin.name not in unsigned:
                self.refusal = ask_pre_filter(
                    plugin, cycle, pod, None, self.narrowed, skipped, self.refusal
                )
        return skipped

    def _scored(
        self, profile: Profile, pod: Pod, unsigned: frozenset[str], cycle: Cycle
    ) -> list[Score]:
        """The Score plugins that PreScore does not skip."""
        skipped = set()
        try:
            for plugin in profile.pre_score:
                if plugin.name not in unsigned and skips_score(plugin, cycle, pod, None):
                    skipped.add(plugin.name)
        except PluginError as problem:
            self.score_problem = problem
            return []
        return [score for score in profile.scores if score.name not in skipped]

    @property
    def broken(self) -> bool:
        """Whether PreFilter or PreScore ended in an error."""
        refused = self.refusal is not None and not self.refusal[1].rejected
        return refused or self.score_problem is not None

    @property
    def feasible(self) -> int:
        """Nodes that all signed filters let pass."""
        return self.counts.get(KEY_PASSES, 0)

    @property
    def rows(self) -> Rows:
        """The rows of these nodes, ascending."""
        if self._feasible is None:
            self._feasible = (self.keys == KEY_PASSES).nonzero()[0]
        return self._feasible

    def static_keys(self, rows: Rows) -> Keys:
        """int32[n]: the first refusal among the filters that no pod on a node can change."""
        return self._static[rows]

    @property
    def dynamic_filters(self) -> list[Filter]:
        """The signed filters that depend on the pods on a node."""
        return self._dynamic_filters

    @property
    def bytes(self) -> int:
        """Memory held by the columns, and by the spec that they are kept under."""
        dry_runs: int = sum([cache.bytes for cache in self.dry_run_caches.values()])
        return _OVERHEAD + self._spec_bytes + self._column_bytes + dry_runs

    def refresh(self, table: NodeTable, cycle: Cycle, pod: Pod) -> None:
        """Brings all columns up to date with the table. Raises PluginError; all columns are then
        computed again by the next call."""
        seen, now = self._cursors, (table.node_journal.end, table.usage_journal.end)
        beyond = table.images.version if self._reads_images else 0
        if self._reads_samples:
            beyond += table.samples.version  # both only rise, so the sum changes with either
        if seen == (*now, beyond):
            return
        self._cursors = (-1, -1, -1)
        nodes, usage = table.node_journal.since(seen[0]), table.usage_journal.since(seen[1])
        if seen[0] < 0 or nodes is None or usage is None or beyond != seen[2]:
            self.dry_run_caches.clear()
            self._grow(table.size)
            everything = np.arange(table.size, dtype=np.intp)
            self._compute(table, cycle, pod, everything, everything)
            self.unrecorded = None
        elif len(nodes) or not self._rescore(table, cycle, pod, usage):
            self._grow(table.size)
            rows = np.union1d(nodes, usage) if len(nodes) else usage
            self._compute(table, cycle, pod, nodes, rows)
        self._cursors = (*now, beyond)

    def _grow(self, size: int) -> None:
        if len(self.keys) == size:
            return
        if self.unrecorded is not None:
            # A node may have been added and deleted: its row is new, but no key changes.
            self.unrecorded.append(np.arange(len(self.keys), size, dtype=np.intp))
            self.keys_changed = self.static_changed = True
        self._static = longer(self._static, size, KEY_NO_NODE)
        self._is_plain = longer(self._is_plain, size, 0)
        self.counts[KEY_NO_NODE] = self.counts.get(KEY_NO_NODE, 0) + size - len(self.keys)
        self.keys = longer(self.keys, size, KEY_NO_NODE)
        self.totals = longer(self.totals, size, NOT_FEASIBLE)
        for cache in self.caches:
            cache.grow(size)
        columns = (self.keys, self._static, self.totals, self._is_plain)
        raws = sum(cache.raw.nbytes for cache in self.caches)
        self._column_bytes = raws + sum(column.nbytes for column in columns)

    def _compute(
        self, table: NodeTable, cycle: Cycle, pod: Pod, changed_nodes: Rows, rows: Rows
    ) -> None:
        """``changed_nodes``: rows to ask every plugin about; ``rows`` (a superset): rows to ask
        those that depend on usage."""
        view = NodeView(table, rows)
        if len(changed_nodes):
            nodes = view if changed_nodes is rows else NodeView(table, changed_nodes)
            static = np.where(table.alive[changed_nodes], KEY_PASSES, KEY_NO_NODE).astype(np.int32)
            _lower(static, self._static_filters, cycle, pod, nodes)
            self._static[changed_nodes] = static
            self._is_plain[changed_nodes] = False
        keys = self._static[rows]
        _lower(keys, self._dynamic_filters, cycle, pod, view)
        before = self.keys[rows]
        rescored = self._score(table, cycle, pod, changed_nodes, rows, keys, before)
        differs = keys != before
        if np.count_nonzero(differs):
            self.keys[rows] = keys
            self.keys_changed = True
            self._feasible = None
            self._count(before[differs], -1)
            self._count(keys[differs], 1)
        differs |= rescored
        if changed_nodes is rows:
            # If a plugin failed half-way before, keys and scores may be newer than the totals.
            differs[:] = True
        self._total(rows, differs)

    def _rescore(self, table: NodeTable, cycle: Cycle, pod: Pod, rows: Rows) -> bool:
        """The common case, after pods were placed or ended: on these rows only results that depend
        on usage can have changed. Returns False if all must be computed again instead: a row passes
        whose other scores are not known, a normalisation may change, or a score is out of range."""
        if not self._rescorable:
            return False
        if not len(rows):
            return True
        view = NodeView(table, rows)
        keys = self._static[rows]
        lowered = _lower(keys, self._dynamic_filters, cycle, pod, view)
        returns = False
        # If all nodes passed before and still do, no key can differ.
        if lowered or len(self.counts) > 1 or KEY_PASSES not in self.counts:
            feasible = keys == _PASSES
            differs = keys != self.keys[rows]
            if np.count_nonzero(differs):
                returning = self._put_keys(rows[differs], keys[differs])
                if returning is None:
                    return False
                returns = returning > 0
            if np.count_nonzero(feasible) < len(rows):
                rows = rows[feasible]
                if not len(rows):
                    return True
                view = NodeView(table, rows)
        answers = []
        for cache in self._dynamic_caches:
            scores, outliers = cache.score(cycle, pod, view)
            if outliers is not None:
                return False  # before a score is stored: totals follow only scores that change
            answers.append(scores)
        totals = self.totals[rows]
        changed = np.zeros(len(rows), dtype=bool) if returns else None
        for cache, scores in zip(self._dynamic_caches, answers, strict=True):
            difference = cache.change(rows, scores)
            if changed is not None:
                changed |= difference.astype(bool)
            totals += difference if cache.score.weight == 1 else difference * cache.score.weight
        self.totals[rows] = totals
        if self.unrecorded is not None:
            self.unrecorded.append(rows if changed is None else rows[changed])
        return True

    def _put_keys(self, rows: Rows, keys: Keys) -> int | None:
        """Stores other keys of rows, and returns how many pass now; their totals are without the
        scores that depend on usage. Returns None, and changes nothing, if a row passes whose other
        scores are not known, or if a refused row has a normalised score: the largest score may then
        change."""
        passes = keys == _PASSES
        returning, gone = rows[passes], rows
        if len(returning):
            if np.count_nonzero(self._is_plain[returning]) < len(returning):
                return None
            gone = rows[~passes]
        scored = [cache for cache in self.caches if not cache.is_zero] if len(gone) else []
        for cache in scored:
            scaled = cache.score.normalization is not Normalization.IDENTITY
            if scaled and np.count_nonzero(cache.raw[gone]):
                return None
        self._count(self.keys[rows], -1)
        self._count(keys, 1)
        self.keys[rows] = keys
        self.totals[gone], self.totals[returning] = NOT_FEASIBLE, self._plain_total
        self.keys_changed, self._feasible = True, None
        for cache in scored:
            if cache.score.dynamic:
                cache.clear(gone)
            elif np.count_nonzero(cache.put(gone, np.zeros(len(gone), dtype=np.uint8))):
                self.static_changed = True
        if self.unrecorded is not None:
            self.unrecorded.append(rows)
        return len(returning)

    def _score(
        self, table: NodeTable, cycle: Cycle, pod: Pod, changed_nodes: Rows, rows: Rows,
        keys: Keys, before: Keys,
    ) -> NDArray[np.bool_]:  # fmt: skip
        """Stores the raw scores of the feasible rows, 0 for the others. Returns bool[n]: the rows
        whose score changed. Rows with a score out of range are refused in ``keys``."""
        feasible = keys == KEY_PASSES
        stale = feasible & (before != KEY_PASSES)
        if len(changed_nodes):
            stale |= feasible & np.isin(rows, changed_nodes, assume_unique=True)
        views: dict[bool, tuple[NDArray[np.bool_], NodeView]] = {}
        for dynamic, wanted in ((True, feasible), (False, stale)):
            views[dynamic] = (wanted, NodeView(table, rows if wanted.all() else rows[wanted]))
        columns = []
        for cache in self.caches:
            wanted, view = views[cache.score.dynamic]
            values = cache.raw[rows]
            values[~feasible] = 0
            if len(view):
                values[wanted], outliers = cache.score(cycle, pod, view)
                if outliers is not None:
                    outside = np.flatnonzero(wanted)[outliers]
                    keys[outside] = np.minimum(keys[outside], cache.score.refusal)
            columns.append(values)
        differs = np.zeros(len(rows), dtype=bool)
        plain = stale & (keys == KEY_PASSES)
        for cache, values in zip(self.caches, columns, strict=True):
            values[keys != KEY_PASSES] = 0
            if not cache.score.dynamic:
                plain &= values == 0
            changed = cache.put(rows, values)
            if not cache.score.dynamic and np.count_nonzero(changed):
                self.static_changed = True
            differs |= changed
        self._is_plain[rows[plain]] = True
        return differs

    def _total(self, rows: Rows, differs: NDArray[np.bool_]) -> None:
        rescaled = [cache.rescale() for cache in self.caches]
        changed = rows[differs]
        again = np.arange(len(self.keys), dtype=np.intp) if any(rescaled) else changed
        if len(again):
            totals = np.zeros(len(again), dtype=np.int64)
            for cache in self.caches:
                totals += cache.weighted(again)
            totals[self.keys[again] != KEY_PASSES] = NOT_FEASIBLE
            self.totals[again] = totals
        if self.unrecorded is not None and len(changed):
            self.unrecorded.append(changed)

    def _count(self, keys: Keys, sign: int) -> None:
        if len(keys) <= _FEW:
            for key in keys.tolist():
                self._add(key, sign)
            return
        values, numbers = np.unique(keys, return_counts=True)
        for key, number in zip(values.tolist(), numbers.tolist(), strict=True):
            self._add(key, sign * number)

    def _add(self, key: CycleKey, number: int) -> None:
        left = self.counts.get(key, 0) + number
        if left:
            self.counts[key] = left
        else:
            del self.counts[key]


def _lower(keys: Keys, filters: Iterable[Filter], cycle: Cycle, pod: Pod, nodes: NodeView) -> bool:
    """Lowers the key of each row that a filter refuses, if that filter comes before the row's first
    refusal so far. Returns whether a filter refused any row."""
    lowered = False
    for plugin in filters:
        codes = plugin(cycle, pod, nodes)
        if codes is not None and len(refused := codes.nonzero()[0]):
            refusals = codes[refused]
            refusals += plugin.position * CODES_A_FILTER
            keys[refused] = np.minimum(keys[refused], refusals)
            lowered = True
    return lowered
