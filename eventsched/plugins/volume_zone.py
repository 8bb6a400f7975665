"""VolumeZone: a bound volume with zone or region labels can be used only on such nodes.

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
"""Label key → the key that replaces it, in upstream's order."""


class VolumeZoneLabel(NamedTuple):
    """A label of a volume, and the values that a node may have."""

    key: str
    values: frozenset[str]


class VolumeZone:
    """PreFilter gathers the labels of the pod's volumes, Filter compares them with the nodes'."""

    name = "VolumeZone"
    depends_on = DependsOn.NODE
    wakes_on = (ClusterEvent.NODE_ADD, ClusterEvent.NODE_UPDATE_LABEL)
    wakes_on_objects = (StorageClass, PersistentVolumeClaim, PersistentVolume)

    def sign(self, pod: Pod) -> Hashable:
        """The same for all pods without claims; None for pods with claims."""
        return None if pod.volumes and named_claims(pod) else ()

    def pre_filter(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> Status | None:
        """Refuses a pod with an unusable claim. Skips if no volume has such labels."""
        try:
            zone_labels = _zone_labels(pod, cycle.registry)
        except ValueError as problem:
            return Status.unresolvable(str(problem))
        if not zone_labels:
            return Status.skip()
        cycle.scratch[self.name] = zone_labels
        return None

    def filter(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> IntColumn:
        """1 if a label does not match; a node without any of the labels passes. If PreFilter is not
        enabled, the claims are checked here: 2 for all nodes if one is unusable."""
        if self.name not in cycle.scratch:
            try:
                cycle.scratch[self.name] = _zone_labels(pod, cycle.registry)
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
        """The reason, in upstream's words."""
        if code == 2:
            try:
                _zone_labels(pod, cycle.registry)
            except ValueError as problem:
                return Status.unresolvable(str(problem))
        return Status.unresolvable("node(s) had no available volume zone")

    def hint(self, cycle: Cycle, pod: Pod, change: Change) -> bool:
        """True for a new class that binds late, the pod's claim, a volume that is new or has other
        zone labels, and for node events."""
        new = change.new_object
        match new:
            case StorageClass():
                return change.old_object is None and new.binding_mode == WAITS
            case PersistentVolumeClaim():
                return uses(pod, new.namespace, new.name, ephemeral=False)
            case PersistentVolume():
                old = change.old_object
                return not isinstance(old, PersistentVolume) or _zone_labels_of(
                    old
                ) != _zone_labels_of(new)
        return change.event is not ClusterEvent.OBJECT_CHANGE


def _zone_labels(pod: Pod, registry: Registry) -> list[VolumeZoneLabel]:
    """The zone labels of the pod's bound volumes. Raises ValueError, in upstream's words, if a
    claim is unusable."""
    zone_labels: list[VolumeZoneLabel] = []
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
        zone_labels += _zone_labels_of(volume)
    return zone_labels


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


def _zone_labels_of(volume: PersistentVolume) -> list[VolumeZoneLabel]:
    """A volume's zone and region labels. A label with an empty value in its list is ignored."""
    zone_labels = []
    for key in _LABELS:
        if key in volume.labels:
            values = [value.strip() for value in volume.labels[key].split(ZONES_DELIMITER)]
            if all(values):
                zone_labels.append(VolumeZoneLabel(key, frozenset(values)))
    return zone_labels
