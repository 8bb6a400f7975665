"""Turns API objects other than nodes and pods into those of eventsched.domain.objects.registry."""

from collections.abc import Callable, Mapping
from typing import Any

from eventsched.cluster.translate import volumes
from eventsched.cluster.translate.fields import Field
from eventsched.cluster.translate.node_selectors import label_map, label_selector
from eventsched.cluster.translate.numa import node_resource_topology
from eventsched.domain.objects.registry import (
    AnyObject,
    ElasticQuota,
    Namespace,
    PodDisruptionBudget,
    ReplicaSet,
    ReplicationController,
    Service,
    StatefulSet,
)

_NAME_LABEL = "kubernetes.io/metadata.name"
_INT32 = 2**31


def _name_and_namespace(meta: Field) -> dict[str, str]:
    """Name and namespace of a namespaced object."""
    return {
        "name": meta.get("name").needed_text(),
        "namespace": meta.get("namespace").text() or "default",
    }


def _namespace(root: Field, defaults: bool) -> Namespace:
    meta = root.get("metadata")
    name = meta.get("name").needed_text()
    labels = meta.get("labels").text_map()
    if defaults:
        labels.setdefault(_NAME_LABEL, name)  # SetDefaults_Namespace
    return Namespace(name=name, labels=labels)


def _service(root: Field, defaults: bool) -> Service:
    return Service(
        **_name_and_namespace(root.get("metadata")),
        selector=root.get("spec").get("selector").text_map(),
    )


def _replica_set(root: Field, defaults: bool) -> ReplicaSet:
    meta = root.get("metadata")
    return ReplicaSet(
        **_name_and_namespace(meta),
        uid=meta.get("uid").text(),
        selector=label_selector(root.get("spec").get("selector")),
    )


def _stateful_set(root: Field, defaults: bool) -> StatefulSet:
    meta = root.get("metadata")
    return StatefulSet(
        **_name_and_namespace(meta),
        uid=meta.get("uid").text(),
        selector=label_selector(root.get("spec").get("selector")),
    )


def _replication_controller(root: Field, defaults: bool) -> ReplicationController:
    """Its selector is a map of labels. An API server fills a missing one from the template's labels
    (SetDefaults_ReplicationController)."""
    meta, spec = root.get("metadata"), root.get("spec")
    selector = label_map(spec.get("selector"))
    if defaults and not selector:
        selector = label_map(spec.get("template").get("metadata").get("labels"))
    return ReplicationController(
        **_name_and_namespace(meta), uid=meta.get("uid").text(), selector=selector or None
    )


def _budget(root: Field, defaults: bool) -> PodDisruptionBudget:
    status = root.get("status")
    return PodDisruptionBudget(
        **_name_and_namespace(root.get("metadata")),
        selector=label_selector(root.get("spec").get("selector")),
        allowed=status.get("disruptionsAllowed").integer(-_INT32, _INT32 - 1),
        disrupted=tuple(sorted(status.get("disruptedPods").names())),
    )


def _elastic_quota(root: Field, defaults: bool) -> ElasticQuota:
    limits = (root.get("spec").get(name) for name in ("min", "max"))
    least, most = (None if limit.value is None else limit.resources() for limit in limits)
    return ElasticQuota(**_name_and_namespace(root.get("metadata")), min=least, max=most)


Reader = Callable[[Field, bool], AnyObject]

READERS: dict[str, tuple[str, Reader]] = {
    "Namespace": ("", _namespace),
    "Service": ("", _service),
    "ReplicationController": ("", _replication_controller),
    "PersistentVolumeClaim": ("", volumes.claim),
    "PersistentVolume": ("", volumes.volume),
    "ReplicaSet": ("apps", _replica_set),
    "StatefulSet": ("apps", _stateful_set),
    "StorageClass": ("storage.k8s.io", volumes.storage_class),
    "CSINode": ("storage.k8s.io", volumes.csi_node),
    "CSIDriver": ("storage.k8s.io", volumes.csi_driver),
    "CSIStorageCapacity": ("storage.k8s.io", volumes.storage_capacity),
    "VolumeAttachment": ("storage.k8s.io", volumes.attachment),
    "PodDisruptionBudget": ("policy", _budget),
    "ElasticQuota": ("scheduling.x-k8s.io", _elastic_quota),
    "NodeResourceTopology": ("topology.node.k8s.io", node_resource_topology),
}
"""Kind → its API group and its reader, which takes the object and ``defaults``: whether to fill in
what an API server would on admission, as ``pods.pod`` does."""


def is_read(kind: str, version: Any) -> bool:
    """Whether scheduling reads objects of this kind and apiVersion. A missing apiVersion
    matches."""
    if kind not in READERS:
        return False
    group = READERS[kind][0]
    return not isinstance(version, str) or not version or version.rpartition("/")[0] == group


def read(kind: str, obj: Mapping[str, Any], where: str, *, defaults: bool) -> AnyObject:
    """Translates an object of a kind in READERS. Raises InputError naming ``where``, the field and
    what to do."""
    return READERS[kind][1](Field(dict(obj), where), defaults)
