"""What a shadow would have done otherwise: its comparisons with the real placements, summed up.

The log is read once. Memory grows with the pods that are in the cluster, and by 16 bytes for each
comparison.
"""

from array import array
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from eventsched.domain import records
from eventsched.domain.int64 import Int64s
from eventsched.domain.nodes.node_table import ALLOCATABLE, REQUESTED, NodeTable
from eventsched.domain.objects import CPU, MEMORY
from eventsched.domain.records import Outcome, PlacementCompared, PlacementMatch
from eventsched.domain.state.scheduler_state import SchedulerState
from eventsched.eventlog.port import StoredRecord
from eventsched.history.decision_vectors import DecisionVectors
from eventsched.history.explain.evidence import Evidence

SHOWN = 20
"""Differing pods that the report names, the newest."""
LOOKED_AT = 200
"""Differing pods, the newest, of which the scores of both nodes are compared plugin by plugin."""
NO_PLUGIN = "(as the cluster shows it)"
"""Stands for the plugin if the node is not known here."""


class DifferingPod(NamedTuple):
    """A pod that the two placed differently. ``position`` is that of the comparison, ``decided``
    that of the shadow's attempt; None if it is from before the part of the log that was read."""

    name: str
    position: int
    decided: int | None
    compared: PlacementCompared


class UsedNodes(NamedTuple):
    """How full the nodes are that have pods: their number, and by resource the mean and the largest
    share (0..1) of what is allocatable."""

    nodes: int
    mean: Mapping[str, float]
    largest: Mapping[str, float]


class _Arrival(NamedTuple):
    name: str
    at: int | None


@dataclass
class ShadowReport:
    """The sums. Times are in µs.

    - ``refused``: (plugin, reason) → pods that are on a node that is refused here.
    - ``equal`` and ``lower``: of pods whose both nodes pass the filters here, those whose totals
      are equal, and those whose real node has the lower total. In the rest it has the higher one,
      because nodes changed after the attempt.
    - ``waits_here`` and ``waits_there``: from a pod's arrival to the shadow's decision, and to the
      real placement.
    - ``first_here`` and ``first_there``: pods that the shadow decided before the real placement
      arrived, and pods that it decided only then or not at all.
    """

    outcomes: Counter[PlacementMatch] = field(default_factory=Counter)
    refused: Counter[tuple[str, str]] = field(default_factory=Counter)
    equal: int = 0
    lower: int = 0
    first_here: int = 0
    first_there: int = 0
    waits_here: "array[int]" = field(default_factory=lambda: array("q"))
    waits_there: "array[int]" = field(default_factory=lambda: array("q"))
    differing: "deque[DifferingPod]" = field(default_factory=lambda: deque(maxlen=LOOKED_AT))
    chosen: dict[str, str] = field(default_factory=dict)
    """Uid of a pod that is on another node than the shadow chose → that node, "" for none."""

    @property
    def compared(self) -> int:
        """Pods that were placed by the other scheduler after the shadow had seen them."""
        return self.outcomes.total() - self.outcomes[PlacementMatch.ONLY_HERE]

    @property
    def agreement(self) -> float | None:
        """The share (0..1) of the pods that both placed whose node is the same; None if there is
        none."""
        both = self.outcomes[PlacementMatch.SAME] + self.outcomes[PlacementMatch.DIFFERENT]
        return self.outcomes[PlacementMatch.SAME] / both if both else None


def shadow_report(log: Iterable[StoredRecord], begin: int, before: SchedulerState) -> ShadowReport:
    """The report of a part of a shadow's log. ``before`` is the state at its beginning; comparisons
    before position ``begin`` are not counted."""
    reading = _Reading(begin, before)
    for stored in log:
        if (follow := reading.branches.get(stored.kind)) is not None:
            follow(stored, stored.record)
    return reading.report


