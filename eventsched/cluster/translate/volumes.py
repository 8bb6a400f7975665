"""Volumes of pods, and the objects of storage: claims, volumes, classes, drivers."""

from collections.abc import Iterator

import msgspec

from eventsched.cluster.translate.fields import Field
from eventsched.cluster.translate.metadata import annotations, instant, owner, uid_of
from eventsched.cluster.translate.node_selectors import label_selector, node_terms
from eventsched.domain.objects import PodVolume, Requirement
from eventsched.domain.objects.registry import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    NodeDriver,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)

_BETA_CLASS = "volume.beta.kubernetes.io/storage-class"
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
MIGRATED_PLUGINS = "storage.alpha.kubernetes.io/migrated-plugins"
DEFAULT_CLASS = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
_INT32 = 2**31

DISKS: dict[str, tuple[str, ...]] = {
    "gcePersistentDisk": ("pdName",),
    "awsElasticBlockStore": ("volumeID",),
    "iscsi": ("iqn",),
    "rbd": ("pool", "image"),
    "azureDisk": ("diskURI", "kind"),
    "azureFile": (),
    "cinder": ("volumeID",),
    "portworxVolume": ("volumeID",),
    "vsphereVolume": (),
}
"""In-tree sources → the fields that identify a disk, in the order of ``identity``. For rbd the
monitors follow. The plugins VolumeRestrictions and NodeVolumeLimits compare them."""
_FIELD_DEFAULTS = {("rbd", "pool"): "rbd", ("azureDisk", "kind"): "Shared"}
"""(source, field) → the default that an API server sets (pkg/apis/core/v1/defaults.go)."""
OTHER_SOURCES = (
    "local", "hostPath", "nfs", "fc", "flexVolume", "cephfs", "glusterfs", "flocker", "quobyte",
    "photonPersistentDisk", "scaleIO", "storageos",
)  # fmt: skip
"""Further sources of a PersistentVolume: only their type is known to scheduling."""


def pod_volumes(volumes: Field, pod_name: str, *, defaults: bool) -> tuple[PodVolume, ...]:
    """The volumes of a pod (core/v1 Volume) that its placement may depend on."""
    return tuple(
        translated
        for volume in volumes.items()
        for translated in _pod_volume(volume, pod_name, defaults)
    )


def _pod_volume(volume: Field, pod_name: str, defaults: bool) -> Iterator[PodVolume]:
    name = volume.get("name").text()
    if volume.get("persistentVolumeClaim").value is not None:
        claim = volume.get("persistentVolumeClaim").get("claimName").text()
        # Upstream's plugins report a claim without a name, so it must not be dropped here.
        yield PodVolume(name=name, claim=claim, source="" if claim else "persistentVolumeClaim")
    if volume.get("ephemeral").value is not None:
        yield PodVolume(name=name, claim=f"{pod_name}-{name}", ephemeral=True)
    if volume.get("csi").value is not None:
        yield PodVolume(name=name, driver=volume.get("csi").get("driver").text())
    for source in DISKS:
        disk = volume.get(source)
        if disk.value is not None:
            yield PodVolume(
                name=name,
                read_only=disk.get("readOnly").flag(),
                source=source,
                identity=_identity(source, disk, defaults),
            )


def ephemeral_claims(
    volumes: Field, namespace: str, pod_name: str, pod_uid: str
) -> Iterator[PersistentVolumeClaim]:
    """The claims that a controller creates from the templates of a pod's ephemeral volumes
    (core/v1 Volume; upstream: pkg/controller/volume/ephemeral)."""
    for volume in volumes.items():
        template = volume.get("ephemeral").get("volumeClaimTemplate")
        if volume.get("ephemeral").value is None:
            continue
        created = claim(template, defaults=True, name=f"{pod_name}-{volume.get('name').text()}")
        uid = uid_of("", f"{namespace}/PersistentVolumeClaim", created.name)
        yield msgspec.structs.replace(
            created, namespace=namespace, uid=uid, owner_uid=pod_uid, phase="Pending"
        )


def _identity(source: str, disk: Field, defaults: bool) -> tuple[str, ...]:
    """The values of the fields in ``DISKS``."""
    texts = _FIELD_DEFAULTS if defaults else {}
    identity = tuple(disk.get(name).text(texts.get((source, name), "")) for name in DISKS[source])
    return (*identity, *disk.get("monitors").texts()) if source == "rbd" else identity


def claim(root: Field, defaults: bool, name: str = "") -> PersistentVolumeClaim:
    """A core/v1 PersistentVolumeClaim. ``name`` is set for a claim template, which has none."""
    meta, spec = root.get("metadata"), root.get("spec")
    notes = annotations(meta)
    namespace = meta.get("namespace").text() or "default"
    name = name or meta.get("name").needed_text()
    uid = meta.get("uid").text()
    if defaults and not uid:
        uid = uid_of("", f"{namespace}/PersistentVolumeClaim", name)
    controller = owner(meta)
    if controller is None:
        owner_uid = ""
    elif controller.kind == "Pod":
        owner_uid = uid_of(controller.uid, namespace, controller.name)
    else:
        owner_uid = controller.uid
    class_name = spec.get("storageClassName")
    return PersistentVolumeClaim(
        name=name,
        namespace=namespace,
        uid=uid,
        storage_class=notes.get(
            _BETA_CLASS, None if class_name.value is None else class_name.text()
        ),
        volume=spec.get("volumeName").text(),
        access_modes=spec.get("accessModes").texts(),
        volume_mode=spec.get("volumeMode").text() or "Filesystem",
        requested=spec.get("resources").get("requests").get("storage").amount() or 0,
        selector=label_selector(spec.get("selector")) or (),
        phase=root.get("status").get("phase").text(),
        bound=BIND_COMPLETED in notes,
        deleting=meta.get("deletionTimestamp").value is not None,
        selected_node=notes.get(SELECTED_NODE, ""),
        owner_uid=owner_uid,
        annotations=notes,
        attributes_class=spec.get("volumeAttributesClassName").text(),
    )


