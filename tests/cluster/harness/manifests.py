"""Manifests for the API server: the required fields, plus those that a test gives. Fields that are
None are omitted."""

from collections.abc import Sequence
from typing import Any

from tests.cluster.harness.client import Object

IMAGE = "registry.example/app:1"
SCHEDULER = "eventsched"
"""The schedulerName of pods that say nothing else."""
UPSTREAM = "upstream"
"""That of pods for kube-scheduler, if a test runs it (``upstream`` in conftest.py)."""


def node(
    name: str,
    cpu: str = "4",
    memory: str = "8Gi",
    pods: int = 110,
    labels: dict[str, str] | None = None,
    taints: Sequence[Object] = (),
    **more: str,
) -> Object:
    """A node with its capacity, and a hostname label as kubelets give it; ``more`` are extended
    resources."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
        "spec": _given(taints=list(taints) or None),
        "status": {
            "capacity": {"cpu": cpu, "memory": memory, "pods": str(pods), **more},
            "allocatable": {"cpu": cpu, "memory": memory, "pods": str(pods), **more},
        },
    }


def pod(
    name: str,
    cpu: str | None = "100m",
    memory: str | None = None,
    scheduler: str = SCHEDULER,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    **spec: Any,
) -> Object:
    """A pod with one container; ``spec`` are fields of its spec, such as ``nodeSelector``."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **_given(labels=labels, annotations=annotations)},
        "spec": _pod_spec(cpu, memory, scheduler, spec),
    }


def deployment(name: str, replicas: int = 1, **template: Any) -> Object:
    """A deployment; ``template`` is given to ``pod``."""
    return _workload("apps/v1", "Deployment", name, template, replicas=replicas)


def stateful_set(
    name: str, replicas: int = 1, claims: Sequence[Object] = (), **template: Any
) -> Object:
    """A stateful set whose pods start together; ``claims`` become its claim templates."""
    more = _given(volumeClaimTemplates=list(claims) or None)
    return _workload(
        "apps/v1",
        "StatefulSet",
        name,
        template,
        replicas=replicas,
        serviceName=name,
        podManagementPolicy="Parallel",
        **more,
    )


def daemon_set(name: str, **template: Any) -> Object:
    """A daemon set."""
    return _workload("apps/v1", "DaemonSet", name, template)


def job(name: str, completions: int = 1, parallelism: int = 1, **template: Any) -> Object:
    """A job whose pods are not started again."""
    made = _workload(
        "batch/v1",
        "Job",
        name,
        {"restartPolicy": "Never", **template},
        completions=completions,
        parallelism=parallelism,
    )
    del made["spec"]["selector"]  # the server makes one
    return made


def claim(name: str, storage_class: str, size: str = "1Gi", volume: str | None = None) -> Object:
    """A PersistentVolumeClaim."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": storage_class,
            "resources": {"requests": {"storage": size}},
            **_given(volumeName=volume),
        },
    }


def volume(name: str, storage_class: str, size: str = "1Gi", node: str | None = None) -> Object:
    """A PersistentVolume, local to a node where one is named."""
    where: Object = {"hostPath": {"path": f"/var/lib/{name}"}}
    if node is not None:
        term = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
        where = {
            "local": {"path": f"/var/lib/{name}"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [term]}]}},
        }
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": storage_class,
            **where,
        },
    }


def storage_class(
    name: str,
    provisioner: str = "kubernetes.io/no-provisioner",
    mode: str = "WaitForFirstConsumer",
) -> Object:
    """A StorageClass."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": provisioner,
        "volumeBindingMode": mode,
    }


def priority_class(name: str, value: int, **more: Any) -> Object:
    """A PriorityClass."""
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
        **more,
    }


def budget(name: str, labels: dict[str, str], available: int) -> Object:
    """A PodDisruptionBudget that keeps a number of pods available."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name},
        "spec": {"minAvailable": available, "selector": {"matchLabels": labels}},
    }


def owners(name: str) -> list[Object]:
    """Whatever selects pods of a label ``app`` with this name, without a controller to make any: a
    service, and one of each kind that pods can belong to and spreading looks at."""
    labels = {"app": name}
    service = {"selector": labels, "ports": [{"port": 80}]}
    old = _workload("v1", "ReplicationController", name, {}, replicas=0)
    old["spec"]["selector"] = labels
    return [
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": service},
        old,
        _workload("apps/v1", "ReplicaSet", name, {}, replicas=0),
        stateful_set(name, 0),
    ]


def csi(driver: str, node: str, storage_class: str, volume: str) -> list[Object]:
    """A CSI driver, its presence on a node, its room there for a class, and a volume that it has
    attached to the node."""
    version = "storage.k8s.io/v1"
    room = {
        "storageClassName": storage_class,
        "capacity": "100Gi",
        "maximumVolumeSize": "10Gi",
        "nodeTopology": {"matchLabels": {"kubernetes.io/hostname": node}},
    }
    on_node = {
        "name": driver,
        "nodeID": node,
        "topologyKeys": ["kubernetes.io/hostname"],
        "allocatable": {"count": 8},
    }
    attached = {
        "attacher": driver,
        "nodeName": node,
        "source": {"persistentVolumeName": volume},
    }
    return [
        {
            "apiVersion": version,
            "kind": "CSIDriver",
            "metadata": {"name": driver},
            "spec": {"storageCapacity": True},
        },
        {
            "apiVersion": version,
            "kind": "CSINode",
            "metadata": {"name": node},
            "spec": {"drivers": [on_node]},
        },
        {
            "apiVersion": version,
            "kind": "CSIStorageCapacity",
            "metadata": {"name": "room"},
            **room,
        },
        {
            "apiVersion": version,
            "kind": "VolumeAttachment",
            "metadata": {"name": "attached"},
            "spec": attached,
        },
    ]


def taint(key: str, value: str = "", effect: str = "NoSchedule") -> Object:
    """A node's taint."""
    return {"key": key, "value": value, "effect": effect}


def mounted(*claims: str) -> list[Object]:
    """The ``volumes`` of a pod that uses these claims."""
    return [{"name": each, "persistentVolumeClaim": {"claimName": each}} for each in claims]


def _workload(version: str, kind: str, name: str, template: Object, **spec: Any) -> Object:
    labels = {"app": name, **template.pop("labels", {})}
    made = pod(name, labels=labels, **template)
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {
                    key: value for key, value in made["metadata"].items() if key != "name"
                },
                "spec": made["spec"],
            },
            **spec,
        },
    }


def _pod_spec(cpu: str | None, memory: str | None, scheduler: str, more: Object) -> Object:
    container: Object = {"name": "app", "image": IMAGE}
    if requests := _given(cpu=cpu, memory=memory):
        container["resources"] = {"requests": requests}
    return {
        "schedulerName": scheduler,
        "containers": [container],
        # No kubelet is there to end it.
        "terminationGracePeriodSeconds": 0,
        **more,
    }


def _given(**fields: Any) -> Object:
    return {key: value for key, value in fields.items() if value is not None}
