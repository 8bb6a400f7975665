"""Upstream's rules of VolumeBinding for one pod and one node, in plain Python.

Written from the Go sources (kubernetes v1.36 volumebinding; component-helpers storage/volume), with
nothing of eventsched but its data classes.
"""

import json
from collections.abc import Mapping
from typing import Any

from eventsched.domain.objects import Node, Pod
from eventsched.domain.objects.registry import (
    CSIDriver,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)

from .naive_volumes import SKIP, WAITS, Cluster, not_owned, reaches, selects


def binding_first(cluster: Cluster, pod: Pod) -> str:
    """PreFilter: SKIP, "" or why not."""
    claims = []
    for each in pod.volumes:
        if not each.claim:
            continue
        claim = cluster.claim(pod.namespace, each.claim)
        if claim is None:
            if each.ephemeral:
                return (
                    "waiting for ephemeral volume controller to create the persistentvolumeclaim "
                    f'"{each.claim}"'
                )
            return f'persistentvolumeclaim "{each.claim}" not found'
        if claim.phase == "Lost":
            return (
                f'persistentvolumeclaim "{claim.name}" bound to non-existent persistentvolume '
                f'"{claim.volume}"'
            )
        if claim.deleting:
            return f'persistentvolumeclaim "{claim.name}" is being deleted'
        if each.ephemeral and claim.owner_uid != pod.uid:
            return not_owned(pod, claim)
        claims.append(claim)
    if any(not _bound(each) and not _late(cluster, each) for each in claims):
        return "pod has unbound immediate PersistentVolumeClaims"
    return "" if claims else SKIP


def _bound(claim: PersistentVolumeClaim) -> bool:
    return bool(claim.volume) and claim.bound


def _late(cluster: Cluster, claim: PersistentVolumeClaim) -> bool:
    kept = cluster.registry.get(StorageClass, claim.storage_class or "")
    return kept is not None and kept.binding_mode == WAITS and not claim.volume


def holds(cluster: Cluster, key: str) -> bool:
    """Whether a key of the memory says what the objects do not show yet."""
    kind, name, namespace, claim_name, uid = json.loads(key)
    claim = cluster.claim(namespace, claim_name)
    if claim is None or claim.uid != uid:
        return False
    if kind == "node":
        return not claim.selected_node and not claim.volume
    volume = cluster.registry.get(PersistentVolume, name)
    if claim.volume and claim.volume != name:
        return False
    return volume is not None and (volume.claim is None or volume.claim[2] == "")


def _assumed(cluster: Cluster) -> tuple[dict[str, tuple[str, ...]], dict[tuple[str, ...], str]]:
    """Volume → claim, claim → node: what pods in flight hold."""
    held = [json.loads(key) for key in cluster.memory if holds(cluster, key)]
    volumes = {name: tuple(claim) for kind, name, *claim in held if kind == "volume"}
    return volumes, {tuple(claim): name for kind, name, *claim in held if kind == "node"}


def binding(cluster: Cluster, pod: Pod, node: Node) -> tuple[str, list[tuple[str, str]]]:
    """Filter: the answer, and for a node that passes (volume, claim) of what would be bound, with
    "" for a volume to be made."""
    registry, reasons = cluster.registry, []
    mine = [cluster.claim(pod.namespace, each.claim) for each in pod.volumes if each.claim]
    claims = [each for each in mine if each is not None]
    missing = False
    for claim in filter(_bound, claims):
        volume = registry.get(PersistentVolume, claim.volume)
        if volume is None:
            missing = True
            break
        if not reaches(volume.node_terms, node):
            reasons.append("node(s) didn't match PersistentVolume's node affinity")
            break
    waiting = [each for each in claims if not _bound(each)]
    reason, chosen = _waiting(cluster, waiting, node)
    reasons += [reason] if reason else []
    if missing:
        reasons.append("node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)")
    return "; ".join(reasons), chosen