def volume(root: Field, defaults: bool) -> PersistentVolume:
    """A core/v1 PersistentVolume."""
    meta, spec = root.get("metadata"), root.get("spec")
    notes = annotations(meta)
    required, bound_to, csi = (
        spec.get("nodeAffinity").get("required"), spec.get("claimRef"), spec.get("csi"),
    )  # fmt: skip
    source = next((s for s in (*DISKS, *OTHER_SOURCES) if spec.get(s).value is not None), "")
    return PersistentVolume(
        name=meta.get("name").needed_text(),
        uid=meta.get("uid").text(),
        storage_class=notes.get(_BETA_CLASS, spec.get("storageClassName").text()),
        capacity=spec.get("capacity").get("storage").amount() or 0,
        access_modes=spec.get("accessModes").texts(),
        volume_mode=spec.get("volumeMode").text() or "Filesystem",
        phase=root.get("status").get("phase").text(),
        claim=None
        if bound_to.value is None
        else (
            bound_to.get("namespace").text(),
            bound_to.get("name").text(),
            bound_to.get("uid").text(),
        ),
        labels=meta.get("labels").text_map(),
        annotations=notes,
        node_terms=None
        if required.value is None
        else node_terms(required.get("nodeSelectorTerms")),
        driver=csi.get("driver").text(),
        handle=csi.get("volumeHandle").text(),
        source=source,
        identity=_identity(source, spec.get(source), defaults) if source in DISKS else (),
        deleting=meta.get("deletionTimestamp").value is not None,
        attributes_class=spec.get("volumeAttributesClassName").text(),
    )


def storage_class(root: Field, defaults: bool) -> StorageClass:
    """A storage.k8s.io/v1 StorageClass. Without ``defaults`` a missing binding mode stays empty:
    upstream's plugins report it."""
    meta = root.get("metadata")
    notes = annotations(meta)
    return StorageClass(
        name=meta.get("name").needed_text(),
        provisioner=root.get("provisioner").text(),
        binding_mode=root.get("volumeBindingMode").text("Immediate" if defaults else ""),
        topologies=tuple(
            tuple(
                Requirement(
                    key=label.get("key").text(), operator="In", values=label.get("values").texts()
                )
                for label in term.get("matchLabelExpressions").items()
            )
            for term in root.get("allowedTopologies").items()
        ),
        default=any(notes.get(name) == "true" for name in DEFAULT_CLASS),
        created_at=instant(meta.get("creationTimestamp")),
    )


def csi_node(root: Field, defaults: bool) -> CSINode:
    """A storage.k8s.io/v1 CSINode."""
    meta = root.get("metadata")
    migrated = annotations(meta).get(MIGRATED_PLUGINS, "")
    drivers = root.get("spec").get("drivers").items()
    return CSINode(
        name=meta.get("name").needed_text(),
        drivers=tuple(
            NodeDriver(
                name=driver.get("name").text(),
                node_id=driver.get("nodeID").text(),
                topology_keys=driver.get("topologyKeys").texts(),
                limit=_count(driver.get("allocatable").get("count")),
            )
            for driver in drivers
        ),
        migrated=tuple(filter(None, migrated.split(","))),
    )


def _count(field: Field) -> int | None:
    return None if field.value is None else field.integer(-_INT32, _INT32 - 1)


def csi_driver(root: Field, defaults: bool) -> CSIDriver:
    """A storage.k8s.io/v1 CSIDriver."""
    return CSIDriver(
        name=root.get("metadata").get("name").needed_text(),
        capacity=root.get("spec").get("storageCapacity").flag(),
    )


def storage_capacity(root: Field, defaults: bool) -> CSIStorageCapacity:
    """A storage.k8s.io/v1 CSIStorageCapacity."""
    meta = root.get("metadata")
    return CSIStorageCapacity(
        name=meta.get("name").needed_text(),
        namespace=meta.get("namespace").text() or "default",
        storage_class=root.get("storageClassName").text(),
        capacity=root.get("capacity").amount(),
        largest=root.get("maximumVolumeSize").amount(),
        topology=label_selector(root.get("nodeTopology")),
    )


def attachment(root: Field, defaults: bool) -> VolumeAttachment:
    """A storage.k8s.io/v1 VolumeAttachment."""
    spec = root.get("spec")
    return VolumeAttachment(
        name=root.get("metadata").get("name").needed_text(),
        attacher=spec.get("attacher").text(),
        node=spec.get("nodeName").text(),
        volume=spec.get("source").get("persistentVolumeName").text(),
    )
