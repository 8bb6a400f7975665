"""The victims on a node: the fewest and least important pods whose eviction makes room.

All rows are processed at once. First, all removable pods are removed. Then the first pod of each
row is put back, and stays if the preemptor still fits; then the second one, and so on. Upstream:
plugins/defaultpreemption/default_preemption.go SelectVictimsOnNode, util.MoreImportantPod.
"""

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from eventsched.domain.journal import Rows
from eventsched.domain.nodes.node_table import REQUESTED
from eventsched.domain.nodes.node_views import PodStep, TrialView, loads_of
from eventsched.domain.objects import Pod
from eventsched.scheduling.cycle.cycle_keys import KEY_PASSES
from eventsched.scheduling.cycle.dry_run import DryRun, NominatedPods
from eventsched.scheduling.preemption.disruption_budgets import DisruptionBudgets
from eventsched.scheduling.preemption.victim_rules import BY_PRIORITY, QuotaCheck, VictimRule

NOTHING_REMOVABLE = -2
"""Outcome: no pod on the node is less important."""
FITS_WITHOUT_EVICTION = -3
"""Outcome: the pod fits without any eviction."""
OVER_QUOTA = -5
"""Outcome: the pod would fit, but a quota does not allow it."""
NOT_STARTED = 2**62
"""Stands for the start (µs) of a pod that has not started: later than every start (upstream:
util.GetPodStartTime)."""


class Candidate(NamedTuple):
    """The result of a node's dry run. If evictions help, ``outcome`` is KEY_PASSES, ``victims`` has
    the most important pod first, and ``violations`` is how many of them break a budget. Otherwise
    ``outcome`` is NOTHING_REMOVABLE, FITS_WITHOUT_EVICTION, OVER_QUOTA, or the CycleKey of the
    filter that refuses the pod in spite of the evictions."""

    outcome: int
    victims: tuple[Pod, ...] = ()
    violations: int = 0

    @property
    def highest(self) -> int:
        """The highest priority among the victims."""
        return self.victims[0].priority if self.victims else 0

    @property
    def total(self) -> int:
        """The sum of the victims' priorities."""
        return sum(pod.priority for pod in self.victims)

    @property
    def start(self) -> int:
        """The earliest start (µs) of the victims of the highest priority; 0 if none of them has
        started (upstream: util.GetEarliestPodStartTime)."""
        highest = self.highest
        starts = [p.started_at for p in self.victims if p.priority == highest and p.started_at]
        return min(starts, default=0)

    @property
    def criteria(self) -> tuple[int, int, int, int, int]:
        """The values in the order of candidates.CRITERIA."""
        return self.violations, self.highest, self.total, len(self.victims), self.start


def importance(pod: Pod) -> tuple[int, int]:
    """Smaller for more important pods: higher priority, then earlier start."""
    return -pod.priority, pod.started_at or NOT_STARTED


def try_rows(
    dry_run: DryRun, rows: Rows, budgets: DisruptionBudgets, rule: VictimRule = BY_PRIORITY
) -> list[Candidate]:
    """The dry run of each row. Raises PluginError."""
    candidates: list[Candidate | None] = [None] * len(rows)
    places: list[int] = []
    order: list[list[Pod]] = []
    breaking: list[int] = []
    checks: list[QuotaCheck | None] = []
    for place, row in enumerate(rows.tolist()):
        removable, check = rule.removable(dry_run, row)
        if not removable:
            candidates[place] = Candidate(NOTHING_REMOVABLE)
            continue
        removable.sort(key=importance)
        first, others = budgets.split(removable)
        places.append(place)
        order.append(first + others)
        breaking.append(len(first))
        checks.append(check)
    reprieve = _Reprieve(dry_run, rows[np.array(places, dtype=np.intp)], order, checks)
    outcomes = reprieve.run().tolist()
    for index, (place, outcome) in enumerate(zip(places, outcomes, strict=True)):
        candidates[place] = _candidate(
            outcome, reprieve.stays[index], order[index], breaking[index]
        )
    return [candidate for candidate in candidates if candidate is not None]


