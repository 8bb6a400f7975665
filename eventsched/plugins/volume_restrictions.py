"""VolumeRestrictions: a ReadWriteOncePod claim has one pod, and some in-tree disks one a node.

Upstream: plugins/volumerestrictions/volume_restrictions.go.
"""

from collections.abc import Hashable
from typing import NamedTuple

import numpy as np

from eventsched.domain.nodes.volumes_in_use import claim_use, use_of
from eventsched.domain.objects import Pod, PodVolume
from eventsched.domain.objects.registry import PersistentVolumeClaim, Registry
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
    NAMELESS,
    ONE_POD,
    is_missing,
    named_claims,
    uses,
)

_DISKS = frozenset({"gcePersistentDisk", "awsElasticBlockStore", "iscsi", "rbd"})
_DISK, _ONE_POD = 1, 2


class Exclusive(NamedTuple):
    """A pod's ReadWriteOncePod claims, and how many of them pods on nodes use already."""

    claims: frozenset[str]
    used: int


_NONE = Exclusive(frozenset(), 0)


class VolumeRestrictions:
    """PreFilter looks for users of the pod's claims, Filter for those of its disks."""

    name = "VolumeRestrictions"
    depends_on = DependsOn.USAGE
    wakes_on = (ClusterEvent.ASSIGNED_POD_DELETE, ClusterEvent.NODE_ADD)
    wakes_on_objects = (PersistentVolumeClaim,)

    def sign(self, pod: Pod) -> Hashable:
        """Nothing for a pod without such volumes; with them the answer is its own."""
        return None if any(_concerns(each) for each in pod.volumes) else ()

    def pre_filter(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> Status | None:
        """Refused for a claim that is not there; nothing to do where nobody uses the claims and
        there are no disks."""
        try:
            claims = _exclusive(pod, cycle.registry)
        except KeyError as missing:
            return Status.unresolvable(is_missing(missing.args[0]))
        used = sum(bool(nodes.table.volumes.users(claim_use(pod.namespace, c))) for c in claims)
        if not used and not any(each.source in _DISKS for each in pod.volumes):
            return Status.skip()
        cycle.scratch[self.name] = Exclusive(claims, used)
        return None

    def filter(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> IntColumn:
        """1 where a pod has one of the disks, 2 where the claims are in use. In a trial they are
        free where their users have gone from the row."""
        exclusive: Exclusive = cycle.scratch.get(self.name, _NONE)
        in_use = np.full(len(nodes), exclusive.used, dtype=np.int64)
        # As upstream, which counts the names alone, a pod of another namespace counts as well.
        step = nodes.step(lambda other: _names(other, exclusive.claims))
        if exclusive.claims and step is not None:
            in_use += step
        codes = np.where(in_use > 0, _ONE_POD, 0)
        if any(each.source in _DISKS for each in pod.volumes):
            codes[self._conflicts(pod, nodes) > 0] = _DISK
        return codes

    def explain(self, cycle: Cycle, pod: Pod, code: int) -> Status:
        """Upstream's words."""
        if code == _DISK:
            return Status.unschedulable("node(s) had no available disk")
        return Status.unschedulable(
            "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode "
            "already in-use by another pod"
        )

    def hint(self, cycle: Cycle, pod: Pod, change: Change) -> bool:
        """A new node; the pod's claim is there now; a pod is gone that had one of its disks or
        claims."""
        if change.event is ClusterEvent.OBJECT_CHANGE:
            new = change.new_object
            return (
                new is not None
                and change.old_object is None
                and uses(pod, new.namespace, new.name, ephemeral=False)
            )
        if change.event is ClusterEvent.ASSIGNED_POD_DELETE and change.pod is not None:
            gone = change.pod
            return gone.namespace == pod.namespace and (
                _excludes(gone, pod) or not set(named_claims(gone)).isdisjoint(named_claims(pod))
            )
        return True

    def _conflicts(self, pod: Pod, nodes: NodeView) -> IntColumn:
        """int64[n]: pods on the row that have one of the pod's disks."""
        column = np.zeros(nodes.table.size, dtype=np.int64)
        seen = set()
        for volume in pod.volumes:
            use = use_of(pod, volume) if volume.source in _DISKS else None
            for uid, (row, other) in nodes.table.volumes.users(use).items() if use else ():
                if uid not in seen and _excludes(other, pod):
                    seen.add(uid)
                    column[row] += 1
        found = column[nodes.rows]
        step = nodes.step(lambda other: _excludes(other, pod))
        return found if step is None else found + step


def _concerns(volume: PodVolume) -> bool:
    named = volume.claim and not volume.ephemeral
    return bool(named) or volume.source in _DISKS or volume.source == NAMELESS


def _exclusive(pod: Pod, registry: Registry) -> frozenset[str]:
    """The pod's claims that only one pod may use. Raises KeyError for one that is not there."""
    found = set()
    for name in named_claims(pod):
        claim = registry.get(PersistentVolumeClaim, name, pod.namespace)
        if claim is None:
            raise KeyError(name)
        if ONE_POD in claim.access_modes:
            found.add(name)
    return frozenset(found)


def _names(pod: Pod, claims: frozenset[str]) -> int:
    """How many of a pod's volumes are one of these claims."""
    return sum(name in claims for name in named_claims(pod)) if pod.volumes and claims else 0


def _excludes(other: Pod, pod: Pod) -> bool:
    """Whether a pod on a node keeps another from it by a disk (upstream: isVolumeConflict)."""
    return any(
        _conflict(mine, theirs)
        for mine in pod.volumes
        if mine.source in _DISKS
        for theirs in other.volumes
        if theirs.source == mine.source
    )


def _conflict(mine: PodVolume, theirs: PodVolume) -> bool:
    if mine.source == "awsElasticBlockStore":
        return mine.identity == theirs.identity
    if mine.read_only and theirs.read_only:
        return False
    if mine.source != "rbd":
        return mine.identity == theirs.identity
    monitors = set(mine.identity[2:])
    return mine.identity[:2] == theirs.identity[:2] and not monitors.isdisjoint(theirs.identity[2:])
