"""``eventsched evaluate … --pod``: where a pod would go now, and why, from what kubectl prints."""

import io
import json
from pathlib import Path
from typing import Any

import pytest

from eventsched.cli.main import main


def node(name: str, cpu: str = "4", **spec: Any) -> dict[str, Any]:
    room = {"cpu": cpu, "memory": "8Gi", "pods": "110"}
    metadata = {"name": name, "labels": {"kubernetes.io/hostname": name}}
    return {
        "apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec,
        "status": {"allocatable": room},
    }  # fmt: skip


def pod(name: str, cpu: str = "1", **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "app", "resources": {"requests": {"cpu": cpu}}}
    return {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [container], **spec},
    }  # fmt: skip


CLUSTER = [
    node("small"),
    node("large", "16"),
    node("apart", taints=[{"key": "dedicated", "effect": "NoSchedule"}]),
    pod("held", "3", nodeName="large"),
]


@pytest.fixture
def cluster(tmp_path: Path) -> str:
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": CLUSTER}))
    return str(path)


def asking(tmp_path: Path, asked: dict[str, Any]) -> str:
    path = tmp_path / "asked.json"
    path.write_text(json.dumps(asked))
    return str(path)


def test_it_says_where_the_pod_would_go_and_why_not_elsewhere(
    cluster: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["evaluate", cluster, "--pod", asking(tmp_path, pod("mine"))]) == 0
    said = capsys.readouterr().out
    assert said.startswith("default/mine would go to ")
    assert "Why not the others:" in said
    assert "node(s) had untolerated taint(s)" in said
    assert "apart" in said


def test_the_cluster_can_come_from_standard_input(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": CLUSTER})
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert main(["evaluate", "-", "--pod", asking(tmp_path, pod("mine"))]) == 0
    assert "default/mine would go to" in capsys.readouterr().out


def test_the_pod_can_come_from_standard_input_and_have_a_node_already(
    cluster: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = json.dumps(pod("mine", nodeName="small")).encode()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text)))
    assert main(["evaluate", cluster, "--pod", "-"]) == 0
    said = capsys.readouterr().out
    assert said.startswith(
        "default/mine is assigned to small already; if placed again it would go to "
    )
    assert main(["evaluate", "-", "--pod", "-"]) == 2
    assert "standard input is the cluster's" in capsys.readouterr().err


def test_the_answer_is_no_where_no_node_takes_it(
    cluster: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["evaluate", cluster, "--pod", asking(tmp_path, pod("mine", "20"))]) == 1
    said = capsys.readouterr().out
    assert (
        "default/mine would go nowhere: 0/3 nodes are available: 1 node(s) had untolerated" in said
    )
    assert "Why not any node:" in said


def test_it_says_who_would_have_to_make_room(
    cluster: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = asking(tmp_path, pod("mine", "14", priority=10))
    assert main(["evaluate", cluster, "--pod", asked]) == 1
    said = capsys.readouterr().out
    assert "It would be nominated to large; to make room there it would evict default/held" in said
    assert main(["evaluate", cluster, "--pod", asked, "-o", "json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["preemption"] == {
        "node": "large", "victims": ["default/held"], "candidates": 1, "criterion": "only",
    }  # fmt: skip


def test_a_pod_of_the_cluster_is_judged_as_if_it_were_not_there(
    cluster: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["evaluate", cluster, "--pod", "default/held", "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["assigned"] == "large"
    assert {each["node"] for each in found["nodes"]} == {"small", "large"}
    assert sum(found["nodes"][0]["scores"].values()) == found["nodes"][0]["total"]
    assert found["refused"] == [
        {
            "plugin": "TaintToleration",
            "code": "UnschedulableAndUnresolvable",
            "reasons": ["node(s) had untolerated taint(s)"],
            "nodes": ["apart"],
            "count": 1,
        }
    ]


def test_a_node_that_is_asked_about_is_shown_whatever_its_rank(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    many = tmp_path / "many.json"
    nodes = [node(f"n{index:02}", str(40 - index)) for index in range(20)]
    many.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": nodes}))
    asked = asking(tmp_path, pod("mine"))
    assert main(["evaluate", str(many), "--pod", asked]) == 0
    short = capsys.readouterr().out
    assert "n19" not in short
    assert "… and 10 more" in short
    assert main(["evaluate", str(many), "--pod", asked, "--node", "n19"]) == 0
    assert "n19" in capsys.readouterr().out
    assert main(["evaluate", str(many), "--pod", asked, "-o", "wide"]) == 0
    assert "more" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--pod", "nobody"], "--pod nobody: is neither a file nor a pod of the cluster"),
        (["--pod", "missing.yaml"], "missing.yaml: cannot be read"),
        (["--pod", "held", "-o", "xml"], "-o xml: is not a format"),
        (
            ["--pod", "hled"],
            "nor a pod of the cluster; did you mean default/held",
        ),
        (
            ["--pod", "held", "--node", "nowhere"],
            "--node nowhere: is not a node of the cluster",
        ),
        (["--pod", "held", "--node", "smal"], "of the cluster; did you mean small?"),
        (["--node", "small"], "no pod is asked about"),
    ],
)
def test_wrong_options_are_refused_in_one_line(
    arguments: list[str], words: str, cluster: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["evaluate", cluster, *arguments]) == 2
    said = capsys.readouterr()
    assert words in said.err
    assert said.err.count("\n") == 1
    assert not said.out


def test_a_pod_of_another_scheduler_is_refused(
    cluster: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = asking(tmp_path, pod("mine", schedulerName="theirs"))
    assert main(["evaluate", cluster, "--pod", asked]) == 2
    assert "no profile is named 'theirs'" in capsys.readouterr().err