def _waiting(
    cluster: Cluster, claims: list[PersistentVolumeClaim], node: Node
) -> tuple[str, list[tuple[str, str]]]:
    no_match = "node(s) didn't find available persistent volumes to bind"
    volumes, nodes = _assumed(cluster)
    to_make: list[Any] = []
    to_match: list[Any] = []
    for claim in claims:
        selected = nodes.get((claim.namespace, claim.name, claim.uid), claim.selected_node)
        if selected and selected != node.name:
            return no_match, []
        (to_make if selected else to_match).append(claim)
    chosen: list[tuple[str, str]] = []
    for claim in sorted(to_match, key=lambda each: each.requested):
        found = _matching(cluster, claim, node, [name for name, _ in chosen], volumes)
        if found is None:
            to_make.append(claim)
        else:
            chosen.append((found.name, claim.name))
    for claim in to_make:
        kept = cluster.registry.get(StorageClass, claim.storage_class or "")
        assert kept is not None
        allowed = not kept.topologies or any(t and selects(t, node.labels) for t in kept.topologies)
        if kept.provisioner in ("", "kubernetes.io/no-provisioner") or not allowed:
            return no_match, []
        if not _room(cluster, claim, kept, node):
            return "node(s) did not have enough free storage", []
    return "", chosen + [("", claim.name) for claim in to_make]


def _matching(
    cluster: Cluster, claim: PersistentVolumeClaim, node: Node, excluded: list[str],
    assumed: Mapping[str, tuple[str, ...]],
) -> PersistentVolume | None:  # fmt: skip
    best: PersistentVolume | None = None
    key = (claim.namespace, claim.name, claim.uid)
    everything = cluster.registry.all(PersistentVolume).values()
    for volume in sorted(everything, key=lambda each: (each.capacity, each.name)):
        if volume.storage_class != (claim.storage_class or "") or volume.name in excluded:
            continue
        holder = assumed.get(volume.name, volume.claim)
        mine = holder is not None and holder[:2] == key[:2] and holder[2] in ("", claim.uid)
        if (holder is not None and not mine) or volume.capacity < claim.requested:
            continue
        if volume.volume_mode != claim.volume_mode or volume.deleting:
            continue
        if volume.attributes_class != claim.attributes_class:
            continue
        if mine:
            return volume if reaches(volume.node_terms, node) else None
        fits = (
            volume.phase == "Available"
            and selects(claim.selector, volume.labels)
            and reaches(volume.node_terms, node)
            and set(claim.access_modes) <= set(volume.access_modes)
        )
        if fits and best is None:
            best = volume
    return best


def _room(cluster: Cluster, claim: PersistentVolumeClaim, kept: StorageClass, node: Node) -> bool:
    driver = cluster.registry.get(CSIDriver, kept.provisioner)
    if not claim.requested or driver is None or not driver.capacity:
        return True
    for pool in cluster.registry.all(CSIStorageCapacity).values():
        limit = pool.capacity if pool.largest is None else pool.largest
        enough = limit is not None and limit >= claim.requested
        if pool.storage_class == kept.name and enough and selects(pool.topology, node.labels):
            return True
    return False


def prepared(
    cluster: Cluster, pod: Pod, node: Node | None, name: str, carried: list[list[str]]
) -> str:
    """What a pod waits for before its bind (checkBindings): "wait", "done", or why it will not
    come. ``carried`` are (kind, volume or node, claim, its uid, ...)."""
    if node is None:
        return f'failed to get node "{name}": node "{name}" not found'
    states = [_came_true(cluster, pod, node, *each[:4]) for each in carried]
    broken = [each for each in states if each not in ("wait", "done")]
    return (broken or ["wait"] * ("wait" in states) or ["done"])[0]


def _came_true(
    cluster: Cluster, pod: Pod, node: Node, kind: str, name: str, claim_name: str, uid: str
) -> str:
    failed = "failed to check provisioning pvc" if kind == "node" else "failed to check binding"
    claim = cluster.claim(pod.namespace, claim_name)
    if claim is None or claim.uid != uid:
        return f'{failed}: persistentvolumeclaims "{pod.namespace}/{claim_name}" not found'
    if kind == "node" and claim.selected_node != node.name:
        if not claim.annotations and not claim.selected_node:
            return f'selectedNode annotation reset for PVC "{claim_name}"'
        return f'provisioning failed for PVC "{claim_name}"'
    wanted = claim.volume if kind == "node" else name
    volume = cluster.registry.get(PersistentVolume, wanted)
    if volume is not None and not reaches(volume.node_terms, node):
        mismatch = f'pv "{wanted}" node affinity doesn\'t match node "{node.name}"'
        return f"{mismatch}: no matching NodeSelectorTerms"
    if kind == "volume":
        if volume is None:
            return f'{failed}: persistentvolumes "{name}" not found'
        if volume.claim is None or volume.claim[2] != uid:
            return f'ClaimRef got reset for pv "{name}"'
    return "done" if _bound(claim) and volume is not None else "wait"
