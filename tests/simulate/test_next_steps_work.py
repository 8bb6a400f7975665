"""The next step of ``explain`` is taken, and the pod is placed."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from eventsched.cli.main import main

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"


def node(name: str, cpu: str = "4", **spec: Any) -> dict[str, Any]:
    allocatable = {"cpu": cpu, "memory": "8Gi", "pods": "110"}
    return {
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {HOSTNAME: name}},
        "spec": spec, "status": {"allocatable": allocatable},
    }  # fmt: skip


def tainted(name: str, key: str, cpu: str = "4") -> dict[str, Any]:
    return node(name, cpu, taints=[{"key": key, "effect": "NoSchedule"}])


def pod(cpu: str = "1", **spec: Any) -> dict[str, Any]:
    containers = [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "j", "controller": True}
    return {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "p", "namespace": "default", "ownerReferences": [owner]},
        "spec": {"containers": containers, **spec},
    }  # fmt: skip


CONTROL, NOT_READY = "node-role.kubernetes.io/control-plane", "node.kubernetes.io/not-ready"
SSD: dict[str, Any] = {"nodeSelector": {"disk": "ssd"}}


def labelled(objects: dict[str, Any], name: str) -> None:
    objects[name]["metadata"]["labels"]["disk"] = "ssd"


def opened(objects: dict[str, Any], name: str) -> None:
    objects[name]["spec"] = {}


def tolerant(objects: dict[str, Any], key: str) -> None:
    objects["p"]["spec"]["tolerations"] = [{"key": key, "operator": "Exists"}]


def on(name: str) -> dict[str, Any]:
    fields = [{"key": "metadata.name", "operator": "In", "values": [name]}]
    required = {"nodeSelectorTerms": [{"matchFields": fields}]}
    return {
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    }


def claimed(volume: str = "") -> dict[str, Any]:
    return {
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": "c", "namespace": "default"},
        "spec": {"storageClassName": "local", "accessModes": ["ReadWriteOnce"],
                 "volumeName": volume, "resources": {"requests": {"storage": "1Gi"}}},
        "status": {"phase": "Bound" if volume else "Pending"},
    }  # fmt: skip


def local_volume(where: str, claim: str = "", key: str = HOSTNAME) -> dict[str, Any]:
    term = {"matchExpressions": [{"key": key, "operator": "In", "values": [where]}]}
    reference = {"claimRef": {"namespace": "default", "name": claim}} if claim else {}
    return {
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "v"},
        "spec": {"storageClassName": "local", "accessModes": ["ReadWriteOnce"],
                 "capacity": {"storage": "1Gi"}, "local": {"path": "/d"},
                 "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}}, **reference},
        "status": {"phase": "Bound" if claim else "Available"},
    }  # fmt: skip


def provided(objects: dict[str, Any], node_name: str) -> None:
    objects["v"] = local_volume(node_name)


def in_zone(name: str, zone: str) -> dict[str, Any]:
    made = node(name)
    made["metadata"]["labels"][ZONE] = zone
    return made


def joined(objects: dict[str, Any], zone: str) -> None:
    objects["new"] = in_zone("new", zone)


def emptied(objects: dict[str, Any], pod_name: str) -> None:
    del objects[pod_name]


LOCAL = {
    "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "local"},
    "provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer",
}  # fmt: skip
VOLUME: dict[str, Any] = {"volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "c"}}]}
RUNNING = pod("2", nodeName="w1")
RUNNING["metadata"]["name"] = "running"
GPU = tainted("gpu", "gpu", "64")
labelled({"gpu": GPU}, "gpu")
CASES = [
    ([*(tainted(f"cp{n}", CONTROL) for n in range(3)), node("w1"), node("w2"), pod(**SSD)],
     "NodeAffinity", "label one of 2 open nodes, such as w1, with disk=ssd", labelled, "w1"),
    ([node("w1"), node("w2"), pod(**SSD, **on("w2"))],
     "NodeAffinity", "label node w2 with disk=ssd, or remove that", labelled, "w2"),
    ([node("w1", unschedulable=True), node("w2", unschedulable=True), node("w3"), pod(**SSD)],
     "NodeAffinity", "label w3 with disk=ssd", labelled, "w3"),
    ([node("w1"), node("w2"), node("w3"), GPU, pod("8", **SSD)],
     "TaintToleration", "add a toleration for the taint gpu:NoSchedule of 1 node", tolerant, "gpu"),
    ([tainted("w1", NOT_READY), tainted("w2", NOT_READY), pod()],
     "TaintToleration", "repair one of 2 nodes that are not ready, such as w1", opened, "w1"),
    ([node("small", "2"), tainted("big", NOT_READY), pod("3")], "NodeResourcesFit",
     "add a larger node, with 3 cpu, or lower its requests; or repair node big that", opened,
     "big"),
    ([node("small", "2"), node("big", unschedulable=True), pod("3")], "NodeResourcesFit",
     "uncordon 1 node, if meant for such pods", opened, "big"),
    ([node("w1"), node("w2"), RUNNING, LOCAL, claimed(), pod("3", **VOLUME)], "NodeResourcesFit",
     "create a volume that fits its claims on node w2 with room (`eventsched explain "
     "default/p --why-not w2` proves it); or add a node", provided, "w2"),
    ([node("w1"), node("w2"), RUNNING, LOCAL, claimed("v"), local_volume("w1", "c"),
      pod("3", **VOLUME)], "NodeResourcesFit",
     "make room on a node that its volume can be reached from, add such a node, lower its",
     emptied, "running"),
    ([in_zone("w1", "a"), in_zone("w2", "b"), RUNNING, LOCAL, claimed("v"),
      local_volume("a", "c", ZONE), pod("3", **VOLUME)], "NodeResourcesFit",
     "make room on a node that its volume can be reached from, add such a node, lower its",
     joined, "a"),
    ([node("w1", unschedulable=True), node("w2"), LOCAL, claimed("v"), local_volume("w1", "c"),
      pod(**VOLUME)], "VolumeBinding",
     "open, make room on, or add a node that the node affinity of its PersistentVolume names",
     opened, "w1"),
]  # fmt: skip


@pytest.mark.parametrize(("cluster", "plugin", "step", "take", "what"), CASES)
def test_the_pod_is_placed_after_its_next_step(
    cluster: list[dict[str, Any]], plugin: str, step: str, take: Any, what: str,
    tmp_path: Path, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    def summary(objects: list[dict[str, Any]]) -> Any:
        file = tmp_path / "cluster.json"
        file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
        capsys.readouterr()
        words = ["--manifests", str(file), "--until", "1m", "--in-memory", "-o", "json"]
        assert main(["simulate", *words, "--why", "default/p"]) == 0
        return json.loads(capsys.readouterr().out)["why"]["summary"]

    before = summary(cluster)
    assert (before["state"], before["plugin"]) == ("unschedulable", plugin)
    assert before["next_step"].startswith(step)
    objects = {each["metadata"]["name"]: each for each in copy.deepcopy(cluster)}
    take(objects, what)
    assert summary(list(objects.values()))["state"] == "bound"
