"""What happens to a pod's claims on each node: the verdicts and choices of VolumeBinding.

Upstream: plugins/volumebinding/binder.go GetPodVolumeClaims, FindPodVolumes; for all nodes at once.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from eventsched.domain.nodes.node_table import NodeTable
from eventsched.domain.objects import NodeSelectorTerm, Pod
from eventsched.domain.objects.registry import (
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    Registry,
)
from eventsched.scheduling.rules.selection import SelectorError, check
from eventsched.scheduling.rules.volumes.claims import claims_of, class_of, is_bound, waits_for_pod
from eventsched.scheduling.rules.volumes.csi_migration import (
    MIGRATIONS,
    TranslationError,
    migrated_terms,
)
from eventsched.scheduling.rules.volumes.provisioning import Provisioning
from eventsched.scheduling.rules.volumes.volume_topology import VolumeTopology
from eventsched.scheduling.rules.volumes.volumes_by_class import (
    NONE,
    ClaimKey,
    Shelves,
    VolumesByClass,
)

Int64s = NDArray[np.int64]
Bools = NDArray[np.bool_]

UNREACHABLE, UNMATCHED, NO_ROOM, NO_VOLUME, BROKEN = 1, 2, 4, 8, 16
"""Bits of a code, in the order of upstream's reasons. A code of BROKEN or more is an error: BROKEN
plus its index in ``VolumePlan.errors``."""


class Claims(NamedTuple):
    """A pod's claims: bound ones, those to be bound when a pod uses them, and those that should
    be bound already."""

    bound: list[PersistentVolumeClaim]
    waiting: list[PersistentVolumeClaim]
    late: list[PersistentVolumeClaim]


def sorted_out(pod: Pod, registry: Registry) -> Claims:
    """A pod's claims by state, without unknown ones. Raises ValueError if a class is incomplete."""
    claims = Claims([], [], [])
    for name, _ in claims_of(pod):
        claim = registry.get(PersistentVolumeClaim, name, pod.namespace)
        if claim is None:
            continue
        if is_bound(claim):
            claims.bound.append(claim)
        elif waits_for_pod(claim, registry) and not claim.volume:
            claims.waiting.append(claim)
        else:
            claims.late.append(claim)
    return claims


class Assumed(NamedTuple):
    """What pods in flight have reserved: volume → its claim, claim → the node of its new volume."""

    volumes: Mapping[str, ClaimKey]
    nodes: Mapping[ClaimKey, str]


class Match(NamedTuple):
    """A claim, and on each row the number of its volume on the shelf, or NONE."""

    claim: PersistentVolumeClaim
    shelf: VolumesByClass
    chosen: Int64s


@dataclass
class VolumePlan:
    """The outcome on each row. ``codes`` is int64[size], see above; ``made`` are the claims
    to provision, each with the rows (bool[size]) where it has to be."""

    codes: Int64s
    matches: list[Match] = field(default_factory=list)
    made: list[tuple[PersistentVolumeClaim, Bools]] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


