"""The verdicts of nodes if other pods were on them: for preemption and for nominated pods.

All rows are evaluated at once, as columns of a TrialView. Upstream: framework/runtime/framework.go
RunFilterPluginsWithNominatedPods.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from eventsched.domain.journal import Rows
from eventsched.domain.nodes.node_table import NodeTable
from eventsched.domain.nodes.node_views import PodStep, TrialView, with_steps
from eventsched.domain.objects import Pod
from eventsched.domain.state.parts.preemptions import Preemptions
from eventsched.scheduling.cycle.cycle_keys import CODES_A_FILTER, KEY_PASSES, Keys
from eventsched.scheduling.cycle.equivalence import EquivalenceClass
from eventsched.scheduling.framework import Cycle
from eventsched.scheduling.framework.profile import Filter, Profile

MOST_PRIORITIES = 16
"""Priorities of a class whose dry runs are remembered; the oldest is dropped first."""

NominatedPods = tuple[Pod, ...]
"""Pods nominated to a node, for which another pod has to leave room."""


class DryRunCache:
    """What is remembered between the attempts of pods of one class and priority.

    ``nominated_refusals`` is a nominated_pods.NominatedRefusals, ``candidate_table`` a
    candidates.CandidateTable, ``recorded`` a preemption_recording.CandidateRecord; each is None
    until its module sets it.
    """

    __slots__ = ("candidate_table", "nominated_refusals", "recorded")

    def __init__(self) -> None:
        self.nominated_refusals: Any = None
        self.candidate_table: Any = None
        self.recorded: Any = None

    @property
    def bytes(self) -> int:
        """Approximate memory."""
        return self.candidate_table.bytes if self.candidate_table else 0


class DryRun:
    """The dry runs of one pod in one attempt. Its PreFilter has run."""

    def __init__(
        self, table: NodeTable, profile: Profile, pod: Pod, cycle: Cycle,
        equivalence_class: EquivalenceClass, uncached: Sequence[Filter], preemptions: Preemptions,
        nominated: str,
    ) -> None:  # fmt: skip
        """``uncached`` are the filters that are not cached by class; ``nominated`` is the node
        that the pod is nominated to, "" for none."""
        self.table, self.profile, self.pod, self.cycle = table, profile, pod, cycle
        self.equivalence_class, self.uncached = equivalence_class, uncached
        self.preemptions = preemptions
        self.nominated = nominated
        self._refreshed = False

    def cache(self) -> "DryRunCache":
        """The cache for pods of this class and priority."""
        caches = self.equivalence_class.dry_run_caches
        cache: DryRunCache | None = caches.get(self.pod.priority)
        if cache is None:
            if len(caches) >= MOST_PRIORITIES:
                del caches[next(iter(caches))]
            cache = caches[self.pod.priority] = DryRunCache()
        return cache

    @property
    def repeatable(self) -> bool:
        """Whether pods of the same class and priority get the same verdicts, which may then be
        cached for them."""
        return not self.uncached

    def keys(self, view: TrialView) -> Keys:
        """int32[n]: each row's first refusal as its key, KEY_PASSES if there is none.
        Raises PluginError."""
        if not self._refreshed:
            # judge() does not refresh the class's columns after PreFilter has refused the pod.
            self.equivalence_class.refresh(self.table, self.cycle, self.pod)
            self._refreshed = True
        keys = self.equivalence_class.static_keys(view.rows)
        for plugin in (*self.equivalence_class.dynamic_filters, *self.uncached):
            codes = plugin(self.cycle, self.pod, view)
            if codes is None:
                continue
            if len(codes) == 1:
                if codes[0]:
                    keys[0] = min(int(keys[0]), int(codes[0]) + plugin.position * CODES_A_FILTER)
            elif np.count_nonzero(codes):
                refused = codes > 0
                refusals = (codes[refused] + plugin.position * CODES_A_FILTER).astype(np.int32)
                keys[refused] = np.minimum(keys[refused], refusals)
        return keys

    def nominated_pods(self, row: int, *, with_pod: bool = False) -> NominatedPods:
        """The pods nominated to a row's node, of this pod's priority or a higher one; this pod is
        among them only ``with_pod``."""
        nominated = self.preemptions.on(self.table.names[row])
        if not nominated:
            return ()
        pod = self.pod
        return tuple(
            nominee
            for uid, nominee in nominated.items()
            if nominee.priority >= pod.priority and (with_pod or uid != pod.uid)
        )

    def nominated_by_position(self, rows: Rows) -> dict[int, NominatedPods]:
        """Position in ``rows`` → the pods nominated to that row's node, if there are any."""
        if not len(self.preemptions):
            return {}
        by_position = {}
        for position, row in enumerate(rows.tolist()):
            if self.table.alive[row] and (nominated_pods := self.nominated_pods(row)):
                by_position[position] = nominated_pods
        return by_position

    def keys_with_nominated(
        self, view: TrialView, nominated_by_position: dict[int, NominatedPods]
    ) -> Keys:
        """Like ``keys``, but a row must accept the pod both with its nominated pods and without
        them; a refusal with them comes first. Raises PluginError."""
        if not nominated_by_position:
            return self.keys(view)
        positions = np.fromiter(
            nominated_by_position, dtype=np.intp, count=len(nominated_by_position)
        )
        among = self.keys(
            _joined(self.table, view, positions, list(nominated_by_position.values()))
        )
        if len(positions) == len(view) and KEY_PASSES not in among:
            return among
        keys = self.keys(view)
        keys[positions] = np.where(among != KEY_PASSES, among, keys[positions])
        return keys


def _joined(
    table: NodeTable,
    view: TrialView,
    positions: Rows,
    nominated_by_position: Sequence[NominatedPods],
) -> TrialView:
    """Some rows of a view, with their nominated pods added."""
    joined = [
        PodStep(place, pod, 1)
        for place, nominated_pods in enumerate(nominated_by_position)
        for pod in nominated_pods
    ]

    def steps() -> list[PodStep]:
        resource_and_key = {position: place for place, position in enumerate(positions.tolist())}
        of_these_rows = [
            PodStep(resource_and_key[step.position], step.pod, step.sign)
            for step in view.steps
            if step.position in resource_and_key
        ]
        return of_these_rows + joined

    books = with_steps(table, view.books_at(positions), joined)
    return TrialView(table, view.rows[positions], steps, books)
