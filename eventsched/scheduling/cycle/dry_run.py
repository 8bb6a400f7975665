"""What nodes would say to a pod if other pods were on them: of preemption and of nominations.

Rows are asked all at once, as columns of a TrialView. Upstream: framework/runtime/framework.go
RunFilterPluginsWithNominatedPods.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from eventsched.domain.journal import Rows
from eventsched.domain.nodes.node_table import NodeTable
from eventsched.domain.nodes.node_views import PodStep, TrialView, with_steps
from eventsched.domain.objects import Pod
from eventsched.domain.state.preemptions import Preemptions
from eventsched.scheduling.cycle.cycle_keys import CODES_A_FILTER, KEY_PASSES, Keys
from eventsched.scheduling.cycle.equivalence import EquivalenceClass
from eventsched.scheduling.framework import Cycle
from eventsched.scheduling.framework.profile import Filter, Profile

MOST_PRIORITIES = 16
"""Priorities of a class of which trials are remembered; the oldest is dropped first."""

Crowd = tuple[Pod, ...]
"""Pods nominated to a node that a pod has to leave room for."""


class DryRunCache:
    """What is remembered between the attempts of pods of one class and priority: a cache, and what
    the recorder keeps (``crowded``: nominated.Crowded; ``sheet``: candidates.Sheet; ``recorded``:
    recording_preemption.Recorded)."""

    __slots__ = ("crowded", "recorded", "sheet")

    def __init__(self) -> None:
        self.crowded: Any = None
        self.sheet: Any = None
        self.recorded: Any = None

    @property
    def bytes(self) -> int:
        """Memory held, roughly."""
        return self.sheet.bytes if self.sheet else 0


class DryRun:
    """The trials of one pod in one attempt. Its PreFilter has run."""

    def __init__(
        self, table: NodeTable, profile: Profile, pod: Pod, cycle: Cycle, columns: EquivalenceClass,
        late: Sequence[Filter], preemptions: Preemptions, nominated: str,
    ) -> None:  # fmt: skip
        """``late`` are the filters that the pod's class does not answer; ``nominated`` is the node
        that the pod is nominated to, "" for none."""
        self.table, self.profile, self.pod, self.cycle = table, profile, pod, cycle
        self.columns, self.late, self.preemptions = columns, late, preemptions
        self.nominated = nominated
        self._refreshed = False

    def memory(self) -> "DryRunCache":
        """What is remembered for pods of the same class and priority."""
        kept = self.columns.trials
        found: DryRunCache | None = kept.get(self.pod.priority)
        if found is None:
            if len(kept) >= MOST_PRIORITIES:
                del kept[next(iter(kept))]
            found = kept[self.pod.priority] = DryRunCache()
        return found

    @property
    def repeatable(self) -> bool:
        """Whether pods of the same class and priority are told the same: whether what is found
        may be remembered for them."""
        return not self.late

    def keys(self, view: TrialView) -> Keys:
        """int32[n]: each row's first refusal as its key, KEY_PASSES where there is none.
        Raises PluginError."""
        if not self._refreshed:
            # After a refusal by PreFilter nobody has asked for the class's columns yet.
            self.columns.refresh(self.table, self.cycle, self.pod)
            self._refreshed = True
        keys = self.columns.unchanging(view.rows)
        for each in (*self.columns.changing, *self.late):
            codes = each(self.cycle, self.pod, view)
            if codes is None:
                continue
            if len(codes) == 1:
                if codes[0]:
                    keys[0] = min(int(keys[0]), int(codes[0]) + each.position * CODES_A_FILTER)
            elif np.count_nonzero(codes):
                refused = codes > 0
                found = (codes[refused] + each.position * CODES_A_FILTER).astype(np.int32)
                keys[refused] = np.minimum(keys[refused], found)
        return keys

    def crowd(self, row: int, *, with_pod: bool = False) -> Crowd:
        """The pods nominated to a row's node, of the pod's priority or a higher one; without the
        pod itself, if not told otherwise."""
        nominated = self.preemptions.on(self.table.names[row])
        if not nominated:
            return ()
        pod = self.pod
        return tuple(
            each
            for uid, each in nominated.items()
            if each.priority >= pod.priority and (with_pod or uid != pod.uid)
        )

    def crowds(self, rows: Rows) -> dict[int, Crowd]:
        """Position in ``rows`` → the crowd of that row, where there is one."""
        if not len(self.preemptions):
            return {}
        found = {}
        for position, row in enumerate(rows.tolist()):
            if self.table.alive[row] and (crowd := self.crowd(row)):
                found[position] = crowd
        return found

    def crowded_keys(self, view: TrialView, crowds: dict[int, Crowd]) -> Keys:
        """Like ``keys``, of rows that must take the pod with their crowds and without: the verdict
        is the one with the crowd where that refuses it. Raises PluginError."""
        if not crowds:
            return self.keys(view)
        positions = np.fromiter(crowds, dtype=np.intp, count=len(crowds))
        among = self.keys(_joined(self.table, view, positions, list(crowds.values())))
        if len(positions) == len(view) and KEY_PASSES not in among:
            return among
        keys = self.keys(view)
        keys[positions] = np.where(among != KEY_PASSES, among, keys[positions])
        return keys


def _joined(
    table: NodeTable, view: TrialView, positions: Rows, crowds: Sequence[Crowd]
) -> TrialView:
    """Some rows of a view with more pods on them."""
    joined = [PodStep(place, pod, 1) for place, crowd in enumerate(crowds) for pod in crowd]

    def steps() -> list[PodStep]:
        place_of = {position: place for place, position in enumerate(positions.tolist())}
        kept = [
            PodStep(place_of[each.position], each.pod, each.sign)
            for each in view.steps
            if each.position in place_of
        ]
        return kept + joined

    books = with_steps(table, view.books_at(positions), joined)
    return TrialView(table, view.rows[positions], steps, books)