class VolumeStock:
    """Computes plans. Derived from a table and a registry, and follows both."""

    def __init__(self, table: NodeTable, registry: Registry) -> None:
        self.table, self.registry = table, registry
        self.reach = VolumeTopology(table)
        self.shelves = Shelves(registry)
        self.provisioning = Provisioning(registry)
        self._migrated: dict[str, tuple[Any, Bools]] = {}

    def plan(self, claims: Claims, assumed: Assumed) -> VolumePlan:
        """The outcome for the claims on each row."""
        self.reach.refresh()
        plan = VolumePlan(np.zeros(self.table.size, dtype=np.int64))
        self._check_bound(plan, claims.bound)
        if claims.waiting:
            self._check_waiting(plan, claims.waiting, assumed)
        return plan

    def reaches(self, volume: PersistentVolume, row: int) -> bool:
        """Whether the node of a row can reach a volume. Raises TranslationError."""
        self.reach.refresh()
        terms, migration = volume.node_terms, MIGRATIONS.get(volume.source)
        if migration is not None and self._migrated_rows(migration.plugin)[row]:
            terms = migrated_terms(volume)
        return bool(self.reach.mask(terms)[row])

    def _check_bound(self, plan: VolumePlan, claims: list[PersistentVolumeClaim]) -> None:
        """Upstream: checkBoundClaims; the first claim that fails on a row decides."""
        undecided = np.ones(self.table.size, dtype=bool)
        for claim in claims:
            volume = self.registry.get(PersistentVolume, claim.volume)
            if volume is None:
                plan.codes[undecided] = NO_VOLUME
                return
            here = self.reach.mask(volume.node_terms)
            if volume.source in MIGRATIONS:
                here = self._migrated_reach(plan, volume, here, undecided)
            fails = undecided & ~here
            plan.codes[fails] |= UNREACHABLE
            undecided &= here

    def _migrated_reach(
        self, plan: VolumePlan, volume: PersistentVolume, here: Bools, undecided: Bools
    ) -> Bools:
        """The rows that reach an in-tree volume: nodes where its CSI driver has replaced the plugin
        have zones under other labels."""
        rows = self._migrated_rows(MIGRATIONS[volume.source].plugin)
        if not rows.any():
            return here
        try:
            return np.where(rows, self.reach.mask(migrated_terms(volume)), here)
        except TranslationError as problem:
            plan.errors.append(f"could not translate pv: {problem}")
            plan.codes[rows & undecided] = BROKEN + len(plan.errors) - 1
            undecided &= ~rows
            return here

    def _migrated_rows(self, plugin: str) -> Bools:
        version = (self.registry.version(CSINode), self.table.node_journal.end)
        cached = self._migrated.get(plugin)
        if cached is None or cached[0] != version:
            column = np.zeros(self.table.size, dtype=bool)
            for csi_node in self.registry.all(CSINode).values():
                if plugin in csi_node.migrated and csi_node.name in self.table.rows:
                    column[self.table.rows[csi_node.name]] = True
            cached = self._migrated[plugin] = (version, column)
        return cached[1]

    def _check_waiting(
        self, plan: VolumePlan, claims: list[PersistentVolumeClaim], assumed: Assumed
    ) -> None:
        """Upstream: the second half of FindPodVolumes."""
        undecided = plan.codes < BROKEN
        to_match = []
        for claim in claims:
            key = (claim.namespace, claim.name, claim.uid)
            node = assumed.nodes.get(key, claim.selected_node)
            if not node:
                to_match.append(claim)
                continue
            here = np.zeros(self.table.size, dtype=bool)
            if node in self.table.rows:
                here[self.table.rows[node]] = True
            plan.codes[undecided & ~here] |= UNMATCHED
            undecided &= here
            plan.made.append((claim, np.ones(self.table.size, dtype=bool)))
        self._match(plan, to_match, assumed, undecided)
        self._make(plan, undecided)

    def _match(
        self,
        plan: VolumePlan,
        claims: list[PersistentVolumeClaim],
        assumed: Assumed,
        undecided: Bools,
    ) -> None:
        """Chooses existing volumes, smallest claims first (upstream: findMatchingVolumes)."""
        for claim in sorted(claims, key=lambda claim: claim.requested):
            problem = _malformed(claim)
            if problem:
                plan.errors.append(problem)
                plan.codes[undecided] = BROKEN + len(plan.errors) - 1
                undecided[:] = False
                return
            shelf = self.shelves.shelf(class_of(claim))
            taken = [match.chosen for match in plan.matches if match.shelf is shelf]
            chosen = shelf.choose(claim, assumed.volumes, taken, self.reach)
            plan.matches.append(Match(claim, shelf, chosen))
            plan.made.append((claim, chosen == NONE))

    def _make(self, plan: VolumePlan, undecided: Bools) -> None:
        """Checks the volumes that have to be provisioned (upstream: checkVolumeProvisions)."""
        for claim, rows in plan.made:
            due = undecided & rows
            if not due.any():
                continue
            refused = due & ~self.provisioning.allowed(claim, self.reach)
            plan.codes[refused] |= UNMATCHED
            undecided &= ~refused
            due &= ~refused
            if due.any():
                full = due & ~self.provisioning.room(claim, self.reach)
                plan.codes[full] |= NO_ROOM
                undecided &= ~full


def _malformed(claim: PersistentVolumeClaim) -> str:
    """The problem with a claim's selector, "" if there is none."""
    prefix = f"error creating internal label selector for claim: {claim.namespace}/{claim.name}"
    for requirement in claim.selector or ():
        if requirement.operator not in ("In", "NotIn", "Exists", "DoesNotExist"):
            return f'{prefix}: "{requirement.operator}" is not a valid label selector operator'
    try:
        check(NodeSelectorTerm(expressions=claim.selector or ()))
    except SelectorError as problem:
        return f"{prefix}: {problem}"
    return ""
