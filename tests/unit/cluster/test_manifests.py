"""Manifest files: YAML and JSON, documents and lists, warnings and errors."""

import gzip
import json
from pathlib import Path

import pytest

from eventsched.cluster.sources import manifests
from eventsched.domain.errors import InputError
from eventsched.domain.objects.registry import PersistentVolumeClaim

MIXED = """\
# a comment
apiVersion: v1
kind: Node
metadata: {name: n1, creationTimestamp: 2026-01-01T00:00:00Z}
status: {allocatable: {cpu: 4, memory: 8Gi, pods: 110}}
---
---
apiVersion: v1
kind: Pod
metadata:
  name: a
  namespace: team
  uid: 11111111-2222-4333-8444-555555555555
  creationTimestamp: 1970-01-01T00:00:02Z
  labels: {day: 2026-01-01}
spec:
  containers:
  - image: app:v1
    resources: {limits: {cpu: 500m}}
"""

A_UID = "11111111-2222-4333-8444-555555555555"


def pod(name: str, **rest: object) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}} | rest


def node(name: str) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}


def written(folder: Path, content: object, name: str = "all.yaml") -> Path:
    path = folder / name
    text = content if isinstance(content, str) else json.dumps(content, indent=1)
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return path


@pytest.mark.parametrize("name", ["all.yaml", "all.yaml.gz"])
def test_yaml_documents(tmp_path: Path, name: str) -> None:
    found = manifests.read(written(tmp_path, MIXED, name))
    assert [each.name for each in found.nodes] == ["n1"]
    assert found.nodes[0].allocatable == {"cpu": 4000, "memory": 8 * 1024**3, "pods": 110}
    (only,) = found.pods
    assert (only.full_name, only.uid, only.created_at) == ("team/a", A_UID, 2_000_000)
    assert only.labels == {"day": "2026-01-01"}
    assert only.spec.containers[0].requests == {"cpu": 500}
    assert found.warnings == []


@pytest.mark.parametrize("name", ["all.json", "all.json.gz", "all.yaml"])
def test_a_list_as_kubectl_prints_it(tmp_path: Path, name: str) -> None:
    items = [node("n1"), pod("b"), pod("a")]
    found = manifests.read(written(tmp_path, {"kind": "List", "items": items}, name))
    assert [each.name for each in found.nodes] == ["n1"]
    assert [each.name for each in found.pods] == ["b", "a"]


def test_the_items_of_a_typed_list_need_no_kind(tmp_path: Path) -> None:
    items = [{"metadata": {"name": "n1"}}]
    found = manifests.read(written(tmp_path, {"kind": "NodeList", "items": items}))
    assert [each.name for each in found.nodes] == ["n1"]


def test_an_empty_list_holds_nothing(tmp_path: Path) -> None:
    assert manifests.read(written(tmp_path, {"kind": "List", "items": None})) == (
        manifests.Manifests()
    )


def test_finished_pods_are_left_out(tmp_path: Path) -> None:
    phases = ["Pending", "Running", "Succeeded", "Failed"]
    items = [pod(phase, status={"phase": phase}) for phase in phases]
    found = manifests.read(written(tmp_path, {"kind": "List", "items": items}))
    assert [each.name for each in found.pods] == ["Pending", "Running"]