def _candidate(outcome: int, stays: list[bool], order: list[Pod], breaking: int) -> Candidate:
    if outcome != KEY_PASSES:
        return Candidate(outcome)
    victims = [pod for pod, stayed in zip(order, stays, strict=True) if not stayed]
    if not victims:
        return Candidate(FITS_WITHOUT_EVICTION)
    victims.sort(key=importance)
    return Candidate(KEY_PASSES, tuple(victims), stays[:breaking].count(False))


class _Reprieve:
    """Puts pods back, round by round, on rows that have at least one removable pod."""

    def __init__(
        self, dry_run: DryRun, rows: Rows, order: Sequence[list[Pod]],
        checks: Sequence[QuotaCheck | None],
    ) -> None:  # fmt: skip
        self._dry_run, self._rows, self._order, self._checks = dry_run, rows, order, checks
        self.stays: list[list[bool]] = [[] for _ in order]
        """For each row, whether each of its pods that were put back so far may stay."""
        self._nominated = dry_run.nominated_by_position(rows)

    def run(self) -> Rows:
        """The outcome of each row without its removable pods: KEY_PASSES, OVER_QUOTA or the key of
        a refusal. ``stays`` is complete for the rows that pass."""
        if not len(self._rows):
            return np.zeros(0, dtype=np.intp)
        table = self._dry_run.table
        flat = [pod for pods in self._order for pod in pods]
        loads = loads_of(table, flat)
        lengths = [len(pods) for pods in self._order]
        begins = np.array([0, *accumulate(lengths[:-1])], dtype=np.intp)
        books = table.books[self._rows]
        books[:, REQUESTED:] -= np.add.reduceat(loads, begins, axis=0)
        indices = np.arange(len(self._rows), dtype=np.intp)
        outcome = self._keys(indices, books, with_pod=False)
        passing = np.flatnonzero(outcome == KEY_PASSES)
        for index in passing.tolist():
            if (check := self._checks[index]) is not None and not check.fits:
                outcome[index] = OVER_QUOTA
        passing = passing[outcome[passing] == KEY_PASSES]
        number = np.array(lengths, dtype=np.intp)
        pod_index = 0
        while len(passing := passing[number[passing] > pod_index]):
            with_pod = books[passing]
            with_pod[:, REQUESTED:] += loads[begins[passing] + pod_index]
            fits = self._keys(passing, with_pod, with_pod=True) == KEY_PASSES
            self._apply_quota_checks(passing, fits, pod_index)
            books[passing[fits]] = with_pod[fits]
            for index, stays in zip(passing.tolist(), fits.tolist(), strict=True):
                self.stays[index].append(stays)
            pod_index += 1
        return outcome.astype(np.intp)

    def _apply_quota_checks(self, passing: Rows, fits: NDArray[np.bool_], pod_index: int) -> None:
        """Clears ``fits`` for the pods put back last that fit but break a quota."""
        for position, index in enumerate(passing.tolist()):
            check = self._checks[index]
            if check is not None and fits[position]:
                fits[position] = check.put_back(self._order[index][pod_index])

    def _keys(self, indices: Rows, books: np.ndarray[tuple[int, ...], np.dtype[np.int64]],
              *, with_pod: bool) -> Rows:  # fmt: skip
        """The verdicts on some rows. ``with_pod``: ``books`` includes the pod that was put back
        last."""

        def steps() -> list[PodStep]:
            pod_steps = []
            for position, index in enumerate(indices.tolist()):
                pods, stays = self._order[index], [*self.stays[index], *[True] * with_pod]
                for place, pod in enumerate(pods):
                    if place >= len(stays) or not stays[place] or pod.spec.host_ports:
                        pod_steps.append(PodStep(position, pod, -1))
                for pod, stayed in zip(pods, stays, strict=False):
                    # If two pods have the same host port, the last step counts (see TrialView).
                    if pod.spec.host_ports:
                        pod_steps.append(PodStep(position, pod, 1))
                        if not stayed:
                            pod_steps.append(PodStep(position, pod, -1))
            return pod_steps

        view = TrialView(self._dry_run.table, self._rows[indices], steps, books)
        nominated_by_position: dict[int, NominatedPods] = {}
        if self._nominated:
            nominated_by_position = {
                position: self._nominated[index]
                for position, index in enumerate(indices.tolist())
                if index in self._nominated
            }
        return self._dry_run.keys_with_nominated(view, nominated_by_position).astype(np.intp)
