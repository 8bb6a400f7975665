"""Upstream's rules of volumes for one pod, one node and a cluster, in plain Python; those of
VolumeBinding are in naive_binding.

Written from the Go sources (kubernetes v1.36 volumerestrictions, volumezone,
nodevolumelimits; component-helpers storage/volume), with none of eventsched but its data classes.
Each answer is "" for a node that passes, else what upstream says, reasons joined by "; ". In-tree
volumes other than disks of pods are left out: the oracle has those.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from eventsched.domain.objects import Node, NodeSelectorTerm, Pod, PodVolume, Requirement, Selector
from eventsched.domain.objects.registry import (
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    Registry,
    StorageClass,
    VolumeAttachment,
)

SKIP = "skip"
WAITS = "WaitForFirstConsumer"
ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
BETA = {
    "failure-domain.beta.kubernetes.io/zone": ZONE,
    "failure-domain.beta.kubernetes.io/region": REGION,
}
DISKS = ("gcePersistentDisk", "awsElasticBlockStore", "iscsi", "rbd")

Labels = Mapping[str, str]


@dataclass
class Cluster:
    """Nodes with the pods on them, the other objects, and VolumeBinding's memory."""

    places: Sequence[tuple[Node, Sequence[Pod]]]
    registry: Registry
    memory: Mapping[str, object]

    def claim(self, namespace: str, name: str) -> PersistentVolumeClaim | None:
        """A claim."""
        return self.registry.get(PersistentVolumeClaim, name, namespace)


def _holds(each: Requirement, labels: Labels) -> bool:
    has = each.key in labels
    if each.operator == "In":
        return has and labels[each.key] in each.values
    if each.operator == "NotIn":
        return not has or labels[each.key] not in each.values
    return has if each.operator == "Exists" else not has


def selects(selector: Selector, labels: Labels) -> bool:
    """Whether a label selector selects."""
    return selector is not None and all(_holds(each, labels) for each in selector)


def reaches(terms: tuple[NodeSelectorTerm, ...] | None, node: Node) -> bool:
    """Whether a volume with these node terms can be used on a node."""
    if terms is None:
        return True
    return any(
        (term.expressions or term.fields) and selects(term.expressions, node.labels)
        for term in terms
    )


# --- VolumeRestrictions -------------------------------------------------------------------


def _named(pod: Pod) -> list[str]:
    return [each.claim for each in pod.volumes if each.claim and not each.ephemeral]


def one_pod_claims(cluster: Cluster, pod: Pod) -> set[str]:
    """The pod's claims that have the access mode."""
    return {
        name for name in _named(pod)
        if (claim := cluster.claim(pod.namespace, name))
        and "ReadWriteOncePod" in claim.access_modes
    }  # fmt: skip


def restrictions_first(cluster: Cluster, pod: Pod) -> str:
    """PreFilter: SKIP, "" or why not."""
    for name in _named(pod):
        if cluster.claim(pod.namespace, name) is None:
            return f'persistentvolumeclaim "{name}" not found'
    disks = any(each.source in DISKS for each in pod.volumes)
    return "" if disks or _used(cluster, pod) else SKIP


def _used(cluster: Cluster, pod: Pod) -> int:
    return sum(
        any(
            o.namespace == pod.namespace and name in _named(o) for _, p in cluster.places for o in p
        )
        for name in one_pod_claims(cluster, pod)
    )


def restrictions(
    cluster: Cluster, pod: Pod, pods: Sequence[Pod], steps: Sequence[tuple[Pod, int]]
) -> str:
    """Filter, for a node with these pods, which differ by some steps from those that are there."""
    if any(_conflict(a, b) for a in pod.volumes for other in pods for b in other.volumes):
        return "node(s) had no available disk"
    mine = one_pod_claims(cluster, pod)
    used = _used(cluster, pod)
    for other, sign in steps:
        used += sign * sum(name in mine for name in _named(other))
    if used > 0:
        return (
            "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode "
            "already in-use by another pod"
        )
    return ""


def _conflict(a: PodVolume, b: PodVolume) -> bool:
    if a.source not in DISKS or a.source != b.source:
        return False
    if a.source == "rbd":
        same = a.identity[:2] == b.identity[:2] and bool({*a.identity[2:]} & {*b.identity[2:]})
    else:
        same = a.identity == b.identity
    return same and (a.source == "awsElasticBlockStore" or not (a.read_only and b.read_only))


# --- VolumeZone ---------------------------------------------------------------------------


