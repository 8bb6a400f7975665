"""VolumeRestrictions: one pod per ReadWriteOncePod claim; one pod per node for some in-tree disks.

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
from eventsched.scheduling.rules.volumes.disk_conflicts import DISKS, conflicts_with

_DISK, _ONE_POD = 1, 2


class OnePodClaims(NamedTuple):
    """A pod's ReadWriteOncePod claims, and how many of them placed pods already use."""

    claims: frozenset[str]
    used: int


_NONE = OnePodClaims(frozenset(), 0)


class VolumeRestrictions:
    """PreFilter looks for users of the pod's claims, Filter for those of its disks."""

    name = "VolumeRestrictions"
    depends_on = DependsOn.USAGE
    wakes_on = (ClusterEvent.ASSIGNED_POD_DELETE, ClusterEvent.NODE_ADD)
    wakes_on_objects = (PersistentVolumeClaim,)

    def sign(self, pod: Pod) -> Hashable:
        """The same for all pods without such volumes; None for pods with them."""
        return None if any(_is_restricted(volume) for volume in pod.volumes) else ()

    def pre_filter(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> Status | None:
        """Refuses a pod whose claim does not exist. Skips if no pod uses the claims and there are
        no such disks."""
        try:
            claims = _one_pod_claims(pod, cycle.registry)
        except KeyError as missing:
            return Status.unresolvable(is_missing(missing.args[0]))
        used = sum(bool(nodes.table.volumes.users(claim_use(pod.namespace, c))) for c in claims)
        if not used and not any(volume.source in DISKS for volume in pod.volumes):
            return Status.skip()
        cycle.scratch[self.name] = OnePodClaims(claims, used)
        return None

    def filter(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> IntColumn:
        """1 if a pod on the node has one of the disks, 2 if a claim is in use. In a trial a claim
        is free on the rows from which its users are removed."""
        one_pod_claims: OnePodClaims = cycle.scratch.get(self.name, _NONE)
        in_use = np.full(len(nodes), one_pod_claims.used, dtype=np.int64)
        # Upstream compares names only, so a pod of another namespace counts as well.
        step = nodes.step(lambda other: _claim_count(other, one_pod_claims.claims))
        if one_pod_claims.claims and step is not None:
            in_use += step
        codes = np.where(in_use > 0, _ONE_POD, 0)
        if any(volume.source in DISKS for volume in pod.volumes):
            codes[self._conflict_counts(pod, nodes) > 0] = _DISK
        return codes

    def explain(self, cycle: Cycle, pod: Pod, code: int) -> Status:
        """The reason, in upstream's words."""
        if code == _DISK:
            return Status.unschedulable("node(s) had no available disk")
        return Status.unschedulable(
            "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode "
            "already in-use by another pod"
        )

    def hint(self, cycle: Cycle, pod: Pod, change: Change) -> bool:
        """True for a new node, the pod's new claim, or a deleted pod with one of its disks or
        claims."""
        if change.event is ClusterEvent.OBJECT_CHANGE:
            new = change.new_object
            return (
                new is not None
                and change.old_object is None
                and uses(pod, new.namespace, new.name, ephemeral=False)
            )
        if change.event is ClusterEvent.ASSIGNED_POD_DELETE and change.pod is not None:
            deleted = change.pod
            return deleted.namespace == pod.namespace and (
                conflicts_with(deleted, pod)
                or not set(named_claims(deleted)).isdisjoint(named_claims(pod))
            )
        return True

    def _conflict_counts(self, pod: Pod, nodes: NodeView) -> IntColumn:
        """int64[n]: the number of pods on the row with one of the pod's disks."""
        column = np.zeros(nodes.table.size, dtype=np.int64)
        seen = set()
        for volume in pod.volumes:
            use = use_of(pod, volume) if volume.source in DISKS else None
            for uid, (row, other) in nodes.table.volumes.users(use).items() if use else ():
                if uid not in seen and conflicts_with(other, pod):
                    seen.add(uid)
                    column[row] += 1
        counts = column[nodes.rows]
        step = nodes.step(lambda other: conflicts_with(other, pod))
        return counts if step is None else counts + step


def _is_restricted(volume: PodVolume) -> bool:
    named = volume.claim and not volume.ephemeral
    return bool(named) or volume.source in DISKS or volume.source == NAMELESS


def _one_pod_claims(pod: Pod, registry: Registry) -> frozenset[str]:
    """The pod's ReadWriteOncePod claims. Raises KeyError if a claim does not exist."""
    one_pod = set()
    for name in named_claims(pod):
        claim = registry.get(PersistentVolumeClaim, name, pod.namespace)
        if claim is None:
            raise KeyError(name)
        if ONE_POD in claim.access_modes:
            one_pod.add(name)
    return frozenset(one_pod)


def _claim_count(pod: Pod, claims: frozenset[str]) -> int:
    """How many of a pod's volumes are one of these claims."""
    return sum(name in claims for name in named_claims(pod)) if pod.volumes and claims else 0
