"""Writes the objects of eventsched.domain.objects.registry as Kubernetes objects that
``cluster_objects`` reads back as they are. Pure."""

from collections.abc import Callable
from typing import Any

from eventsched.cluster.translate import volumes
from eventsched.cluster.translate.cluster_objects import READERS
from eventsched.cluster.translate.numa import FINGERPRINT, METHOD, METHOD_EXCLUSIVE
from eventsched.cluster.translate.written_manifests import (
    UNKNOWN_TIME,
    Written,
    disk,
    filled,
    metadata,
    node_term_manifest,
    quantities,
    quantity,
    requirements,
    selector_field,
)
from eventsched.domain.objects import CPU, Selector
from eventsched.domain.objects.registry import (
    ClusterObject,
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    ElasticQuota,
    Namespace,
    NodeResourceTopology,
    PersistentVolume,
    PersistentVolumeClaim,
    PodDisruptionBudget,
    ReplicaSet,
    ReplicationController,
    Service,
    StatefulSet,
    StorageClass,
    VolumeAttachment,
)

_VERSIONS = {"scheduling.x-k8s.io": "v1alpha1", "topology.node.k8s.io": "v1alpha2"}
"""API group → version, if it is not v1."""


def object_manifest(obj: ClusterObject) -> Written:
    """The Kubernetes object."""
    kind = type(obj).__name__
    group = READERS[kind][0]
    version = _VERSIONS.get(group, "v1")
    return {
        "apiVersion": f"{group}/{version}" if group else version,
        "kind": kind,
        **_WRITERS[type(obj)](obj),
    }


def _meta(obj: Any, **more: Any) -> Written:
    return metadata(obj.name, obj.namespace, **more)


def _namespace(obj: Namespace) -> Written:
    return {"metadata": _meta(obj, labels=obj.labels)}


def _service(obj: Service) -> Written:
    return {"metadata": _meta(obj), "spec": filled(selector=dict(obj.selector))}


def _controller(obj: ReplicaSet | StatefulSet) -> Written:
    return {"metadata": _meta(obj, uid=obj.uid), "spec": selector_field("selector", obj.selector)}


def _replication_controller(obj: ReplicationController) -> Written:
    return {"metadata": _meta(obj, uid=obj.uid), "spec": filled(selector=_label_map(obj.selector))}


def _label_map(selector: Selector) -> dict[str, str]:
    return {requirement.key: requirement.values[0] for requirement in selector or ()}


def _claim(obj: PersistentVolumeClaim) -> Written:
    notes = dict(obj.annotations)
    if obj.bound:
        notes.setdefault(volumes.BIND_COMPLETED, "yes")
    if obj.selected_node:
        notes.setdefault(volumes.SELECTED_NODE, obj.selected_node)
    meta = _meta(obj, uid=obj.uid, notes=notes, deleting=obj.deleting)
    if obj.owner_uid:  # only the owner's uid is kept
        owner = {"kind": "Pod", "name": obj.owner_uid, "uid": obj.owner_uid, "controller": True}
        meta["ownerReferences"] = [owner]
    name = {} if obj.storage_class is None else {"storageClassName": obj.storage_class}
    spec = name | filled(
        volumeName=obj.volume,
        accessModes=list(obj.access_modes),
        volumeMode=obj.volume_mode,
        resources=filled(requests=filled(storage=_amount(obj.requested))),
        selector=filled(matchExpressions=requirements(obj.selector or ())),
        volumeAttributesClassName=obj.attributes_class,
    )
    return {"metadata": meta, "spec": spec, "status": filled(phase=obj.phase)}


def _amount(amount: int | None) -> str:
    return quantity(amount) if amount else ""


def _volume(obj: PersistentVolume) -> Written:
    meta = _meta(obj, uid=obj.uid, labels=obj.labels, notes=obj.annotations, deleting=obj.deleting)
    spec = filled(
        storageClassName=obj.storage_class,
        capacity=filled(storage=_amount(obj.capacity)),
        accessModes=list(obj.access_modes),
        volumeMode=obj.volume_mode,
        volumeAttributesClassName=obj.attributes_class,
        csi=filled(driver=obj.driver, volumeHandle=obj.handle),
    )
    if obj.claim is not None:
        namespace, name, uid = obj.claim
        spec["claimRef"] = filled(namespace=namespace, name=name, uid=uid)
    if obj.node_terms is not None:
        terms = [node_term_manifest(term) for term in obj.node_terms]
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
    if obj.source:
        spec[obj.source] = disk(obj.source, obj.identity)
    return {"metadata": meta, "spec": spec, "status": filled(phase=obj.phase)}


