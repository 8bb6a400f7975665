"""Which nodes refuse a pod because of the pods that are nominated to them.

Cached by class and priority, and computed again only for rows that have changed. The class's own
columns do not depend on nominated pods. Upstream: RunFilterPluginsWithNominatedPods.
"""

import numpy as np

from eventsched.domain.journal import Rows
from eventsched.domain.nodes.node_views import PodStep, TrialView
from eventsched.scheduling.cycle.cycle_keys import KEY_PASSES, Keys
from eventsched.scheduling.cycle.dry_run import DryRun, NominatedPods

Refused = tuple[Rows, Keys]
"""Rows, ascending, and the key of the filter that refuses each of them."""

_NOTHING: Refused = np.zeros(0, dtype=np.intp), np.zeros(0, dtype=np.int32)


class NominatedRefusals:
    """The rows that refuse pods of one class and priority because of nominated pods: a cache."""

    def __init__(self) -> None:
        self._keys: Keys = np.zeros(0, dtype=np.int32)
        """int32[size]: the key of the filter that refuses, KEY_PASSES if none does."""
        self._cursors = (-1, -1, -1)
        self._refused = _NOTHING

    def refresh(self, dry_run: DryRun) -> Refused:
        """The current refusals. Raises PluginError; the cache is then unchanged."""
        table, preemptions = dry_run.table, dry_run.preemptions
        journals = (table.node_journal, table.usage_journal, preemptions.journal)
        now = (journals[0].end, journals[1].end, journals[2].end)
        if now == self._cursors:
            return self._refused
        parts = [
            journal.since(cursor) if cursor >= 0 else None
            for journal, cursor in zip(journals, self._cursors, strict=True)
        ]
        changed = [part.tolist() for part in parts if part is not None]
        everything = len(changed) < len(parts)
        if everything:
            touched = {table.rows[name] for name in preemptions.nodes() if name in table.rows}
        else:
            touched = {row for part in changed for row in part if row >= 0}
        pods_by_row = {
            row: nominated_pods
            for row in sorted(touched)
            if table.alive[row] and (nominated_pods := dry_run.nominated_pods(row, with_pod=True))
        }
        self._take(refusals(dry_run, pods_by_row), touched, table.size, everything=everything)
        self._cursors = now
        return self._refused

    def _take(self, refused: Refused, touched: set[int], size: int, *, everything: bool) -> None:
        """Stores the refusals of the touched rows; ``everything`` clears all other rows."""
        if everything:
            self._keys = np.full(size, KEY_PASSES, dtype=np.int32)
        elif size > len(self._keys):
            more = size - len(self._keys)
            self._keys = np.pad(self._keys, (0, more), constant_values=KEY_PASSES)
        known = [row for row in touched if self._keys[row] != KEY_PASSES]
        self._keys[known] = KEY_PASSES
        self._keys[refused[0]] = refused[1]
        if known or len(refused[0]) or everything:
            rows = np.flatnonzero(self._keys != KEY_PASSES)
            self._refused = rows, self._keys[rows]


def refusals(dry_run: DryRun, pods_by_row: dict[int, NominatedPods]) -> Refused:
    """The rows that refuse the pod together with their ``pods_by_row``. Raises PluginError."""
    if not pods_by_row:
        return _NOTHING
    steps = [
        PodStep(place, pod, 1)
        for place, nominated_pods in enumerate(pods_by_row.values())
        for pod in nominated_pods
    ]
    rows = np.fromiter(pods_by_row, dtype=np.intp, count=len(pods_by_row))
    keys = dry_run.keys(TrialView(dry_run.table, rows, steps))
    if KEY_PASSES not in keys:
        return rows, keys
    refused = keys != KEY_PASSES
    return rows[refused], keys[refused]


def refused_for_nominated(dry_run: DryRun) -> Refused:
    """The rows that refuse the pod because of pods nominated to them. Raises PluginError."""
    preemptions, table = dry_run.preemptions, dry_run.table
    if not len(preemptions):
        return _NOTHING
    if not dry_run.repeatable:
        nominated = sorted(table.rows[name] for name in preemptions.nodes() if name in table.rows)
        pods_by_row = {
            row: nominated_pods
            for row in nominated
            if (nominated_pods := dry_run.nominated_pods(row))
        }
        return refusals(dry_run, pods_by_row)
    cache = dry_run.cache()
    cache.nominated_refusals = cache.nominated_refusals or NominatedRefusals()
    rows, keys = cache.nominated_refusals.refresh(dry_run)
    nominated_row = table.rows.get(preemptions.node(dry_run.pod.uid), -1)
    if nominated_row < 0:
        return rows, keys
    # On its own nominated node the pod must not count as another nominated pod.
    nominated_pods = dry_run.nominated_pods(nominated_row)
    more = refusals(dry_run, {nominated_row: nominated_pods} if nominated_pods else {})
    others = rows != nominated_row
    rows, keys = rows[others], keys[others]
    if not len(more[0]):
        return rows, keys
    return np.append(rows, more[0]), np.append(keys, more[1])
