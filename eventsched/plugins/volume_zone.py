"""VolumeZone: a bound volume that is labelled with zones or regions is used there.

Upstream: plugins/volumezone/volume_zone.go.
"""

from collections.abc import Hashable
from typing import NamedTuple

import numpy as np

from eventsched.domain.objects import Pod
from eventsched.domain.objects.registry import (
    PersistentVolume,
    PersistentVolumeClaim,
    Registry,
    StorageClass,
)
from eventsched.scheduling.framework import (
    Change,
    ClusterEvent,
    Cycle,
    DependsOn,
    IntColumn,
    NodeView,
    Status,
)
from eventsched.scheduling.rules.volumes.claims import (
    WAITS,
    class_of,
    is_missing,
    mode_not_set,
    named_claims,
    uses,
)
from eventsched.scheduling.rules.volumes.csi_migration import (
    BETA_REGION,
    BETA_ZONE,
    REGION,
    ZONE,
    ZONES_DELIMITER,
)

_LABELS = {BETA_ZONE: ZONE, BETA_REGION: REGION, ZONE: ZONE, REGION: REGION}
"""The labels looked at, in upstream's order, with those that replace them."""


class VolumeZoneLabel(NamedTuple):
    """A label of a volume, and the values that a node's may have."""

    key: str
    values: frozenset[str]


class VolumeZone:
    """PreFilter gathers the labels of the pod's volumes, Filter compares them with the nodes'."""

    name = "VolumeZone"
    depends_on = DependsOn.NODE
    wakes_on = (ClusterEvent.NODE_ADD, ClusterEvent.NODE_UPDATE_LABEL)
    wakes_on_objects = (StorageClass, PersistentVolumeClaim, PersistentVolume)

    def sign(self, pod: Pod) -> Hashable:
        """Nothing for a pod that names no claim; with one the answer is its own."""
        return None if pod.volumes and named_claims(pod) else ()

    def pre_filter(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> Status | None:
        """What is wrong with the claims; nothing to do where no volume has such labels."""
        try:
            found = _topologies(pod, cycle.registry)
        except ValueError as problem:
            return Status.unresolvable(str(problem))
        if not found:
            return Status.skip()
        cycle.scratch[self.name] = found
        return None

    def filter(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> IntColumn:
        """1 where a label does not fit; a node with none of the labels is let pass. Where PreFilter
        is not enabled the claims are looked at here, and 2 everywhere says that one is wrong."""
        if self.name not in cycle.scratch:
            try:
                cycle.scratch[self.name] = _topologies(pod, cycle.registry)
            except ValueError:
                return np.full(len(nodes), 2, dtype=np.int64)
        labelled = np.zeros(len(nodes), dtype=bool)
        for key in _LABELS:
            labelled |= nodes.label(key, lambda value: value is not None).astype(bool)
        refused = np.zeros(len(nodes), dtype=bool)
        for key, values in cycle.scratch[self.name]:
            fits = nodes.label(key, values.__contains__)
            if _LABELS[key] != key:
                lacks = nodes.label(key, lambda value: value is None).astype(bool)
                newer = nodes.label(_LABELS[key], values.__contains__)
                fits = np.where(lacks, newer, fits)
            refused |= fits == 0
        return refused & labelled

    def explain(self, cycle: Cycle, pod: Pod, code: int) -> Status:
        """Upstream's words."""
        if code == 2:
            try:
                _topologies(pod, cycle.registry)
            except ValueError as problem:
                return Status.unresolvable(str(problem))
        return Status.unresolvable("node(s) had no available volume zone")

    def hint(self, cycle: Cycle, pod: Pod, change: Change) -> bool:
        """A class that waits for pods, the pod's claim, a volume that is new or has other labels,
        or a node that is new or has."""
        new = change.new_object
        match new:
            case StorageClass():
                return change.old_object is None and new.binding_mode == WAITS
            case PersistentVolumeClaim():
                return uses(pod, new.namespace, new.name, ephemeral=False)
            case PersistentVolume():
                old = change.old_object
                return not isinstance(old, PersistentVolume) or _labels(old) != _labels(new)
        return change.event is not ClusterEvent.OBJECT_CHANGE


def _topologies(pod: Pod, registry: Registry) -> list[VolumeZoneLabel]:
    """Raises ValueError, with upstream's words, for a claim that cannot be used."""
    found = []
    for name in named_claims(pod):
        if not name:
            raise ValueError("PersistentVolumeClaim had no name")
        claim = registry.get(PersistentVolumeClaim, name, pod.namespace)
        if claim is None:
            raise ValueError(is_missing(name))
        if not claim.volume:
            _check_unbound(claim, registry)
            continue
        volume = registry.get(PersistentVolume, claim.volume)
        if volume is None:
            raise ValueError(f'persistentvolume "{claim.volume}" not found')
        found += _labels(volume)
    return found


def _check_unbound(claim: PersistentVolumeClaim, registry: Registry) -> None:
    name = class_of(claim)
    if not name:
        raise ValueError("PersistentVolumeClaim had no pv name and storageClass name")
    storage_class = registry.get(StorageClass, name)
    if storage_class is None:
        raise ValueError(f'storageclass.storage.k8s.io "{name}" not found')
    if not storage_class.binding_mode:
        raise ValueError(mode_not_set(name))
    if storage_class.binding_mode != WAITS:
        raise ValueError("PersistentVolume had no name")


def _labels(volume: PersistentVolume) -> list[VolumeZoneLabel]:
    """A volume's labels of zones and regions; one with an empty name in it is passed over."""
    found = []
    for key in _LABELS:
        if key in volume.labels:
            values = [each.strip() for each in volume.labels[key].split(ZONES_DELIMITER)]
            if all(values):
                found.append(VolumeZoneLabel(key, frozenset(values)))
    return found
