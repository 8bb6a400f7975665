"""Disks that two pods on one node cannot both have.

Upstream: plugins/volumerestrictions/volume_restrictions.go isVolumeConflict.
"""

from eventsched.domain.objects import Pod, PodVolume

DISKS = frozenset({"gcePersistentDisk", "awsElasticBlockStore", "iscsi", "rbd"})
"""The sources of volumes that are such disks."""


def conflicts_with(other: Pod, pod: Pod) -> bool:
    """Whether two pods need the same disk on a node."""
    return any(
        _same_disk(mine, theirs)
        for mine in pod.volumes
        if mine.source in DISKS
        for theirs in other.volumes
        if theirs.source == mine.source
    )


def _same_disk(mine: PodVolume, theirs: PodVolume) -> bool:
    if mine.source == "awsElasticBlockStore":
        return mine.identity == theirs.identity
    if mine.read_only and theirs.read_only:
        return False
    if mine.source != "rbd":
        return mine.identity == theirs.identity
    monitors = set(mine.identity[2:])
    return mine.identity[:2] == theirs.identity[:2] and not monitors.isdisjoint(theirs.identity[2:])
