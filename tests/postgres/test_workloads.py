"""``eventsched explain deploy/NAME`` and the like, on a database: the pods of a workload."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from eventsched.cli.main import main
from eventsched.cli.object_names import name_offer
from eventsched.domain import records
from eventsched.domain.objects import Owner
from eventsched.eventlog.port import StoredRecord
from eventsched.eventlog.postgres.reader import Reader
from eventsched.history.explain.evidence import LoggedPod
from eventsched.history.explain.stored_evidence import StoredEvidence
from tests.builders import make_node, make_pod
from tests.databases import ROOT, Server, migrate
from tests.postgres.archives import archived, spread
from tests.postgres.histories import World

STREAM = "shop"
SCHEMA = json.loads((ROOT / "docs" / "explain-workload.schema.json").read_text())
HASH = "6d4cf56db6"
OWNED = {
    # Deployment web: two ReplicaSets, of which one's pods carry the label.
    "web-6d4cf56db6-a": ("ReplicaSet", f"web-{HASH}", 1000, {"pod-template-hash": HASH}),
    "web-6d4cf56db6-b": ("ReplicaSet", f"web-{HASH}", 1000, {"pod-template-hash": HASH}),
    "web-6d4cf56db6-c": ("ReplicaSet", f"web-{HASH}", 90_000, {"pod-template-hash": HASH}),
    "web-7f9c8-a": ("ReplicaSet", "web-7f9c8", 90_000, {}),
    "web-7f9c8-b": ("ReplicaSet", "web-7f9c8", 500, {"later": "deleted"}),
    # Others whose names begin alike.
    "web-frontend-a": ("ReplicaSet", "web-frontend", 90_000, {}),
    "web-bcd-44-a": ("ReplicaSet", "web-bcd-44", 90_000, {}),
    "web-55-a": ("ReplicaSet", "web-55", 90_000, {"pod-template-hash": "99"}),
    "db-0": ("StatefulSet", "db", 500, {}),
    "agent-x": ("DaemonSet", "agent", 500, {}),
    "night-x": ("Job", "night", 500, {}),
}


@pytest.fixture(scope="module")
def address(one_server: Server) -> Iterator[str]:
    """The URL of a database with the pods of several workloads."""
    world = World()
    world.see(records.StreamStarted(format=records.FORMAT, engine="test", seed="shop"), 0)
    world.see(records.NodeAdded(node=make_node("n1", cpu=8000)), 0)
    world.see(records.NodeAdded(node=make_node("n2", cpu=100)), 0)
    for number, (name, (kind, owner, cpu, labels)) in enumerate(OWNED.items()):
        pod = make_pod(name, cpu=cpu, owner=Owner(kind=kind, name=owner), labels=labels)
        world.see(records.PodAdded(pod=pod), 10 + number)
    night = Owner(kind="Job", name="night")
    world.see(records.PodAdded(pod=make_pod("night-y", namespace="prod", owner=night)), 30)
    world.see(records.PodAdded(pod=make_pod("report", namespace="job")), 30)
    report = Owner(kind="Job", name="report")
    world.see(records.PodAdded(pod=make_pod("report-x", cpu=500, owner=report)), 31)
    for uid, node in world.attempt().items():
        world.see(records.BindSucceeded(uid=uid, node=node), 40)
    gated = Owner(kind="ReplicaSet", name="web-7f9c8")
    world.see(records.PodAdded(pod=make_pod("web-7f9c8-g", owner=gated, gates=("wait",))), 41)
    world.see(records.PodAdded(pod=make_pod("web-7f9c8-n", cpu=200, owner=gated)), 42)
    world.see(records.PodDeleted(uid="web-7f9c8-b"), 43)
    with one_server.fresh(migrate) as url:
        world.write(url, STREAM)
        yield url


@pytest.fixture
def explained(address: str, capsys: pytest.CaptureFixture[str]) -> Any:
    """Explains a workload; the object that is printed."""

    def run(*words: str) -> Any:
        capsys.readouterr()
        assert main(["explain", *words, "--database", address, "-o", "json"]) == 0
        found = json.loads(capsys.readouterr().out)
        if "groups" in found:  # of a workload
            jsonschema.validate(found, SCHEMA)
        return found

    return run


def test_a_deployments_pods_by_reason(explained: Any) -> None:
    found = explained("deploy/web")
    assert {name: found[name] for name in ("stream", "kind", "namespace", "name")} == {
        "stream": STREAM, "kind": "Deployment", "namespace": "default", "name": "web",
    }  # fmt: skip
    assert found["owners"] == [f"web-{HASH}", "web-7f9c8"]
    assert (found["pods"], found["placed"]) == (6, 2)
    assert found["nodes"] == [{"node": "n1", "pods": 2}]
    groups = {tuple(group["examples"]): group for group in found["groups"]}
    assert sum(group["pods"] for group in found["groups"]) == 4
    refused = groups["default/web-6d4cf56db6-c", "default/web-7f9c8-a"]
    assert found["groups"][0] == refused
    assert (refused["state"], refused["states"]) == ("queued", {"unschedulable": 2})
    assert (refused["plugin"], refused["reason"]) == ("NodeResourcesFit", "Insufficient cpu")
    assert refused["since"] == "1970-01-01T00:00:12+00:00"
    assert groups["default/web-7f9c8-g",]["state"] == "gated"
    untried = groups["default/web-7f9c8-n",]
    assert (untried["tried"], untried["states"], untried["reason"]) == (False, {"active": 1}, None)
    proof = (
        "`eventsched explain default/web-6d4cf56db6-c --why-not n1` says what it would take there"
    )
    step = f"add a larger node, with 90 cpu, or lower its requests ({proof})"
    assert found["next_step"] == explained(refused["examples"][0])["summary"]["next_step"] == step
    assert explained("sts/db")["next_step"] is None


@pytest.mark.parametrize(
    ("words", "kind", "pods"),
    [
        (("rs/web-frontend",), "ReplicaSet", 1),
        (("rs/web-7f9c8",), "ReplicaSet", 3),
        (("sts/db", "-n", "default"), "StatefulSet", 1),
        (("default/daemonset/agent",), "DaemonSet", 1),
        (("job/night", "--namespace", "prod"), "Job", 1),
        (("deployment.apps/web-bcd",), "Deployment", 1),
    ],
)
def test_each_kind(explained: Any, words: tuple[str, ...], kind: str, pods: int) -> None:
    found = explained(*words)
    assert (found["kind"], found["pods"]) == (kind, pods)


def test_a_namespace_that_is_called_like_a_kind(explained: Any) -> None:
    assert explained("job/report")["uid"]  # the pod
    assert explained("job/report", "-n", "default")["kind"] == "Job"
    assert explained("report", "-n", "job")["namespace"] == "job"


def test_the_text_ends_with_a_command_that_explains_one(
    address: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    assert main(["explain", "deploy/web", "--database", address]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert max(map(len, printed)) <= 100
    assert printed[0] == (
        "Deployment default/web has 6 pods: 2 on 1 node (n1 (2)), 4 without a node"
    )
    command = printed[-1].partition("One of them: eventsched ")[2].split()
    assert main([*command, "--database", address]) == 0
    assert "NodeResourcesFit refuses 2 of 2 nodes: Insufficient cpu" in " ".join(
        capsys.readouterr().out.split()
    )


def test_the_log_is_not_read(address: str, monkeypatch: pytest.MonkeyPatch, explained: Any) -> None:
    """Except for the first pod of each ReplicaSet whose name fits: those, by their positions; and
    the history of the pod whose next step is given."""
    looked: list[int] = []
    followed: list[str] = []
    records_at = StoredEvidence.records_at

    def counted(self: StoredEvidence, positions: Any) -> Any:
        wanted = list(positions)
        looked.extend(wanted)
        return records_at(self, wanted)

    def refuse(*_: Any) -> Any:
        raise AssertionError("the log is read")

    def follow(_: StoredEvidence, pod: LoggedPod) -> list[StoredRecord]:
        followed.append(pod.full_name)
        return []

    monkeypatch.setattr(StoredEvidence, "records_at", counted)
    monkeypatch.setattr(StoredEvidence, "records", follow)
    monkeypatch.setattr(Reader, "batches", refuse)
    assert explained("default/deploy/web")["pods"] == 6
    assert len(looked) == 3  # web-6d4cf56db6, web-7f9c8, web-55
    assert followed == ["default/web-6d4cf56db6-c"]
    looked.clear()
    assert explained("rs/web-7f9c8")["pods"] == 3
    assert looked == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("deploy/wbe",), ("Deployment deploy/wbe", "the log last moved", "default/deploy/web")),
        (
            ("sts/web",),
            ("there is no pod of StatefulSet sts/web", "did you mean default/deploy/web?"),
        ),
        (("deploy/web", "-n", "prod"), ("prod/deploy/web", "did you mean default/deploy/web?")),
        (("deploy/web-frontend",), ("did you mean default/rs/web-frontend?",)),
        (("deploy/zzzzzzzz",), ("there are, among others: default/deploy/",)),
        (("job/night",), ("in 2 namespaces", "default/job/night, prod/job/night")),
        (("cronjob/night",), ("cron job", "job/NAME")),
        (("deploy/web", "--attempt", "1"), ("--attempt", "deploy/web is a workload")),
        (("deploy/web", "--node", "n1"), ("--node", "name one of its pods")),
        (("web-7f9c8-a", "--why-not", "n2"), ("--why-not", "no configuration to decide with")),
    ],
)
def test_what_is_not_there_is_refused_in_one_line(
    address: str, capsys: pytest.CaptureFixture[str], options: tuple[str, ...],
    words: tuple[str, ...],
) -> None:  # fmt: skip
    assert main(["explain", *options, "--database", address]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert all(word in printed.err for word in words), printed.err


def test_a_cluster_without_workloads(database: str, capsys: pytest.CaptureFixture[str]) -> None:
    world = World()
    world.see(records.StreamStarted(format=records.FORMAT, engine="test", seed="none"), 0)
    world.see(records.PodAdded(pod=make_pod("web-1")), 1)
    world.write(database, STREAM)
    assert main(["explain", "deploy/web", "--database", database]) == 2
    assert "no workload has pods now" in capsys.readouterr().err


def test_a_log_outside_a_database_answers_the_same(
    address: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """An exported log and an archive have no table of pods."""
    spread(address, STREAM, "days")
    archived(address, "days", tmp_path / "archive")
    file = str(tmp_path / "days.jsonl.gz")
    assert main(["log", "export", file, "--database", address, "--stream", "days"]) == 0

    def asked(*words: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main(["explain", *words])
        return (code, *capsys.readouterr())

    targets = ["deploy/web", "rs/web-7f9c8", "deploy/web-bcd", "sts/db", "job/night", "sts/web"]
    for target in targets:
        for words in ([target, "-n", "default"], [target, "-o", "json"]):
            stored = asked(*words, "--stream", "days", "--database", address)
            for place in (["--file", file], ["--from-archive", str(tmp_path / "archive")]):
                code, out, err = asked(*words, *place)
                assert (code, out) == stored[:2]
                assert err == re.sub("; the log last moved [^;]*", "", stored[2])
    assert asked("job/report", "--file", file)[0] == 0


def test_a_shell_is_offered_workloads(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    def offered(word: str, kind: str = "targets", options: str = "") -> list[str]:
        capsys.readouterr()
        line = f"eventsched explain --database '{address}' {options} {word}"
        assert main([name_offer.COMMAND, kind, line]) == 0
        return capsys.readouterr().out.splitlines()

    assert offered("deploy/") == ["deploy/web", "deploy/web-bcd"]
    assert offered("deployments.apps/web-") == ["deployments.apps/web-bcd"]
    assert offered("default/d") == [
        *("default/db-0", "default/deploy/web", "default/deploy/web-bcd", "default/ds/agent"),
    ]
    assert offered("prod/job/") == ["prod/job/night"]
    assert offered("job/n") == ["job/night"]
    assert offered("job/") == ["job/night", "job/report"]  # a job, and a pod of namespace job
    assert offered("job/", options="-n prod") == ["job/night"]
    assert offered("st") == ["sts/db"]
    assert offered("pod/db") == ["pod/db-0"]
    assert offered("rs/web-5") == ["rs/web-55"]
    assert offered("deploy/", kind="pods") == offered("cronjob/") == offered("a/b/deploy/") == []
    assert not any("deploy/" in name for name in offered(""))
