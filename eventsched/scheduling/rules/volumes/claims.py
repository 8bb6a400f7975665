"""Rules about the claims of pods that several volume plugins share.

Upstream: component-helpers storage/volume (pv_helpers.go, helpers.go), storage/ephemeral; the
messages about missing objects are those of client-go's listers.
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
"""The source of a pod volume that refers to a claim without a name."""
WAITS = "WaitForFirstConsumer"
ONE_POD = "ReadWriteOncePod"
_BETA_CLASS = "volume.beta.kubernetes.io/storage-class"


class ClaimName(NamedTuple):
    """The name of a claim that a pod uses, and whether the claim must belong to the pod."""

    name: str
    ephemeral: bool


def claims_of(pod: Pod) -> list[ClaimName]:
    """The claims that a pod uses, in the order of its volumes, with repetitions."""
    return [
        ClaimName(volume.claim, volume.ephemeral)
        for volume in pod.volumes
        if volume.claim or volume.source == NAMELESS
    ]


def named_claims(pod: Pod) -> list[str]:
    """The claims that the pod names, without the ephemeral ones that belong to it."""
    return [name for name, ephemeral in claims_of(pod) if not ephemeral]


def uses(pod: Pod, namespace: str, name: str, *, ephemeral: bool = True) -> bool:
    """Whether a pod uses a claim; with ``ephemeral`` false, whether it names the claim."""
    if pod.namespace != namespace:
        return False
    return any(claim == name and (ephemeral or not own) for claim, own in claims_of(pod))


def is_missing(name: str) -> str:
    """The message for a claim that does not exist."""
    return f'persistentvolumeclaim "{name}" not found'


def not_owned(pod: Pod, claim: PersistentVolumeClaim) -> str:
    """The message for an ephemeral claim that belongs to another pod; "" if it does not."""
    if claim.namespace == pod.namespace and claim.owner_uid == pod.uid:
        return ""
    return (
        f"PVC {claim.namespace}/{claim.name} was not created for pod {pod.full_name} "
        "(pod is not owner)"
    )


def class_of(resource: PersistentVolumeClaim | PersistentVolume) -> str:
    """The name of a claim's or volume's storage class; the old annotation overrides the field."""
    return resource.annotations.get(_BETA_CLASS, resource.storage_class or "")


def is_bound(claim: PersistentVolumeClaim) -> bool:
    """Whether the binding is complete (upstream: isPVCFullyBound)."""
    return bool(claim.volume) and claim.bound


def waits_for_pod(claim: PersistentVolumeClaim, registry: Registry) -> bool:
    """Whether the claim is bound only when a pod uses it (upstream: IsDelayBindingMode). Raises
    ValueError if its class sets no binding mode."""
    name = class_of(claim)
    storage_class = registry.get(StorageClass, name) if name else None
    if storage_class is None:
        return False
    if not storage_class.binding_mode:
        raise ValueError(mode_not_set(name))
    return storage_class.binding_mode == WAITS


def mode_not_set(storage_class: str) -> str:
    """The message for a storage class without a binding mode."""
    return f'VolumeBindingMode not set for StorageClass "{storage_class}"'


def belongs_to(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether a volume is bound or promised to a claim (upstream: IsVolumeBoundToClaim)."""
    if volume.claim is None:
        return False
    namespace, name, uid = volume.claim
    return (namespace, name) == (claim.namespace, claim.name) and uid in ("", claim.uid)
