"""The CSI volumes that a pod attaches to its node, including migrated in-tree disks.

Upstream: plugins/nodevolumelimits/csi.go filterAttachableVolumes.
"""

from eventsched.domain.objects import Pod, PodVolume
from eventsched.domain.objects.registry import (
    ClusterObject,
    PersistentVolume,
    PersistentVolumeClaim,
    Registry,
    StorageClass,
)
from eventsched.scheduling.rules.volumes.claims import NAMELESS, class_of, is_missing, not_owned
from eventsched.scheduling.rules.volumes.csi_migration import (
    DRIVERS,
    MIGRATIONS,
    UNCOUNTED,
    TranslationError,
    inline_handle,
    volume_handle,
)

Unique = tuple[str, bool, str]
"""A volume: its driver, whether it exists, and its handle or else the claim that it is made for."""
Source = tuple[type[ClusterObject], tuple[str, str]]
"""An object that was looked at: type and (namespace, name)."""


class MissingClaimError(Exception):
    """A pod's claim does not exist; the message is upstream's."""


class UncountableError(Exception):
    """A pod's volume cannot be counted at all; the message is upstream's."""


class VolumeReader:
    """Which volumes of a pod count, on nodes that have a CSINode object or on others. ``looked_at``
    collects the objects that the results depend on."""

    def __init__(self, registry: Registry, *, csi: bool) -> None:
        self._registry = registry
        self._csi = csi
        self.looked_at: set[Source] = set()

    def volumes(self, pod: Pod, *, new: bool) -> dict[Unique, None]:
        """A pod's volumes, each once. Raises MissingClaimError if a ``new`` pod's claim does not
        exist, UncountableError for a claim without a name or made for another pod, or a disk that
        cannot be translated."""
        uniques: dict[Unique, None] = {}
        for volume in pod.volumes:
            if volume.claim or volume.source == NAMELESS:
                unique = self._of_claim(pod, volume, new=new)
            elif self._csi and volume.source in MIGRATIONS:
                unique = _inline(volume)
            else:
                unique = None
            if unique is not None:
                uniques[unique] = None
        return uniques

    def _of_claim(self, pod: Pod, volume: PodVolume, *, new: bool) -> Unique | None:
        if not volume.claim:
            raise UncountableError("PersistentVolumeClaim had no name")
        self.looked_at.add((PersistentVolumeClaim, (pod.namespace, volume.claim)))
        claim = self._registry.get(PersistentVolumeClaim, volume.claim, pod.namespace)
        if claim is None:
            if new:
                claim_name = f"{pod.namespace}/{volume.claim}"
                raise MissingClaimError(f"looking up PVC {claim_name}: {is_missing(volume.claim)}")
            return None
        problem = not_owned(pod, claim) if volume.ephemeral else ""
        if problem:
            raise UncountableError(problem)
        return self._bound(claim)

    def _bound(self, claim: PersistentVolumeClaim) -> Unique | None:
        """Upstream: getCSIDriverInfo."""
        if not claim.volume:
            return self._to_be_made(claim)
        self.looked_at.add((PersistentVolume, ("", claim.volume)))
        volume = self._registry.get(PersistentVolume, claim.volume)
        if volume is None:
            return self._to_be_made(claim)
        if volume.driver or volume.handle:
            return _unique(volume.driver, volume.handle)
        if volume.source not in MIGRATIONS or not self._csi:
            return None
        try:
            return _unique(MIGRATIONS[volume.source].driver, volume_handle(volume))
        except TranslationError:
            return None

    def _to_be_made(self, claim: PersistentVolumeClaim) -> Unique | None:
        """Upstream: getCSIDriverInfoFromSC."""
        name = class_of(claim)
        if not name:
            return None
        self.looked_at.add((StorageClass, ("", name)))
        storage_class = self._registry.get(StorageClass, name)
        driver = "" if storage_class is None else storage_class.provisioner
        if driver in UNCOUNTED or (driver in DRIVERS and not self._csi):
            return None
        driver = DRIVERS.get(driver, driver)
        return (driver, False, f"{claim.namespace}/{claim.name}") if driver else None


def _unique(driver: str, handle: str) -> Unique | None:
    return (driver, True, handle) if driver and handle else None


def _inline(volume: PodVolume) -> Unique:
    try:
        handle = inline_handle(volume.source, volume.identity)
    except TranslationError as problem:
        text = f"converting volume({volume.name}) from inline to csi: {problem}"
        raise UncountableError(text) from problem
    return (MIGRATIONS[volume.source].driver, True, handle)
