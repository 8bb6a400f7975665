"""Which nodes refuse a pod because of the pods that are nominated to them.

Kept by class and priority, and computed again only for rows where something has changed; the
class's own columns hold nothing of it. Upstream: RunFilterPluginsWithNominatedPods.
"""

import numpy as np

from eventsched.domain.journal import Rows
from eventsched.domain.nodes.node_views import PodStep, TrialView
from eventsched.scheduling.cycle.cycle_keys import KEY_PASSES, Keys
from eventsched.scheduling.cycle.dry_run import Crowd, DryRun

Refused = tuple[Rows, Keys]
"""Rows, ascending, and the key of the filter that refuses each of them."""

_NOTHING: Refused = np.zeros(0, dtype=np.intp), np.zeros(0, dtype=np.int32)


class Crowded:
    """The rows that refuse pods of one class and priority together with their nominated pods."""

    def __init__(self) -> None:
        self._keys: Keys = np.zeros(0, dtype=np.int32)
        """int32[size]: the key of the filter that refuses, KEY_PASSES where none does."""
        self._cursors = (-1, -1, -1)
        self._refused = _NOTHING

    def refresh(self, trials: DryRun) -> Refused:
        """The refusals as they are now. Raises PluginError; then nothing has been taken in."""
        table, preemptions = trials.table, trials.preemptions
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
        crowds = {
            row: crowd
            for row in sorted(touched)
            if table.alive[row] and (crowd := trials.crowd(row, with_pod=True))
        }
        self._take(refusals(trials, crowds), touched, table.size, everything=everything)
        self._cursors = now
        return self._refused

    def _take(self, found: Refused, touched: set[int], size: int, *, everything: bool) -> None:
        """Takes in what was found on the rows touched, on all others nothing if ``everything``."""
        if everything:
            self._keys = np.full(size, KEY_PASSES, dtype=np.int32)
        elif size > len(self._keys):
            more = size - len(self._keys)
            self._keys = np.pad(self._keys, (0, more), constant_values=KEY_PASSES)
        known = [row for row in touched if self._keys[row] != KEY_PASSES]
        self._keys[known] = KEY_PASSES
        self._keys[found[0]] = found[1]
        if known or len(found[0]) or everything:
            rows = np.flatnonzero(self._keys != KEY_PASSES)
            self._refused = rows, self._keys[rows]


def refusals(trials: DryRun, crowds: dict[int, Crowd]) -> Refused:
    """The rows of ``crowds`` that refuse the pod together with theirs. Raises PluginError."""
    if not crowds:
        return _NOTHING
    steps = [PodStep(place, pod, 1) for place, crowd in enumerate(crowds.values()) for pod in crowd]
    rows = np.fromiter(crowds, dtype=np.intp, count=len(crowds))
    keys = trials.keys(TrialView(trials.table, rows, steps))
    if KEY_PASSES not in keys:
        return rows, keys
    refused = keys != KEY_PASSES
    return rows[refused], keys[refused]


def refused_for_nominated(trials: DryRun) -> Refused:
    """The rows that the pod has to leave to pods nominated to them. Raises PluginError."""
    preemptions, table = trials.preemptions, trials.table
    if not len(preemptions):
        return _NOTHING
    if not trials.repeatable:
        nominated = sorted(table.rows[name] for name in preemptions.nodes() if name in table.rows)
        crowds = {row: crowd for row in nominated if (crowd := trials.crowd(row))}
        return refusals(trials, crowds)
    kept = trials.memory()
    kept.crowded = kept.crowded or Crowded()
    rows, keys = kept.crowded.refresh(trials)
    own = table.rows.get(preemptions.node(trials.pod.uid), -1)
    if own < 0:
        return rows, keys
    # Where the pod is nominated itself, it is no part of the crowd.
    crowd = trials.crowd(own)
    more = refusals(trials, {own: crowd} if crowd else {})
    others = rows != own
    rows, keys = rows[others], keys[others]
    if not len(more[0]):
        return rows, keys
    return np.append(rows, more[0]), np.append(keys, more[1])
