"""Rules about the claims of pods that several volume plugins share.

Upstream: component-helpers storage/volume (pv_helpers.go, helpers.go), storage/ephemeral; the words
of what is missing are those of client-go's listers.
"""

from typing import NamedTuple

from eventsched.domain.objects import Pod
from eventsched.domain.objects.registry import (
    PersistentVolume,
    PersistentVolumeClaim,
    Registry,
    StorageClass,
)

NAMELESS = "persistentVolumeClaim"
"""The source of a pod's volume that is a claim without a name."""
WAITS = "WaitForFirstConsumer"
ONE_POD = "ReadWriteOncePod"
_BETA_CLASS = "volume.beta.kubernetes.io/storage-class"


class ClaimName(NamedTuple):
    """The name of a claim that a pod uses, and whether the claim must belong to the pod."""

    name: str
    ephemeral: bool


def claims_of(pod: Pod) -> list[ClaimName]:
    """The claims that a pod uses, in the order of its volumes, repeated as there."""
    return [
        ClaimName(volume.claim, volume.ephemeral)
        for volume in pod.volumes
        if volume.claim or volume.source == NAMELESS
    ]


def named_claims(pod: Pod) -> list[str]:
    """Those that the pod names, without the ephemeral ones that belong to it."""
    return [name for name, ephemeral in claims_of(pod) if not ephemeral]


def uses(pod: Pod, namespace: str, name: str, *, ephemeral: bool = True) -> bool:
    """Whether a pod uses a claim; without ``ephemeral`` whether it names it."""
    if pod.namespace != namespace:
        return False
    return any(claim == name and (ephemeral or not own) for claim, own in claims_of(pod))


def is_missing(name: str) -> str:
    """That a claim is not there."""
    return f'persistentvolumeclaim "{name}" not found'


def not_owned(pod: Pod, claim: PersistentVolumeClaim) -> str:
    """That an ephemeral claim was made for somebody else; "" where it was not."""
    if claim.namespace == pod.namespace and claim.owner_uid == pod.uid:
        return ""
    return (
        f"PVC {claim.namespace}/{claim.name} was not created for pod {pod.full_name} "
        "(pod is not owner)"
    )


def class_of(kept: PersistentVolumeClaim | PersistentVolume) -> str:
    """The name of a claim's or volume's storage class; the old annotation goes before the field."""
    return kept.annotations.get(_BETA_CLASS, kept.storage_class or "")


def is_bound(claim: PersistentVolumeClaim) -> bool:
    """Whether the binding is complete (upstream: isPVCFullyBound)."""
    return bool(claim.volume) and claim.bound


def waits_for_pod(claim: PersistentVolumeClaim, registry: Registry) -> bool:
    """Whether the claim is bound only when a pod uses it (upstream: IsDelayBindingMode). Raises
    ValueError where its class does not say."""
    name = class_of(claim)
    found = registry.get(StorageClass, name) if name else None
    if found is None:
        return False
    if not found.binding_mode:
        raise ValueError(mode_not_set(name))
    return found.binding_mode == WAITS


def mode_not_set(storage_class: str) -> str:
    """That a storage class does not say when it binds."""
    return f'VolumeBindingMode not set for StorageClass "{storage_class}"'


def belongs_to(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether a volume is bound or promised to a claim (upstream: IsVolumeBoundToClaim)."""
    if volume.claim is None:
        return False
    namespace, name, uid = volume.claim
    return (namespace, name) == (claim.namespace, claim.name) and uid in ("", claim.uid)