def _storage_class(obj: StorageClass) -> Written:
    notes = {volumes.DEFAULT_CLASS[0]: "true"} if obj.default else {}
    topologies = [
        {"matchLabelExpressions": [
            {"key": requirement.key, "values": list(requirement.values)} for requirement in terms
        ]}
        for terms in obj.topologies
    ]  # fmt: skip
    return {
        "metadata": _meta(obj, notes=notes, created_at=obj.created_at),
        "provisioner": obj.provisioner,
        "volumeBindingMode": obj.binding_mode,
        **filled(allowedTopologies=topologies),
    }


def _csi_node(obj: CSINode) -> Written:
    notes = filled(**{volumes.MIGRATED_PLUGINS: ",".join(obj.migrated)})
    drivers = [
        {"name": driver.name}
        | filled(nodeID=driver.node_id, topologyKeys=list(driver.topology_keys))
        | ({} if driver.limit is None else {"allocatable": {"count": driver.limit}})
        for driver in obj.drivers
    ]
    return {"metadata": _meta(obj, notes=notes), "spec": {"drivers": drivers}}


def _csi_driver(obj: CSIDriver) -> Written:
    return {"metadata": _meta(obj), "spec": filled(storageCapacity=obj.capacity)}


def _storage_capacity(obj: CSIStorageCapacity) -> Written:
    capacity = {} if obj.capacity is None else {"capacity": quantity(obj.capacity)}
    largest = {} if obj.largest is None else {"maximumVolumeSize": quantity(obj.largest)}
    topology = selector_field("nodeTopology", obj.topology)
    named = filled(storageClassName=obj.storage_class)
    return {"metadata": _meta(obj)} | named | capacity | largest | topology


def _attachment(obj: VolumeAttachment) -> Written:
    return {
        "metadata": _meta(obj),
        "spec": filled(
            attacher=obj.attacher,
            nodeName=obj.node,
            source=filled(persistentVolumeName=obj.volume),
        ),
    }


def _budget(obj: PodDisruptionBudget) -> Written:
    return {
        "metadata": _meta(obj),
        "spec": selector_field("selector", obj.selector),
        "status": filled(
            disruptionsAllowed=obj.allowed, disruptedPods=dict.fromkeys(obj.disrupted, UNKNOWN_TIME)
        ),
    }


def _elastic_quota(obj: ElasticQuota) -> Written:
    limits = {"min": obj.min, "max": obj.max}
    spec = {name: quantities(limit) for name, limit in limits.items() if limit is not None}
    return {"metadata": _meta(obj), "spec": spec}


def _topology(obj: NodeResourceTopology) -> Written:
    attributes = {
        "topologyManagerPolicy": obj.policy,
        "topologyManagerScope": obj.scope,
        "topologyManagerMaxNUMANodes": str(obj.most_zones),
    }
    if obj.fingerprint or obj.only_exclusive:
        attributes[FINGERPRINT] = obj.fingerprint
    if obj.only_exclusive:
        attributes[METHOD] = METHOD_EXCLUSIVE
    zones = [
        {
            "name": f"node-{zone.number}",
            "type": "Node",
            "resources": [
                {"name": name, "available": quantity(amount, "m" if name == CPU else "")}
                for name, amount in zone.available.items()
            ],
            "costs": [{"name": f"node-{other}", "value": cost} for other, cost in zone.costs],
        }
        for zone in obj.zones
    ]
    return {
        "metadata": _meta(obj),
        "attributes": [{"name": name, "value": value} for name, value in attributes.items()],
        "zones": zones,
    }


_WRITERS: dict[type[ClusterObject], Callable[[Any], Written]] = {
    Namespace: _namespace,
    Service: _service,
    ReplicationController: _replication_controller,
    PersistentVolumeClaim: _claim,
    PersistentVolume: _volume,
    ReplicaSet: _controller,
    StatefulSet: _controller,
    StorageClass: _storage_class,
    CSINode: _csi_node,
    CSIDriver: _csi_driver,
    CSIStorageCapacity: _storage_capacity,
    VolumeAttachment: _attachment,
    PodDisruptionBudget: _budget,
    ElasticQuota: _elastic_quota,
    NodeResourceTopology: _topology,
}
