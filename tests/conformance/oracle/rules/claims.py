"""Claims, volumes, classes and drivers, and pods that mount them."""

from typing import Any

from tests.conformance.oracle.clusters import Obj
from tests.conformance.oracle.rules.vocabulary import Rule, pod

BOUND = {"pv.kubernetes.io/bind-completed": "yes"}
DRIVER = "csi.example.com"
EBS, GCE = "ebs.csi.aws.com", "pd.csi.storage.gke.io"


def claim(name: str, class_name: str | None = "wait", size: str | None = "1Gi", **more: Any) -> Obj:
    """A PersistentVolumeClaim that waits, unless ``volume`` binds it.

    ``modes``, ``phase``, ``annotations`` and ``metadata`` are as given, all else is its spec.
    """
    volume = more.pop("volume", "")
    bound = {"annotations": dict(BOUND)} if volume else {}
    metadata = {"name": name, "namespace": "default", "uid": f"pvc-{name}", **bound}
    if "annotations" in more:
        metadata["annotations"] = more.pop("annotations")
    metadata |= more.pop("metadata", {})
    phase = more.pop("phase", "Bound" if volume else "Pending")
    spec: Obj = {
        "accessModes": more.pop("modes", ["ReadWriteOnce"]),
        "resources": {"requests": {"storage": size} if size else {}},
        **more,
    }
    if class_name is not None:
        spec["storageClassName"] = class_name
    if volume:
        spec["volumeName"] = volume
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": metadata,
        "spec": spec,
        "status": {"phase": phase},
    }


def volume(name: str, class_name: str = "now", size: str = "10Gi", **more: Any) -> Obj:
    """A PersistentVolume of a CSI driver, unless ``source`` is another; ``of`` names its claim."""
    of = more.pop("of", "")
    metadata = {"name": name, **more.pop("metadata", {})}
    source = more.pop("source", {"csi": {"driver": DRIVER, "volumeHandle": f"handle-{name}"}})
    status = {"phase": more.pop("phase", "Bound" if of else "Available")}
    spec: Obj = {
        "capacity": {"storage": size},
        "accessModes": more.pop("modes", ["ReadWriteOnce"]),
        "storageClassName": class_name,
        **source,
        **more,
    }
    if of:
        spec["claimRef"] = {"namespace": "default", "name": of, "uid": f"pvc-{of}"}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": metadata,
        "spec": spec,
        "status": status,
    }


def bound(name: str, **more: Any) -> list[Obj]:
    """A claim ``name`` that is bound to the volume ``pv-name``."""
    modes = more.pop("modes", ["ReadWriteOnce"])
    return [
        claim(name, "now", volume=f"pv-{name}", modes=modes),
        volume(f"pv-{name}", of=name, modes=modes, **more),
    ]


def storage(kind: str, name: str, spec: Obj, **metadata: Any) -> Obj:
    """Another object of storage.k8s.io/v1: a spec under a name."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name, **metadata},
        "spec": spec,
    }


def csi_node(name: str, *drivers: tuple[str, int | None], migrated: str = "") -> Obj:
    """A node's drivers with their limits, and the in-tree plugins that are theirs now."""
    metadata: Obj = {"uid": f"uid-{name}"}
    if migrated:
        metadata["annotations"] = {"storage.alpha.kubernetes.io/migrated-plugins": migrated}
    made = [
        {"name": driver, "nodeID": name, "topologyKeys": None}
        | ({} if limit is None else {"allocatable": {"count": limit}})
        for driver, limit in drivers
    ]
    return storage("CSINode", name, {"drivers": made}, **metadata)


def attachment(name: str, node: str, volume_name: str | None, attacher: str = DRIVER) -> Obj:
    """A VolumeAttachment; without a volume it is inline."""
    inline = {"inlineVolumeSpec": {"accessModes": ["ReadWriteOnce"]}}
    source = {"persistentVolumeName": volume_name} if volume_name else inline
    spec = {"attacher": attacher, "nodeName": node, "source": source}
    return {**storage("VolumeAttachment", name, spec), "status": {"attached": True}}


def mounts(*names: str, **spec: Any) -> Obj:
    """A pod that mounts claims."""
    return holds(*({"persistentVolumeClaim": {"claimName": name}} for name in names), **spec)


def mounting(*names: str) -> Rule:
    """The rule of a pod that mounts claims."""
    return lambda r: mounts(*names)


def holding(*sources: Obj) -> Rule:
    """The rule of a pod with volumes of these sources."""
    return lambda r: holds(*sources)


def holds(*sources: Obj, **spec: Any) -> Obj:
    """A pod with volumes v0, v1, … of these sources."""
    return pod(volumes=[{"name": f"v{i}", **each} for i, each in enumerate(sources)], **spec)


def ephemeral() -> Obj:
    """A volume whose claim is made for the pod: POD-v0 for the first of its volumes."""
    template = {"spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "wait"}}
    return {"ephemeral": {"volumeClaimTemplate": template}}


def made_for(name: str) -> Obj:
    """The metadata of a claim that was made for an ephemeral volume of a pod."""
    owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": f"uid-{name}"}
    return {"ownerReferences": [{**owner, "controller": True}]}
