"""Which changes may help against a refusal by one of the plugins about volumes."""

from collections.abc import Callable

from eventsched.domain.nodes.volumes_in_use import claim_use
from eventsched.domain.objects import Pod
from eventsched.domain.objects.registry import (
    PersistentVolume,
    PersistentVolumeClaim,
    Registry,
)
from eventsched.history.why_not.case import Case, Side, has, missing_labels
from eventsched.history.why_not.changes import AnyChange, NodeLabelSet
from eventsched.history.why_not.volume_changes import (
    VolumeAffinityRemoved,
    VolumeRemoved,
    claim_bound,
    volume_created,
)
from eventsched.scheduling.rules.volumes.claims import ONE_POD, claims_of, is_bound, waits_for_pod
from eventsched.scheduling.rules.volumes.csi_migration import (
    BETA_REGION,
    BETA_ZONE,
    REGION,
    ZONE,
    ZONES_DELIMITER,
)
from eventsched.scheduling.rules.volumes.disk_conflicts import conflicts_with

_HOSTNAME = "kubernetes.io/hostname"
"""A label that says which node it is: to set another value would not move a volume there."""
_LIMITS = "NodeVolumeLimits"
_NEWER = {ZONE: ZONE, REGION: REGION, BETA_ZONE: ZONE, BETA_REGION: REGION}


def _of_binding(case: Case) -> list[AnyChange]:
    if case.side is Side.POD:
        return _volumes(case)
    registry = case.registry
    proposed: list[AnyChange] = []
    for claim in _claims(case.pod, registry):
        proposed += _of_claim(case, claim, registry)
    return proposed or _volumes(case)


def _of_claim(case: Case, claim: PersistentVolumeClaim, registry: Registry) -> list[AnyChange]:
    """What gives a claim a volume that the node can reach; nothing if it has one, or if nothing of
    the cluster helps."""
    if claim.deleting or claim.phase == "Lost":
        return []
    if is_bound(claim):
        volume = registry.get(PersistentVolume, claim.volume)
        if volume is None:
            return [volume_created(claim, claim.volume)]
        return _reaching(case, volume)
    try:
        waits = waits_for_pod(claim, registry) and not claim.volume
    except ValueError:  # its class is not complete
        return []
    return [volume_created(claim) if waits else claim_bound(claim)]


def _reaching(case: Case, volume: PersistentVolume) -> list[AnyChange]:
    labels, terms = case.hypothesis.node.labels, volume.node_terms
    if terms is None:
        return []
    if any(
        not term.fields and all(has(labels, each) for each in term.expressions) for term in terms
    ):
        return []
    lacking = missing_labels(labels, terms)
    if lacking and all(label.key != _HOSTNAME for label in lacking):
        return list(lacking)
    return [VolumeAffinityRemoved(volume.name)]


def _of_zone(case: Case) -> list[AnyChange]:
    if case.side is Side.POD:
        return _volumes(case)
    registry, labels = case.registry, case.hypothesis.node.labels
    proposed: list[AnyChange] = []
    for claim in _claims(case.pod, registry):
        volume = registry.get(PersistentVolume, claim.volume)
        if volume is None:
            proposed += _of_claim(case, claim, registry)
            continue
        for key, zones in volume.labels.items():
            if key not in _NEWER:
                continue
            own = key if key in labels else _NEWER[key]
            values = zones.split(ZONES_DELIMITER)
            if labels.get(own) not in values:
                proposed.append(NodeLabelSet(own, values[0]))
    return proposed or _volumes(case)


def _of_restrictions(case: Case) -> list[AnyChange]:
    """The pods that use a ReadWriteOncePod claim, on whichever node, or that have the disk on this
    node. Others are not in the way: without them the node would only score more."""
    if case.side is Side.POD:
        return _volumes(case)
    pod, volumes = case.pod, case.hypothesis.engine.state.nodes.volumes
    users: dict[str, Pod] = {}
    for claim in _claims(pod, case.registry):
        if ONE_POD in claim.access_modes:
            used = volumes.users(claim_use(pod.namespace, claim.name))
            users |= {uid: other for uid, (_, other) in used.items()}
    for resident in case.residents():
        if conflicts_with(resident.pod, pod):
            users[resident.pod.uid] = resident.pod
    gone = case.removed_pods | {pod.uid}
    others = [case.removed(user) for uid, user in users.items() if uid not in gone]
    return [*others] or _volumes(case)


def _of_limits(case: Case) -> list[AnyChange]:
    """The pods of the node that have volumes, the least important first, until the pod's own can be
    attached; then without those whose volumes are of other drivers."""
    if case.side is Side.POD:
        return _volumes(case)
    victims: list[AnyChange] = []
    for resident in case.residents():
        if resident.pod.volumes:
            victims.append(case.removed(resident.pod))
            if not case.refuses(_LIMITS, victims):
                break
    else:
        return _volumes(case)
    for victim in victims[:-1]:
        rest = [each for each in victims if each != victim]
        if not case.refuses(_LIMITS, rest):
            victims = rest
    return victims


def _volumes(case: Case) -> list[AnyChange]:
    """The pod without any of its volumes. Which of them are needed is found by leaving changes
    out."""
    return [
        VolumeRemoved(index, volume.name, volume.claim)
        for index, volume in enumerate(case.hypothesis.pod.volumes)
    ]


def _claims(pod: Pod, registry: Registry) -> list[PersistentVolumeClaim]:
    """The pod's claims that there are, each once."""
    names = dict.fromkeys(name for name, _ in claims_of(pod))
    found = (registry.get(PersistentVolumeClaim, name, pod.namespace) for name in names)
    return [claim for claim in found if claim is not None]


BY_PLUGIN: dict[str, Callable[[Case], list[AnyChange]]] = {
    "VolumeBinding": _of_binding,
    "VolumeZone": _of_zone,
    "VolumeRestrictions": _of_restrictions,
    _LIMITS: _of_limits,
}
