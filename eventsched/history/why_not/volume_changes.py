"""Changes of a pod's volumes, and of the claims and volumes of the cluster."""

from msgspec.structs import replace

from eventsched.domain.objects import MEMORY, Pod, Selector
from eventsched.domain.objects.registry import (
    AnyObject,
    PersistentVolume,
    PersistentVolumeClaim,
    Registry,
)
from eventsched.history.why_not.change_value import ChangeValue, quantity
from eventsched.scheduling.rules.volumes.claims import class_of


class VolumeRemoved(ChangeValue, frozen=True):
    """The pod lacks a volume. ``index`` is its place in the pod as it is; ``claim`` is that of the
    volume, "" if it is another one."""

    index: int
    name: str
    claim: str

    @property
    def text(self) -> str:
        return f"remove the volume {self.name}{f' (claim {self.claim})' if self.claim else ''}"

    def changed(self, pod: Pod) -> Pod:
        volumes = pod.volumes[: self.index] + pod.volumes[self.index + 1 :]
        return replace(pod, volumes=volumes)


class VolumeAffinityRemoved(ChangeValue, frozen=True):
    """Every node can reach a persistent volume."""

    volume: str

    @property
    def text(self) -> str:
        # The API server refuses to change the field of a volume.
        return f"create the PersistentVolume {self.volume} again, without its node affinity"

    def changed_objects(self, registry: Registry) -> list[AnyObject]:
        volume = registry.get(PersistentVolume, self.volume)
        return [] if volume is None else [replace(volume, node_terms=None)]


class _ForClaim(ChangeValue, frozen=True):
    """Base of changes that give a claim a volume. ``capacity`` is in bytes."""

    namespace: str
    claim: str
    storage_class: str
    capacity: int

    @property
    def _volume_text(self) -> str:
        of = f" of {quantity(MEMORY, self.capacity)}" if self.capacity else ""
        return f"{of}{f', storage class {self.storage_class}' if self.storage_class else ''}"


class VolumeCreated(_ForClaim, frozen=True):
    """There is a persistent volume for a claim, which the node can reach. ``volume`` is the name of
    the one that the claim is bound to, "" if it is not bound."""

    volume: str = ""

    @property
    def text(self) -> str:
        volume = f"the PersistentVolume {self.volume}" if self.volume else "a PersistentVolume"
        return f"create {volume}{self._volume_text}, for the claim {self.namespace}/{self.claim}"

    def changed_objects(self, registry: Registry) -> list[AnyObject]:
        claim = registry.get(PersistentVolumeClaim, self.claim, self.namespace)
        if claim is None:
            return []
        created = _fitting(claim, self.volume or _new_name(claim, registry))
        return [_bound_to(created, claim) if self.volume else created]


class ClaimBound(_ForClaim, frozen=True):
    """A claim of immediate binding is bound, to a volume that the node can reach."""

    @property
    def text(self) -> str:
        return (
            f"have the claim {self.namespace}/{self.claim} bound, to a PersistentVolume"
            f"{self._volume_text}"
        )

    def changed_objects(self, registry: Registry) -> list[AnyObject]:
        claim = registry.get(PersistentVolumeClaim, self.claim, self.namespace)
        if claim is None:
            return []
        name = claim.volume or _new_name(claim, registry)
        volume = registry.get(PersistentVolume, name) or _fitting(claim, name)
        bound = replace(claim, volume=name, bound=True, phase="Bound")
        return [_bound_to(volume, claim), bound]


OfObjects = VolumeAffinityRemoved | VolumeCreated | ClaimBound


def volume_created(claim: PersistentVolumeClaim, volume: str = "") -> VolumeCreated:
    """The change that creates a volume for a claim."""
    return VolumeCreated(claim.namespace, claim.name, class_of(claim), claim.requested, volume)


def claim_bound(claim: PersistentVolumeClaim) -> ClaimBound:
    """The change that binds a claim."""
    return ClaimBound(claim.namespace, claim.name, class_of(claim), claim.requested)


def _fitting(claim: PersistentVolumeClaim, name: str) -> PersistentVolume:
    """A free volume, as the claim asks for it."""
    return PersistentVolume(
        name=name, storage_class=class_of(claim), capacity=claim.requested,
        access_modes=claim.access_modes, volume_mode=claim.volume_mode, phase="Available",
        labels=_labels(claim.selector), attributes_class=claim.attributes_class,
    )  # fmt: skip


def _labels(selector: Selector) -> dict[str, str]:
    """Labels that a selector selects, as far as labels can do that."""
    return {
        requirement.key: (*requirement.values, "")[0]
        for requirement in selector or ()
        if requirement.operator in ("In", "Exists")
    }


def _bound_to(volume: PersistentVolume, claim: PersistentVolumeClaim) -> PersistentVolume:
    return replace(volume, phase="Bound", claim=(claim.namespace, claim.name, claim.uid))


def _new_name(claim: PersistentVolumeClaim, registry: Registry) -> str:
    name = f"for-{claim.namespace}-{claim.name}"
    while registry.get(PersistentVolume, name) is not None:
        name += "-"
    return name