def test_other_kinds_give_one_warning(tmp_path: Path) -> None:
    items: list[dict[str, object]] = [
        {"kind": "ConfigMap"},
        {"kind": "ConfigMap"},
        {"kind": "Deployment"},
        {"kind": "Node", "apiVersion": "management.example.com/v3"},
        {"kind": "Service", "apiVersion": "serving.example.com/v1"},
        {"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 5},
    ]
    path = written(tmp_path, {"kind": "List", "items": items})
    found = manifests.read(path)
    assert (found.nodes, found.pods, found.objects) == ([], [], [])
    assert found.warnings == [
        f"{path}: objects of kinds that scheduling does not read were left out: ConfigMap (2), "
        "Deployment (1), Node.management.example.com/v3 (1), Service.serving.example.com/v1 (1)"
    ]


def test_constraints_that_cannot_be_met_give_one_warning(tmp_path: Path) -> None:
    claims: dict[str, object] = {"resourceClaims": [{"name": "gpu"}]}
    near: dict[str, object] = {"affinity": {"podAffinity": {}}}
    items = [pod("a", spec=claims), pod("b", spec=claims | near), pod("c", spec=near)]
    path = written(tmp_path, {"kind": "List", "items": items})
    found = manifests.read(path)
    assert len(found.pods) == 3
    assert found.warnings == [
        f"{path}: constraints that this version cannot meet yet, so that it refuses the pods: "
        "resourceClaims (2 pods)"
    ]


def named(kind: str, name: str, **rest: object) -> dict[str, object]:
    return {"kind": kind, "metadata": {"name": name}} | rest


def test_objects_of_other_kinds_are_read_in_their_order(tmp_path: Path) -> None:
    items = [
        named("StorageClass", "fast"),
        named("Service", "web"),
        named("Namespace", "shop"),
        {"kind": "Service", "metadata": {"name": "web", "namespace": "shop"}},
    ]
    found = manifests.read(written(tmp_path, {"kind": "List", "items": items}))
    assert [each.title for each in found.objects] == [
        "StorageClass fast", "Service default/web", "Namespace shop", "Service shop/web"
    ]  # fmt: skip
    assert found.warnings == []


def test_classes_in_one_file_hold_for_the_others(tmp_path: Path) -> None:
    pods = [
        pod("high", spec={"priorityClassName": "high"}),
        pod("plain"),
        pod("own", spec={"priorityClassName": "high", "priority": 3}),
        pod("system", spec={"priorityClassName": "system-node-critical"}),
        pod("lost", spec={"priorityClassName": "none-such"}),
    ]
    claims = [named("PersistentVolumeClaim", "data", spec={})]
    classes = [
        named("PriorityClass", "high", value=1000, preemptionPolicy="Never"),
        named("PriorityClass", "usual", value=7, globalDefault=True),
        named("StorageClass", "slow"),
        {
            "kind": "StorageClass",
            "metadata": {
                "name": "fast",
                "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
            },
        },
    ]
    first = written(tmp_path, {"kind": "List", "items": [*pods, *claims]}, "a.yaml")
    second = written(tmp_path, {"kind": "List", "items": classes}, "b.yaml")
    found, more = manifests.read_all([first, second])
    assert [(each.name, each.priority, each.preemption_policy) for each in found.pods] == [
        ("high", 1000, "Never"),
        ("plain", 7, ""),
        ("own", 3, ""),
        ("system", 2_000_001_000, ""),
        ("lost", 0, ""),
    ]
    (claim,) = found.objects
    assert isinstance(claim, PersistentVolumeClaim)
    assert claim.storage_class == "fast"
    assert found.warnings + more.warnings == [
        "priority classes that are in no file: none-such (1 pod); the priority of these pods is "
        "taken as 0"
    ]


@pytest.mark.parametrize(
    ("items", "place", "problem"),
    [
        ([node("n"), node("n")], "Node n: metadata.name", "second time in document 1: items[1]"),
        (
            [named("Service", "s"), named("Service", "s")],
            "Service s: metadata.name",
            "Service default/s comes a second time in document 1: items[1]",
        ),
        ([{"kind": "Service"}], "Service in document 1: items[0]: metadata.name", "is missing"),
        ([named("PriorityClass", "p", value="x")], "PriorityClass p: value", "is not a whole"),
        ([pod("a"), pod("a")], "Pod default/a: metadata.uid", "first in document 1: items[0]"),
        ([pod("a", spec={"containers": 1})], "Pod default/a: spec.containers", "is not a list"),
        ([pod("")], "Pod default/: metadata.name", "is missing"),
        ([{"kind": "Pod"}], "Pod in document 1: items[0]: metadata.name", "is missing"),
        ([{"metadata": {}}], "document 1: items[0]: kind", "is missing"),
        (["x"], "document 1: items[0]", "is not a Kubernetes object"),
        ("x", "document 1: items", "is not a list"),
    ],
)
def test_a_bad_object_is_named(tmp_path: Path, items: object, place: str, problem: str) -> None:
    path = written(tmp_path, {"kind": "List", "items": items})
    with pytest.raises(InputError) as caught:
        manifests.read(path)
    assert caught.value.where == f"{path}: {place}"
    assert problem in caught.value.problem
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("text", "place", "problem"),
    [
        ("kind: Pod\nmetadata: [\n", ": line 3", "is not YAML"),
        ("kind: Pod\nname: a: b\n", ": line 2", "is not YAML (mapping values"),
        ("kind: Pod\nname: \x07\n", ": line 2", "is not YAML"),
        ("kind: Pod\nx: !!python/object:os.system 1\n", ": line 2", "is not YAML"),
        ('{"kind": "Pod",\n "metadata": }', ": line 2", "is not JSON"),
        ("{kind: Pod,\n metadata: [", ": line 3", "is not YAML"),
        ("kind: !!int five\n", "", "cannot be read"),
        ("just words\n", ": document 1", "is not a Kubernetes object (str)"),
        ("kind: Node\nmetadata: {name: n}\n---\n- 1\n", ": document 2", "(list)"),
        ("# nothing\n", "", "holds no objects"),
        ("\n", "", "is empty"),
        ('{"a":' * 100_000, "", "nested too deeply"),
    ],
)
def test_a_bad_file_is_named(tmp_path: Path, text: str, place: str, problem: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(InputError) as caught:
        manifests.read(path)
    assert caught.value.where == f"{path}{place}"
    assert problem in caught.value.problem
    assert caught.value.remedy


def test_yaml_in_braces_is_yaml(tmp_path: Path) -> None:
    """An object that is written in flow style, as in examples of one line."""
    text = "{kind: Node, metadata: {name: n},\n status: {allocatable: {cpu: '3'}}}\n"
    [node] = manifests.read(written(tmp_path, text)).nodes
    assert (node.name, node.allocatable["cpu"]) == ("n", 3000)
    with pytest.raises(InputError, match=r"has the alias \*a"):
        manifests.refuse_aliases("{a: &a [1], b: *a}", "body")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.yaml: cannot be read.*check the path"):
        manifests.read(tmp_path / "none.yaml")
