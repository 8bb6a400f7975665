"""Manifest files: YAML and JSON, documents and lists, warnings and errors."""

import gzip
import json
from pathlib import Path

import pytest

from eventsched.cluster import manifests
from eventsched.domain.errors import InputError

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
    items = [{"kind": "Service"}, {"kind": "Service"}, {"kind": "Deployment"}]
    items.append({"kind": "Node", "apiVersion": "management.example.com/v3"})
    path = written(tmp_path, {"kind": "List", "items": items})
    found = manifests.read(path)
    assert (found.nodes, found.pods) == ([], [])
    assert found.warnings == [
        f"{path}: objects of other kinds were left out: Deployment (1), "
        "Node.management.example.com/v3 (1), Service (2); only Node and Pod are read"
    ]


def test_unjudged_constraints_give_one_warning(tmp_path: Path) -> None:
    spread: dict[str, object] = {"topologySpreadConstraints": [{}]}
    near: dict[str, object] = {"affinity": {"podAffinity": {"x": []}}}
    items = [pod("a", spec=spread), pod("b", spec=spread | near), pod("c")]
    found = manifests.read(written(tmp_path, {"kind": "List", "items": items}))
    assert len(found.pods) == 3
    (warning,) = found.warnings
    assert "podAffinity (1 pods), topologySpreadConstraints (2 pods)" in warning


@pytest.mark.parametrize(
    ("items", "place", "problem"),
    [
        ([node("n"), node("n")], "Node n: metadata.name", "second time in document 1: items[1]"),
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


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.yaml: cannot be read.*check the path"):
        manifests.read(tmp_path / "none.yaml")