class _Reading:
    def __init__(self, begin: int, before: SchedulerState) -> None:
        self.report = ShadowReport()
        self._begin = begin
        self._arrivals = {
            uid: _Arrival(f"{each.pod.namespace}/{each.pod.name}", None)
            for uid, each in before.pods.items()
            if before.is_followed(each)
        }
        self._decided: dict[str, StoredRecord] = {}
        """Pods that wait for the other scheduler → the attempt that chose a node."""
        self.branches: dict[str, Any] = {
            "PodAdded": self._added, "PodDecided": self._decide, "PodDeleted": self._deleted,
            "PlacementCompared": self._compared,
        }  # fmt: skip

    def _added(self, stored: StoredRecord, added: records.PodAdded) -> None:
        pod = added.pod
        if not pod.node_name:
            self._arrivals[pod.uid] = _Arrival(f"{pod.namespace}/{pod.name}", stored.at)

    def _decide(self, stored: StoredRecord, decided: records.PodDecided) -> None:
        if decided.outcome in (Outcome.SCHEDULED, Outcome.WAITING):
            self._decided[decided.uid] = stored

    def _deleted(self, _: StoredRecord, deleted: records.PodDeleted) -> None:
        """If a node was chosen here, PlacementCompared follows, which is only counted."""
        for known in (self.report.chosen, self._arrivals, self._decided):
            known.pop(deleted.uid, None)

    def _compared(self, stored: StoredRecord, compared: PlacementCompared) -> None:
        uid, report = compared.uid, self.report
        arrival = self._arrivals.pop(uid, _Arrival(uid, None))
        attempt = self._decided.pop(uid, None)
        if stored.position < self._begin:
            return
        report.outcomes[compared.outcome] += 1
        if compared.outcome is PlacementMatch.ONLY_HERE:
            return
        self._time(stored, arrival, attempt, compared)
        if compared.outcome not in (PlacementMatch.DIFFERENT, PlacementMatch.ONLY_THERE):
            return
        report.chosen[uid] = compared.chosen
        decided = attempt.position if attempt is not None and compared.chosen else None
        report.differing.append(DifferingPod(arrival.name, stored.position, decided, compared))
        if not compared.feasible:
            reason = ", ".join(compared.reasons)
            report.refused[compared.plugin or NO_PLUGIN, reason] += 1
        elif compared.chosen:
            report.equal += compared.score == compared.chosen_score
            report.lower += compared.score < compared.chosen_score

    def _time(
        self,
        stored: StoredRecord,
        arrival: _Arrival,
        attempt: StoredRecord | None,
        compared: PlacementCompared,
    ) -> None:
        report = self.report
        is_here = bool(compared.chosen) and attempt is not None
        if is_here and attempt is not None and attempt.at < stored.at:
            report.first_here += 1
        else:
            report.first_there += 1
        if arrival.at is not None:
            report.waits_there.append(stored.at - arrival.at)
            if is_here and attempt is not None:
                report.waits_here.append(attempt.at - arrival.at)


def deciding_plugins(report: ShadowReport, evidence: Evidence) -> Counter[str]:
    """Of the differing pods whose both nodes pass the filters here, the newest: the plugin whose
    weighted score spoke most for the shadow's node at the attempt, with the number of pods. Pods
    whose nodes were equally good, or whose scores the log does not have, are left out."""
    found: Counter[str] = Counter()
    for each in report.differing:
        if each.decided is None or not each.compared.feasible:
            continue
        detail = evidence.detail(each.decided)
        decided = evidence.records_at([each.decided])[each.decided].record
        if detail is None or not isinstance(decided, records.PodDecided):
            continue
        vectors = DecisionVectors(
            decided, detail, evidence.nodes(each.decided), evidence.columns(decided.scoring)
        )
        plugin = _deciding_plugin(vectors, each.compared)
        if plugin:
            found[plugin] += 1
    return found


def _deciding_plugin(vectors: DecisionVectors, compared: PlacementCompared) -> str:
    """The plugin with the largest difference in favour of the chosen node; "" for none."""
    rows = vectors.present.get(compared.chosen), vectors.present.get(compared.node)
    if rows[0] is None or rows[1] is None or vectors.codes[rows[1]]:
        return ""
    here, there = (vectors.score(row).parts for row in rows if row is not None)
    lead, plugin = max(
        (
            (one.weighted - other.weighted, one.plugin)
            for one, other in zip(here, there, strict=True)
        ),
        default=(0, ""),
    )
    return plugin if lead > 0 else ""


def used_nodes(state: SchedulerState) -> UsedNodes:
    """How full the nodes are, by the placements in the cluster."""
    return _used(state.nodes, state.nodes.books[:, REQUESTED].copy(), Counter())


def used_nodes_here(state: SchedulerState, chosen: Mapping[str, str]) -> UsedNodes:
    """The same, if each pod of ``chosen`` were on the node that the shadow chose. Pods and nodes
    that are gone do not count, and each choice was made beside the real placements before it."""
    table = state.nodes
    requested = table.books[:, REQUESTED].copy()
    moved: Counter[int] = Counter()
    for uid, node in chosen.items():
        pod_state = state.pods.get(uid)
        if pod_state is None or pod_state.row < 0:
            continue
        load = table.load(pod_state.pod.spec)[0]
        requested[pod_state.row, : len(load)] -= load
        moved[pod_state.row] -= 1
        if (row := table.rows.get(node, -1)) >= 0:
            requested[row, : len(load)] += load
            moved[row] += 1
    return _used(table, requested, moved)


def _used(table: NodeTable, requested: Int64s, moved: Counter[int]) -> UsedNodes:
    """``moved`` is by how many pods a row has more."""
    rows = [row for row in table.rows.values() if len(table.residents[row]) + moved[row] > 0]
    mean: dict[str, float] = {}
    largest: dict[str, float] = {}
    for resource in (CPU, MEMORY):
        index = table.resource_index[resource]
        room = table.books[rows, ALLOCATABLE, index]
        shares = requested[rows, index] / np.maximum(room, 1)
        mean[resource] = float(shares.mean()) if rows else 0.0
        largest[resource] = float(shares.max()) if rows else 0.0
    return UsedNodes(len(rows), mean, largest)
