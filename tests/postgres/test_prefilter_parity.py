"""What PreFilter refuses is explained alike from the rows of a database and from records alone: of
pods and of workloads, in each form of the log."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from eventsched.cli.main import main
from tests.databases import Server, migrate
from tests.postgres.archives import archived

STREAM = "simulation"


def affinity(*names: str) -> dict[str, Any]:
    """A pod's affinity to nodes by name, which PreFilter reads."""
    field = {"key": "metadata.name", "operator": "In", "values": list(names)}
    terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def claim(name: str) -> dict[str, Any]:
    return {"name": name, "persistentVolumeClaim": {"claimName": name}}


SPECS: dict[str, dict[str, Any]] = {
    "no-claim": {"volumes": [claim("missing")]},
    "bound-late": {"volumes": [claim("late")]},
    "no-node": {"affinity": affinity("n9")},
    "one-node": {"affinity": affinity("n1"), "requests": {"cpu": "8"}},
    "one-tainted": {"affinity": affinity("n3")},
    "too-large": {"requests": {"cpu": "8"}},
    "selected": {"nodeSelector": {"zone": "nowhere"}},
    "fits": {},
}
"""The owners of pods, and what their pods ask for."""


def cluster() -> list[dict[str, Any]]:
    """Three nodes, one of them tainted; a claim that is bound later; two pods of each owner."""
    taint = {"key": "dedicated", "value": "db", "effect": "NoSchedule"}
    nodes = [
        {
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
            "spec": {"taints": [taint]} if name == "n3" else {},
            "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}},
        }
        for name in ("n1", "n2", "n3")
    ]  # fmt: skip
    late = {
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": "late", "namespace": "default"},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": "slow",
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }  # fmt: skip
    slow = {
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "slow"},
        "provisioner": "example.com/none", "volumeBindingMode": "Immediate",
    }  # fmt: skip
    return [*nodes, slow, late, *(pod for owner in SPECS for pod in pods(owner))]


def pods(owner: str) -> Iterator[dict[str, Any]]:
    spec = {**SPECS[owner]}
    requests = spec.pop("requests", {"cpu": "100m"})
    container = {"name": "main", "image": "a", "resources": {"requests": requests}}
    reference = {
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": f"rs-{owner}",
        "controller": True,
    }  # fmt: skip
    for number in range(2):
        metadata = {"name": f"{owner}-{number}", "ownerReferences": [reference]}
        yield {
            "apiVersion": "v1", "kind": "Pod", "metadata": metadata,
            "spec": {**spec, "containers": [container]},
        }  # fmt: skip


@pytest.fixture
def log(one_server: Server, tmp_path: Path) -> Iterator[str]:
    manifests = tmp_path / "cluster.json"
    manifests.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": cluster()}))
    with one_server.fresh(migrate) as url:
        words = ("--manifests", str(manifests), "--until", "10s", "--database", url)
        assert main(["simulate", *words]) == 0
        yield url


def printed(capsys: pytest.CaptureFixture[str], target: str, *place: str) -> Any:
    capsys.readouterr()
    assert main(["explain", target, "-o", "json", *place]) == 0
    return json.loads(capsys.readouterr().out)


def test_rows_and_records_explain_alike(
    log: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, folder = tmp_path / "log.jsonl", tmp_path / "archive"
    assert main(["log", "export", str(file), "--database", log]) == 0
    archived(log, STREAM, folder)
    scanned = (("--file", str(file)), ("--from-archive", str(folder)))
    for target in [*(f"rs/{owner}" for owner in SPECS), *(f"{owner}-0" for owner in SPECS)]:
        stored = printed(capsys, target, "--database", log)
        for place in scanned:
            assert printed(capsys, target, *place) == stored, (target, place)


def test_the_plugin_that_refuses_a_pod_on_all_nodes_is_named(
    log: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """For a workload as for its pods."""
    reasons = {}
    for owner in SPECS.keys() - {"fits", "bound-late"}:
        [group] = printed(capsys, f"rs/{owner}", "--database", log)["groups"]
        summary = printed(capsys, f"{owner}-0", "--database", log)["summary"]
        assert group["plugin"] == summary["plugin"]
        assert group["reason"].split(", ") == summary["reason"].split("; ")
        reasons[owner] = group["plugin"], group["code"]
    assert reasons == {
        "no-claim": ("VolumeRestrictions", "Excluded"),
        "no-node": ("NodeAffinity", "Excluded"),
        "one-node": ("NodeResourcesFit", "UnschedulableAndUnresolvable"),
        "one-tainted": ("TaintToleration", "UnschedulableAndUnresolvable"),
        "too-large": ("NodeResourcesFit", "UnschedulableAndUnresolvable"),
        "selected": ("NodeAffinity", "UnschedulableAndUnresolvable"),
    }
