"""Nodes, claims and volumes of the generated clusters."""

import random
from typing import Any

Obj = dict[str, Any]

ZONE = "topology.kubernetes.io/zone"
HOSTNAME = "kubernetes.io/hostname"
ZONES = ["zone-a", "zone-b", "zone-c"]
IMAGES = [
    ("registry.example/app:v1", 300),
    ("registry.example/db:v3", 900),
    ("registry.example/ml:latest", 4000),
    ("registry.example/tiny:v1", 10),
]


def node(r: random.Random, index: int, features: list[str]) -> Obj:
    """One node; its features are those of the kind of scenario."""
    name = f"n{index:03d}"
    labels = {
        HOSTNAME: name,
        ZONE: r.choice(ZONES),
        "topology.kubernetes.io/region": "r1",
        "disk": r.choice(["ssd", "hdd"]),
        "gen": str(r.randint(1, 9)),
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": r.choice(["amd64", "arm64"]),
    }
    if r.random() < 0.3:
        labels["accel"] = r.choice(["a100", "t4"])
    if "spread" in features and r.random() < 0.1:
        labels.pop(ZONE)
    room = _room(r, features)
    made: Obj = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {},
        "status": {
            "capacity": room,
            "allocatable": room,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }
    if "taint" in features:
        _taint(r, made["spec"])
    if "image" in features:
        made["status"]["images"] = [
            {"names": [image], "sizeBytes": size * 1024 * 1024}
            for image, size in IMAGES
            if r.random() < 0.4
        ]
    return made


def _room(r: random.Random, features: list[str]) -> Obj:
    room = {
        "cpu": r.choice(["4", "8", "16", "7500m"]),
        "memory": r.choice(["8Gi", "16Gi", "32Gi"]),
        "pods": r.choice(["110", "110", "8", "5"]),
        "ephemeral-storage": "50Gi",
    }
    if "preempt" in features:
        room.update(
            cpu=r.choice(["2", "4"]), memory=r.choice(["4Gi", "8Gi"]), pods=r.choice(["110", "6"])
        )
    if r.random() < 0.4:
        room["example.com/gpu"] = r.choice(["1", "4", "8"])
    return room


def _taint(r: random.Random, spec: Obj) -> None:
    taints: list[Obj] = []
    if r.random() < 0.35:
        value = r.choice(["ml", "db"])
        effect = r.choice(["NoSchedule", "NoExecute", "PreferNoSchedule"])
        taints.append({"key": "dedicated", "value": value, "effect": effect})
    if r.random() < 0.25:
        taints.append({"key": "spot", "effect": r.choice(["PreferNoSchedule", "NoSchedule"])})
    if r.random() < 0.15:
        taints.append({"key": "tier", "value": str(r.randint(1, 5)), "effect": "PreferNoSchedule"})
    if taints:
        spec["taints"] = taints
    if r.random() < 0.1:
        spec["unschedulable"] = True


def storage_class(name: str, provisioner: str, mode: str, **more: Any) -> Obj:
    """A StorageClass."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": provisioner,
        "volumeBindingMode": mode,
        **more,
    }


def requires(key: str, values: list[str]) -> Obj:
    """The node affinity of a volume: a label that is one of these values."""
    expression = {"key": key, "operator": "In", "values": values}
    return {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}


def storage(r: random.Random, nodes: list[Obj]) -> tuple[list[Obj], list[str]]:
    """Classes, drivers, claims and volumes, and the names of the claims."""
    late, csi = "WaitForFirstConsumer", "csi.example.com"
    made = [
        storage_class("wait", csi, late),
        storage_class(
            "wait-zonal",
            csi,
            late,
            allowedTopologies=[
                {"matchLabelExpressions": [{"key": ZONE, "values": ["zone-a", "zone-b"]}]}
            ],
        ),
        storage_class("local", "kubernetes.io/no-provisioner", late),
        storage_class("now", csi, "Immediate"),
    ]
    made += [_csi_node(r, each["metadata"]["name"]) for each in nodes if r.random() < 0.8]
    names = [f"claim{index}" for index in range(8)]
    for index in range(8):
        made += _claim(r, index)
    for index in range(4):
        made.append(_local_volume(r, index, nodes))
    return made, names


def _csi_node(r: random.Random, name: str) -> Obj:
    driver: Obj = {"name": "csi.example.com", "nodeID": name, "topologyKeys": [ZONE]}
    if r.random() < 0.5:
        driver["allocatable"] = {"count": r.randint(1, 3)}
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": {"name": name, "uid": "u" + name},
        "spec": {"drivers": [driver]},
    }


def _claim(r: random.Random, index: int) -> list[Obj]:
    kind = r.choice(["wait", "wait-zonal", "local", "now", "bound", "bound", "rwop"])
    claim: Obj = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": f"claim{index}", "namespace": "default", "uid": f"pvc-{index}"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": r.choice(["1Gi", "10Gi"])}},
        },
        "status": {"phase": "Pending"},
    }
    if kind not in ("bound", "rwop"):
        claim["spec"]["storageClassName"] = kind
        return [claim]
    claim["spec"].update(volumeName=f"pv{index}", storageClassName="now")
    claim["metadata"]["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
    claim["status"]["phase"] = "Bound"
    if kind == "rwop":
        claim["spec"]["accessModes"] = ["ReadWriteOncePod"]
    return [_bound_volume(r, index, claim), claim]


def _bound_volume(r: random.Random, index: int, claim: Obj) -> Obj:
    volume: Obj = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"pv{index}"},
        "spec": {
            "capacity": {"storage": "10Gi"},
            "accessModes": claim["spec"]["accessModes"],
            "storageClassName": "now",
            "claimRef": {
                "namespace": "default",
                "name": claim["metadata"]["name"],
                "uid": f"pvc-{index}",
            },
            "csi": {"driver": "csi.example.com", "volumeHandle": f"h{index}"},
        },
        "status": {"phase": "Bound"},
    }
    if r.random() < 0.5:
        volume["spec"]["nodeAffinity"] = requires(ZONE, [r.choice(ZONES)])
    if r.random() < 0.4:
        zone = r.choice(["zone-a", "zone-b__zone-c", "zone-c"])
        volume["metadata"]["labels"] = {ZONE: zone}
    return volume


def _local_volume(r: random.Random, index: int, nodes: list[Obj]) -> Obj:
    name = r.choice(nodes)["metadata"]["name"]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"localpv{index}"},
        "spec": {
            "capacity": {"storage": r.choice(["1Gi", "5Gi", "20Gi"])},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "local",
            "local": {"path": "/d"},
            "nodeAffinity": requires(HOSTNAME, [name]),
        },
        "status": {"phase": "Available"},
    }
