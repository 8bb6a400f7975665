"""The NUMA zones of all nodes as arrays over nodes, zones and resources.

A row is written again when its node's report, its pods or the node itself have changed. Derived:
rebuilding gives the same arrays.
"""

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from eventsched.domain.journal import Rows
from eventsched.domain.nodes.node_table import NodeTable
from eventsched.domain.objects import Resources
from eventsched.domain.objects.registry import NodeResourceTopology
from eventsched.domain.state.numa_zones import (
    Topologies,
    ZoneReport,
    is_exclusive,
    zone_request,
    zone_resources,
)

Int64s = NDArray[np.int64]
Bools = NDArray[np.bool_]

UNKNOWN_COST = 255
"""The distance to a zone if none is reported."""
ABSENT = -1
"""The number of a zone that a node does not have."""

_RESOURCES = 64
"""The number of columns beyond which unused ones are dropped."""

PASSTHROUGH, OVER_RESERVE, DISCARD = range(3)
"""How a node's NodeResourceTopology is read.

- PASSTHROUGH: the newest object, unchanged.
- OVER_RESERVE: the current object, minus the requests of pods that it does not cover.
- DISCARD: the newest object; none while a bind to the node is in progress.
"""


class Reading(NamedTuple):
    """How reports are read. ``is_foreign`` says whether a name is that of another scheduler. A pod
    of such a scheduler makes a node's numbers stale until an object covers the pod; with
    ``only_exclusive``, only a pod with exclusive resources does."""

    mode: int = PASSTHROUGH
    is_foreign: Callable[[str], bool] = lambda scheduler: False
    only_exclusive: bool = False


class Zones(NamedTuple):
    """Some rows' zones, by ascending number. ``numbers`` is int64[n, z], ABSENT for none;
    ``reported`` (bool[n, z, r]) marks the resources that a zone reports, ``available``
    (int64[n, z, r]) how much of them is free, 0 if not reported; ``costs`` is int64[n, z, z];
    ``places`` maps a resource to its position on the last axis."""

    numbers: Int64s
    reported: Bools
    available: Int64s
    costs: Int64s
    places: Mapping[str, int]

    def picked(self, rows: Rows | Bools) -> "Zones":
        """Some of the rows: a copy."""
        return Zones(
            numbers=self.numbers[rows],
            reported=self.reported[rows],
            available=self.available[rows],
            costs=self.costs[rows],
            places=self.places,
        )

    def reports(self, resource: str) -> Bools:
        """bool[n, z]: which zones report a resource."""
        place = self.places.get(resource)
        return np.zeros(self.numbers.shape, bool) if place is None else self.reported[:, :, place]

    def free(self, resource: str) -> Int64s:
        """int64[n, z]: how much of a resource is free."""
        place = self.places.get(resource)
        empty = np.zeros(self.numbers.shape, np.int64)
        return empty if place is None else self.available[:, :, place]


