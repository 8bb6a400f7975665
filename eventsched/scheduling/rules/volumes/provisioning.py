"""Where a volume can be provisioned for a claim: the class's topologies, and room in storage pools.

Upstream: plugins/volumebinding/binder.go checkVolumeProvisions, hasEnoughCapacity.
"""

import numpy as np
from numpy.typing import NDArray

from eventsched.domain.objects import NodeSelectorTerm
from eventsched.domain.objects.registry import (
    CSIDriver,
    CSIStorageCapacity,
    PersistentVolumeClaim,
    Registry,
    StorageClass,
)
from eventsched.scheduling.rules.volumes.claims import class_of
from eventsched.scheduling.rules.volumes.volume_topology import VolumeTopology

Bools = NDArray[np.bool_]

NO_PROVISIONER = "kubernetes.io/no-provisioner"
_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")


class Provisioning:
    """Provisioning rules over a registry. Pools by class are cached until a pool changes."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self._version: tuple[int, ...] = ()
        self._pools: dict[str, list[CSIStorageCapacity]] = {}

    def allowed(self, claim: PersistentVolumeClaim, reach: VolumeTopology) -> Bools:
        """bool[size]: whether the claim's class provisions volumes that the node can reach."""
        storage_class = self._class(claim)
        if storage_class is None or storage_class.provisioner in ("", NO_PROVISIONER):
            return np.zeros(reach.table.size, dtype=bool)
        if not storage_class.topologies:
            return np.ones(reach.table.size, dtype=bool)
        return reach.mask(
            tuple(NodeSelectorTerm(expressions=topology) for topology in storage_class.topologies)
        )

    def room(self, claim: PersistentVolumeClaim, reach: VolumeTopology) -> Bools:
        """bool[size]: whether there is room for a volume of the claim's size. True if
        nothing is requested or the driver does not report its capacity."""
        storage_class = self._class(claim)
        provisioner = "" if storage_class is None else storage_class.provisioner
        driver = self.registry.get(CSIDriver, provisioner)
        if not claim.requested or driver is None or not driver.capacity:
            return np.ones(reach.table.size, dtype=bool)
        has_room = np.zeros(reach.table.size, dtype=bool)
        for pool in self._of_class(class_of(claim)):
            limit = limit_of(pool)
            if limit is not None and limit >= claim.requested:
                has_room[reach.rows(_terms(pool))] = True
        return has_room

    def _class(self, claim: PersistentVolumeClaim) -> StorageClass | None:
        return self.registry.get(StorageClass, class_of(claim))

    def _of_class(self, name: str) -> list[CSIStorageCapacity]:
        version = self.registry.version(CSIStorageCapacity)
        if version != self._version:
            self._version, self._pools = version, {}
            for pool in self.registry.all(CSIStorageCapacity).values():
                self._pools.setdefault(pool.storage_class, []).append(pool)
        return self._pools.get(name, [])


def limit_of(pool: CSIStorageCapacity) -> int | None:
    """The size (bytes) of the largest volume that a pool has room for; None if it does not say
    (upstream: volumeLimit)."""
    return pool.capacity if pool.largest is None else pool.largest


def _terms(pool: CSIStorageCapacity) -> tuple[NodeSelectorTerm, ...] | None:
    """The nodes that can reach a pool: none without a topology, all with an empty one (upstream:
    nodeHasAccess); with a malformed selector none."""
    if pool.topology is None or any(e.operator not in _OPERATORS for e in pool.topology):
        return ()
    return (NodeSelectorTerm(expressions=pool.topology),) if pool.topology else None