def zones_first(cluster: Cluster, pod: Pod) -> str:
    """PreFilter: SKIP, "" or why not."""
    found = False
    for name in _named(pod):
        claim = cluster.claim(pod.namespace, name)
        if claim is None:
            return f'persistentvolumeclaim "{name}" not found'
        if claim.volume:
            volume = cluster.registry.get(PersistentVolume, claim.volume)
            if volume is None:
                return f'persistentvolume "{claim.volume}" not found'
            found = found or bool(_zones(volume))
            continue
        if not claim.storage_class:
            return "PersistentVolumeClaim had no pv name and storageClass name"
        kept = cluster.registry.get(StorageClass, claim.storage_class)
        if kept is None:
            return f'storageclass.storage.k8s.io "{claim.storage_class}" not found'
        if kept.binding_mode != WAITS:
            return "PersistentVolume had no name"
    return "" if found else SKIP


def _zones(volume: PersistentVolume) -> list[tuple[str, list[str]]]:
    found = []
    for key in (*BETA, ZONE, REGION):
        if key in volume.labels:
            values = [value.strip() for value in volume.labels[key].split("__")]
            if "" not in values:
                found.append((key, values))
    return found


def zones(cluster: Cluster, pod: Pod, node: Node) -> str:
    """Filter."""
    if not any(key in node.labels for key in (*BETA, ZONE, REGION)):
        return ""
    for name in _named(pod):
        claim = cluster.claim(pod.namespace, name)
        volume = cluster.registry.get(PersistentVolume, claim.volume) if claim else None
        for key, values in _zones(volume) if volume else ():
            value = node.labels.get(key, node.labels.get(BETA.get(key, key)))
            if value not in values:
                return "node(s) had no available volume zone"
    return ""


# --- NodeVolumeLimits ---------------------------------------------------------------------


class CannotCount(Exception):  # noqa: N818 - how upstream's error reads
    """What upstream returns as an error."""


def limits(cluster: Cluster, pod: Pod, node: Node, pods: Sequence[Pod]) -> str:
    """Filter; an error begins with "error: "."""
    try:
        return _limits(cluster, pod, node, pods)
    except CannotCount as problem:
        return f"error: {problem}"
    except LookupError as missing:
        return str(missing.args[0])


def _limits(cluster: Cluster, pod: Pod, node: Node, pods: Sequence[Pod]) -> str:
    kept = cluster.registry.get(CSINode, node.name)
    new = _volumes(cluster, pod, kept, new=True)
    allowed = {d.name: d.limit for d in kept.drivers if d.limit is not None} if kept else {}
    if not new or not allowed:
        return ""
    attached: dict[str, str] = {}
    for other in pods:
        attached |= _volumes(cluster, other, kept, new=False)
    count = dict.fromkeys([*attached.values(), *allowed], 0)
    for unique, driver in attached.items():
        new.pop(unique, None)
        count[driver] += 1
    elsewhere: dict[str, str] = {}
    for each in cluster.registry.all(VolumeAttachment).values():
        volume = cluster.registry.get(PersistentVolume, each.volume)
        if each.node == node.name and each.attacher and volume is not None and volume.driver:
            elsewhere[f"{each.attacher}/{volume.handle}"] = each.attacher
    for unique, driver in elsewhere.items():
        if unique not in attached:
            count[driver] = count.get(driver, 0) + 1
    for driver in set(new.values()):
        more = list(new.values()).count(driver)
        if driver in allowed and count.get(driver, 0) + more > allowed[driver]:
            return "node(s) exceed max volume count"
    return ""


MIGRATED = {
    "gcePersistentDisk": ("pd.csi.storage.gke.io", "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/"),
    "awsElasticBlockStore": ("ebs.csi.aws.com", ""),
}


def _volumes(cluster: Cluster, pod: Pod, kept: CSINode | None, *, new: bool) -> dict[str, str]:
    found = {}
    for each in pod.volumes:
        if each.source in MIGRATED and kept is not None:
            driver, prefix = MIGRATED[each.source]
            found[f"{driver}/{prefix}{each.identity[0]}"] = driver
        if not each.claim:
            continue
        claim = cluster.claim(pod.namespace, each.claim)
        if claim is None:
            if new:
                missing = f'persistentvolumeclaim "{each.claim}" not found'
                raise LookupError(f"looking up PVC {pod.namespace}/{each.claim}: {missing}")
            continue
        if each.ephemeral and claim.owner_uid != pod.uid:
            raise CannotCount(not_owned(pod, claim))
        volume = cluster.registry.get(PersistentVolume, claim.volume) if claim.volume else None
        if volume is not None:
            if volume.driver and volume.handle:
                found[f"{volume.driver}/{volume.handle}"] = volume.driver
            continue
        made_by = cluster.registry.get(StorageClass, claim.storage_class or "")
        if made_by is not None and made_by.provisioner:
            handle = f"to be made/{claim.namespace}/{claim.name}"
            found[f"{made_by.provisioner}/{handle}"] = made_by.provisioner
    return found


def not_owned(pod: Pod, claim: PersistentVolumeClaim) -> str:
    """That an ephemeral claim was created for another pod."""
    return (
        f"PVC {claim.namespace}/{claim.name} was not created for pod {pod.namespace}/{pod.name} "
        "(pod is not owner)"
    )