class ZoneColumns:
    """The zones of all rows of a table."""

    def __init__(self, table: NodeTable, topologies: Topologies, reading: Reading) -> None:
        self.table, self.topologies, self.reading = table, topologies, reading
        self._seen: tuple[int, int] | None = None
        self._index: dict[str, int] = {}
        self._most_resources = _RESOURCES
        self._allocate(0, 1, 1)

    def _allocate(self, size: int, zones: int, resources: int) -> None:
        self.known: Bools = np.zeros(size, dtype=bool)
        """bool[size]: whether the node has an object."""
        self.stale: Bools = np.zeros(size, dtype=bool)
        """bool[size]: whether its numbers cannot be used now."""
        self.single: Bools = np.zeros(size, dtype=bool)
        """bool[size]: whether its policy is single-numa-node."""
        self.by_pod: Bools = np.zeros(size, dtype=bool)
        """bool[size]: whether its scope is the pod, not the container."""
        self.most: Int64s = np.full(size, 8, dtype=np.int64)
        """int64[size]: how many zones its topology manager combines at most."""
        self._numbers: Int64s = np.full((size, zones), ABSENT, dtype=np.int64)
        self._reported: Bools = np.zeros((size, zones, resources), dtype=bool)
        self._available: Int64s = np.zeros((size, zones, resources), dtype=np.int64)
        self._costs: Int64s = np.full((size, zones, zones), UNKNOWN_COST, dtype=np.int64)

    def zones(self, rows: Rows) -> Zones:
        """The zones of some rows: a copy."""
        return Zones(
            numbers=self._numbers[rows],
            reported=self._reported[rows],
            available=self._available[rows],
            costs=self._costs[rows],
            places=self._index,
        )

    def refresh(self) -> None:
        """Applies the changes since the last refresh."""
        table, topologies = self.table, self.topologies
        now = (table.node_journal.end, topologies.end)
        if self._seen == now:
            return
        reports = {name: self._read(name) for name in self._changed()}
        self._fit(reports)
        if len(self._index) > self._most_resources:
            # Otherwise names that no object has any longer would stay forever.
            self._seen = None
            reports = {name: self._read(name) for name in self._changed()}
            self._fit(reports)
            self._most_resources = max(_RESOURCES, 2 * len(self._index))
        self._seen = now
        for name, topology_and_report in reports.items():
            row = table.rows.get(name)
            if row is not None:
                self._write(row, *topology_and_report)

    def _changed(self) -> Collection[str]:
        table, topologies = self.table, self.topologies
        if self._seen is not None:
            rows, names = table.node_journal.since(self._seen[0]), topologies.since(self._seen[1])
            if rows is not None and names is not None:
                return {*names, *(table.names[row] for row in rows.tolist())}
        self._index = {}
        self._allocate(0, 1, 1)
        return topologies.all().keys()

    def _read(self, name: str) -> tuple[NodeResourceTopology | None, ZoneReport | None]:
        report = self.topologies.of(name)
        if report is None:
            return None, None
        holds = self.reading.mode == OVER_RESERVE
        return (report.current if holds else self.topologies.newest(name)), report

    def _fit(
        self, reports: Mapping[str, tuple[NodeResourceTopology | None, ZoneReport | None]]
    ) -> None:
        """Grows the arrays to the size that these reports need, and keeps their content."""
        zones, resources = self._numbers.shape[1], self._reported.shape[2]
        for topology, _ in reports.values():
            if topology is not None:
                zones = max(zones, len(topology.zones))
                for name in sorted(zone_resources(topology)):
                    self._index.setdefault(name, len(self._index))
        while resources < len(self._index):
            resources *= 2
        size = len(self.known)
        if size < self.table.size:
            size = max(self.table.size, size + size // 2)
        if (size, zones, resources) == (len(self.known), *self._reported.shape[1:]):
            return
        old = (self.known, self.stale, self.single, self.by_pod, self.most, self._numbers,
               self._reported, self._available, self._costs)  # fmt: skip
        self._allocate(size, zones, resources)
        new = (self.known, self.stale, self.single, self.by_pod, self.most, self._numbers,
               self._reported, self._available, self._costs)  # fmt: skip
        for before, after in zip(old, new, strict=True):
            after[tuple(slice(0, length) for length in before.shape)] = before

    def _write(
        self, row: int, topology: NodeResourceTopology | None, report: ZoneReport | None
    ) -> None:
        self.known[row] = topology is not None
        self.stale[row] = report is not None and self._is_stale(report)
        self._numbers[row], self._costs[row] = ABSENT, UNKNOWN_COST
        self._reported[row], self._available[row] = False, 0
        self.single[row] = topology is not None and topology.policy == "single-numa-node"
        if topology is None or report is None:
            return
        self.by_pod[row] = topology.scope == "pod"
        self.most[row] = topology.most_zones
        places = {zone.number: place for place, zone in enumerate(topology.zones)}
        taken = self._taken(report)
        for place, zone in enumerate(topology.zones):
            self._numbers[row, place] = zone.number
            for number, cost in zone.costs:
                if number in places:
                    self._costs[row, place, places[number]] = cost
            for name, amount in zone.available.items():
                index = self._index[name]
                self._reported[row, place, index] = True
                left = amount - taken.get(name, 0)
                self._available[row, place, index] = max(0, left) if name in taken else amount

    def _is_stale(self, report: ZoneReport) -> bool:
        pods = self.topologies.pod
        if self.reading.mode == DISCARD:
            return any(is_ours and not pods(uid).bound for uid, is_ours in report.uncovered.items())
        if self.reading.mode != OVER_RESERVE:
            return False
        foreign = [
            pod
            for uid, is_ours in report.uncovered.items()
            if not is_ours and self.reading.is_foreign((pod := pods(uid).pod).scheduler_name)
        ]
        names = zone_resources(report.current)
        return any(not self.reading.only_exclusive or is_exclusive(pod, names) for pod in foreign)

    def _taken(self, report: ZoneReport) -> Resources:
        """The requests of pods that this scheduler placed and no object covers. They are taken from
        every zone, because the zone that the kubelet will choose is unknown."""
        taken: Resources = {}
        if self.reading.mode == OVER_RESERVE:
            for uid, is_ours in report.uncovered.items():
                if is_ours:
                    for name, amount in zone_request(self.topologies.pod(uid).pod.spec).items():
                        taken[name] = taken.get(name, 0) + amount
        return taken
