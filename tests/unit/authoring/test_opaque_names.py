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
    "spec": {"taints": [{"key": "corp.example/only", "value": "secret", "effect": "NoSchedule"}]},
    "status": {"allocatable": {"cpu": "4"}, "images": [{"names": ["corp/app:1"], "sizeBytes": 9}]},
}
POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "secret",
        "namespace": "team-a",
        "uid": "u-1",
        "ownerReferences": [{"kind": "ReplicaSet", "name": "payroll-7d9f", "uid": "u-2"}],
    },
    "spec": {
        "nodeSelector": {"corp.example/team": "secret"},
        "tolerations": [{"key": "corp.example/only", "operator": "Exists"}],
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


def test_names_are_renamed_alike_everywhere() -> None:
    opaque = OpaqueNames()
    node, pod = opaque.renamed([NODE, POD])
    names = opaque.names
    assert node["metadata"]["name"] == names["gpu-7.corp"] == "node-1"
    assert node["metadata"]["labels"]["kubernetes.io/hostname"] == "node-1"
    team = names["corp.example/team"]
    assert node["metadata"]["labels"][team] == pod["spec"]["nodeSelector"][team] == names["secret"]
    taint, toleration = node["spec"]["taints"][0], pod["spec"]["tolerations"][0]
    assert taint["key"] == toleration["key"] == names["corp.example/only"]
    assert taint["effect"] == "NoSchedule"
    assert toleration["operator"] == "Exists"
    terms = pod["spec"]["affinity"]["nodeAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]["nodeSelectorTerms"]
    assert terms == [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}]}
    ]
    assert node["status"]["images"][0]["names"] == [pod["spec"]["containers"][0]["image"]]
    assert "corp" not in str([node, pod])
    assert "secret" not in str([node, pod])
    assert "payroll" not in str([node, pod])


def test_the_given_objects_stay_as_they_are() -> None:
    before = str([NODE, POD])
    OpaqueNames().renamed([NODE, POD])
    assert str([NODE, POD]) == before
