"""Opaque names: the same name is renamed alike everywhere, and Kubernetes' own names stay."""

from typing import Any

from eventsched.authoring.testcase.opaque_names import OpaqueNames

NODE: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {
        "name": "gpu-7.corp",
        "labels": {"kubernetes.io/hostname": "gpu-7.corp", "corp.example/team": "secret"},
    },
    "spec": {"taints": [{"key": "corp.example/only", "value": "corp-gpu", "effect": "NoSchedule"}]},
    "status": {"allocatable": {"cpu": "4"}, "images": [{"names": ["corp/app:1"], "sizeBytes": 9}]},
}
POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "secret",
        "namespace": "team-a",
        "uid": "u-1",
        "labels": {"corp-app": "corp-web"},
        "ownerReferences": [{"kind": "CorpJob", "name": "payroll-7d9f", "uid": "u-2"}],
    },
    "spec": {
        "nodeSelector": {"corp.example/team": "secret"},
        "tolerations": [{"key": "corp.example/only", "operator": "Equal", "value": "corp-gpu"}],
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {
                            "matchFields": [
                                {"key": "metadata.name", "operator": "In", "values": ["gpu-7.corp"]}
                            ]
                        }
                    ]
                }
            }
        },
        "containers": [
            {"name": "c", "image": "corp/app:1", "resources": {"requests": {"cpu": "1"}}}
        ],
    },
}
SERVICE: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "corp-web", "namespace": "team-a"},
    "spec": {"selector": {"corp-app": "corp-web"}},
}
VOLUME: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "PersistentVolume",
    "metadata": {"name": "v"},
    "spec": {
        "csi": {"driver": "ebs.csi.aws.com", "volumeHandle": "vol-corp"},
        "rbd": {"pool": "corp-pool", "image": "corp-disk", "monitors": ["ceph.corp:6789"]},
    },
}
ZONES: dict[str, Any] = {
    "apiVersion": "topology.node.k8s.io/v1alpha2",
    "kind": "NodeResourceTopology",
    "metadata": {"name": "gpu-7.corp"},
    "attributes": [{"name": "topologyManagerPolicy", "value": "single-numa-node"}],
    "zones": [{"name": "node-0", "resources": [{"name": "cpu", "available": "4"}]}],
}


def test_names_are_renamed_alike_everywhere() -> None:
    opaque = OpaqueNames()
    node, pod, service, volume = opaque.renamed([NODE, POD, SERVICE, VOLUME])
    names = opaque.names
    assert node["metadata"]["name"] == names["gpu-7.corp"] == "node-1"
    assert node["metadata"]["labels"]["kubernetes.io/hostname"] == "node-1"
    team = names["corp.example/team"]
    assert node["metadata"]["labels"][team] == pod["spec"]["nodeSelector"][team] == names["secret"]
    taint, toleration = node["spec"]["taints"][0], pod["spec"]["tolerations"][0]
    assert taint["key"] == toleration["key"] == names["corp.example/only"]
    assert taint["value"] == toleration["value"] == names["corp-gpu"]
    assert taint["effect"] == "NoSchedule"
    assert toleration["operator"] == "Equal"
    assert pod["metadata"]["ownerReferences"][0]["kind"] == names["CorpJob"]
    assert pod["kind"] == "Pod"
    assert service["spec"]["selector"] == pod["metadata"]["labels"]
    assert volume["spec"]["csi"]["driver"] == "ebs.csi.aws.com"
    terms = pod["spec"]["affinity"]["nodeAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]["nodeSelectorTerms"]
    assert terms == [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}]}
    ]
    assert node["status"]["images"][0]["names"] == [pod["spec"]["containers"][0]["image"]]
    for name in ("corp", "Corp", "secret", "payroll"):
        assert name not in str([node, pod, service, volume])


def test_words_of_the_kubelet_are_kept() -> None:
    _, zones = OpaqueNames().renamed([NODE, ZONES])
    assert zones["metadata"]["name"] == "node-1"
    assert (zones["attributes"], zones["zones"]) == (ZONES["attributes"], ZONES["zones"])


def test_the_given_objects_stay_as_they_are() -> None:
    before = str([NODE, POD])
    OpaqueNames().renamed([NODE, POD])
    assert str([NODE, POD]) == before
