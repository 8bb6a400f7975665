"""``eventsched explain GROUP``: a pod group's members, what holds them, and the next step."""

import json
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from eventsched.api.application import application
from eventsched.api.desk.asked import Desk
from eventsched.api.gates.gate import OpenGate
from eventsched.cli.main import main
from eventsched.cli.object_names import name_offer, stored_groups, stored_names
from eventsched.domain.errors import UnavailableError
from eventsched.questions.states import FoldedStates
from eventsched.questions.streams import DatabaseStreams
from tests.api.asking import Client
from tests.databases import ROOT, Server, migrate
from tests.postgres.archives import archived

EXAMPLE = ROOT / "examples" / "Coscheduling"
SCHEMA = json.loads((ROOT / "docs" / "explain-workload.schema.json").read_text())
LONELY = """
---
apiVersion: v1
kind: Pod
metadata:
  name: lonely
  labels: {scheduling.x-k8s.io/pod-group: lonely}
---
apiVersion: v1
kind: Pod
metadata:
  name: lonely
  namespace: other
  labels:
    scheduling.x-k8s.io/pod-group: train
    pod-group.scheduling.sigs.k8s.io/min-available: "1"
---
apiVersion: v1
kind: Pod
metadata:
  name: odd
  labels:
    scheduling.x-k8s.io/pod-group: odd
    pod-group.scheduling.sigs.k8s.io/min-available: "many"
---
apiVersion: v1
kind: Pod
metadata:
  name: closed
  labels:
    scheduling.x-k8s.io/pod-group: closed
    pod-group.scheduling.sigs.k8s.io/min-available: "1"
spec: {schedulingGates: [{name: wait}]}
---
apiVersion: v1
kind: Pod
metadata: {name: grand}
spec: {schedulingGates: [{name: wait}]}
"""


@pytest.fixture(scope="module")
def address(one_server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    pods = tmp_path_factory.mktemp("pods") / "pods.yaml"
    pods.write_text((EXAMPLE / "pods.yaml").read_text() + LONELY)
    with one_server.fresh(migrate) as url:
        words = ["--config", EXAMPLE / "config.yaml", "--nodes", EXAMPLE / "nodes.yaml"]
        main(["simulate", *map(str, words), "--pods", str(pods), "--database", url])
        yield url


@pytest.fixture
def explained(address: str, capsys: pytest.CaptureFixture[str]) -> Any:
    def run(*words: str) -> Any:
        capsys.readouterr()
        assert main(["explain", *words, "--database", address, "-o", "json"]) == 0
        found = json.loads(capsys.readouterr().out)
        if "groups" in found:  # of a workload
            jsonschema.validate(found, SCHEMA)
        return found

    return run


@pytest.mark.parametrize(
    ("word", "why", "step", "minimum", "pods", "placed"),
    [
        ("group/big", "its pod big-4 holds it: NodeResourcesFit refuses nodes: Insufficient cpu; "
         "0 of the 5 that it needs have a node",
         "add a node with 2 cpu free, delete pods on a node, or lower its requests", 5, 5, 0),
        ("short", "it has 2 of the 3 pods that it needs", "create the missing pod", 3, 2, 0),
        ("default/train", "it is complete: it needs 3 on nodes, and has them", None, 3, 3, 3),
        ("pg/lonely", "none of its pods says how many it needs",
         "give its pods the label pod-group.scheduling.sigs.k8s.io/min-available", 0, 1, 0),
        ("gang/odd", "pod group default/odd: pod-group.scheduling.sigs.k8s.io/min-available is "
         "'many', a whole number above 0 is needed",
         "correct pod-group.scheduling.sigs.k8s.io/min-available and the timeout of its pods",
         0, 1, 0),
        ("group/closed", "its pod closed holds it: gated; 0 of the 1 that it needs have a node",
         "remove the scheduling gates of these pods", 1, 1, 0),
    ],
)  # fmt: skip
def test_a_group(
    explained: Any, word: str, why: str, step: str | None, minimum: int, pods: int, placed: int
) -> None:
    found = explained(word)
    assert found["kind"] == "PodGroup"
    assert (found["why"], found["next_step"]) == (why, step)
    assert (found["minimum"], found["pods"], found["placed"]) == (minimum, pods, placed)
    assert sum(group["pods"] for group in found["groups"]) == pods - placed


def test_a_pod_with_the_name_comes_first(explained: Any) -> None:
    assert explained("default/lonely")["uid"]


@pytest.mark.parametrize(
    ("typed", "names"),
    [
        ("group/", ["big", "closed", "lonely", "odd", "short", "train"]),
        ("grou", ["big", "closed", "lonely", "odd", "short", "train"]),
        ("group/tr", ["train"]),
        ("other/gang/", ["train"]),
        ("-n other group/", ["train"]),
        ("-n default other/group/", []),
        ("group/none", []),
    ],
)
def test_completion_has_the_groups(
    address: str, typed: str, names: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    line = f"eventsched explain --database '{address}' {typed}"
    main([name_offer.COMMAND, "targets", line])
    word = typed.rpartition(" ")[2]
    prefix = "group/" if word == "grou" else word.rpartition("/")[0] + "/"
    assert capsys.readouterr().out.splitlines() == [f"{prefix}{name}" for name in names]


@pytest.mark.parametrize("how", ["found", "late", "failed"])
def test_completion_has_pods_beside_groups(
    address: str, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pod whose name begins as the word for groups does, also if these are not found."""

    def fails(*given: object) -> set[str]:
        raise UnavailableError("the log", "cannot be read", "")

    if how == "late":
        monkeypatch.setattr(stored_names, "_GROUPS_SECONDS", 0.0)
    if how == "failed":
        monkeypatch.setattr(stored_groups, "stored_groups", fails)
    found = stored_names.stored_names("targets", "gr", address, None, "", "")
    groups = [each.name for each in found if each.name.startswith("group/")]
    assert [each.name for each in found if each.name not in groups] == ["grand"]
    assert bool(groups) is (how == "found")


def test_the_text(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "big", "--database", address]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("PodGroup default/big: its pod big-4 holds it: ")
    assert lines[1].startswith("Next step: add a node with 2 cpu free")
    assert lines[3] == "PodGroup default/big has 5 pods: 0 on 0 nodes, 5 without a node"
    assert lines[-1] == "One of them: eventsched explain default/big-4 --stream simulation"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["group/bgi"], "there is no pod of PodGroup group/bgi in stream simulation"),
        (["group/bgi"], "; did you mean default/group/big?"),
        (["group/zzz"], "; there are, among others: default/group/big, "),
        (["group/train"], "in 2 namespaces; name one: default/group/train, other/group/train"),
        (["nothing"], "there is no pod nothing in stream simulation"),
        (["group/big", "--node", "a"], "--node: is about one pod, and group/big is a workload"),
    ],
)
def test_bad_input(
    address: str, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    assert main(["explain", *words, "--database", address]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_a_log_outside_a_database_answers_the_same(
    address: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = str(tmp_path / "log.jsonl.gz")
    archived(address, "simulation", tmp_path / "archive")
    assert main(["log", "export", file, "--database", address]) == 0

    def asked(*words: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main(["explain", *words])
        return (code, *capsys.readouterr())

    for words in (["big"], ["default/group/train", "-o", "json"], ["group/none"], ["none"]):
        stored = asked(*words, "--database", address)
        for place in (["--file", file], ["--from-archive", str(tmp_path / "archive")]):
            code, out, err = asked(*words, *place)
            assert (code, out) == stored[:2]
            assert err == re.sub("; the log last moved [^;]*", "", stored[2])


def test_the_api_answers_the_same(address: str, explained: Any) -> None:
    with closing(DatabaseStreams(address)) as streams:
        desk = Desk(streams, FoldedStates())
        client = Client(application(desk, OpenGate(local_only=True)))
        found = client.get("/workloads/default/group/big/explain")
        assert found == explained("group/big")
        assert found["members"] == [{"pod": f"default/big-{n}", "node": None} for n in range(5)]
        assert client.get("/workloads/-/group/big/explain") == found
        problem = client.problem("/workloads/-/group/train/explain", 400)
        assert "default/group/train, other/group/train" in problem
        train = client.get("/workloads/default/group/train/explain")
        assert sum(bool(member["node"]) for member in train["members"]) == train["placed"] == 3
        demands = client.get("/pods/default/big-4/timeline")["demands"]
        assert demands["belongs_to"] == ["group/big"]


def test_a_node_that_was_reserved_and_given_up(explained: Any) -> None:
    """A member's node would take it; the group gave it up, because another member found none."""
    attempts = explained("default/big-0")["attempts"]
    number, node = next((each["attempt"], each["node"]) for each in attempts if each["node"])
    found = explained("default/big-0", "--attempt", str(number), "--why-not", node)
    assert (found["landing"]["behind"], found["landing"]["reasons"]) == (0, [])
    assert found["givenUp"].startswith("the node takes it, but Coscheduling gave it up: pod group")
    assert found["givenUp"].endswith("see `eventsched explain default/group/big`")


def test_a_group_that_no_profile_schedules(
    database: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--nodes", EXAMPLE / "nodes.yaml", "--pods", EXAMPLE / "pods.yaml"]
    main(["simulate", *map(str, words), "--database", database])
    capsys.readouterr()
    assert main(["explain", "group/big", "--database", database, "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["why"].startswith("no profile has the plugin Coscheduling, so its pods are")


TWO_PROFILES = """
- schedulerName: plain
  plugins:
    multiPoint: {enabled: [{name: Coscheduling}], disabled: [{name: PrioritySort}]}
    permit: {disabled: [{name: Coscheduling}]}
  pluginConfig: [{name: Coscheduling, args: {permitWaitingTimeSeconds: 60}}]
"""


def test_a_group_that_its_own_profile_does_not_schedule(
    database: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Another profile does: both have the plugin at QueueSort, which they share, and one of them at
    Permit. The command and the API answer the same."""
    config, pods = tmp_path / "config.yaml", tmp_path / "pods.yaml"
    config.write_text((EXAMPLE / "config.yaml").read_text() + TWO_PROFILES)
    own = (EXAMPLE / "pods.yaml").read_text()
    plain = own.replace("\nspec:", "\nspec:\n  schedulerName: plain")
    plain = plain.replace("\n  name: ", "\n  name: plain-").replace('group: "', 'group: "plain-')
    pods.write_text(f"{own}\n---\n{plain}")
    words = ["--config", config, "--nodes", EXAMPLE / "nodes.yaml", "--pods", pods]
    main(["simulate", *map(str, words), "--database", database])
    with closing(DatabaseStreams(database)) as streams:
        client = Client(application(Desk(streams, FoldedStates()), OpenGate(local_only=True)))
        for name, begin in (
            ("big", "its pod big-4 holds it"),
            ("plain-big", "the profile plain lacks the plugin Coscheduling, so its pods are"),
        ):
            capsys.readouterr()
            assert main(["explain", f"group/{name}", "--database", database, "-o", "json"]) == 0
            found = json.loads(capsys.readouterr().out)
            assert found["why"].startswith(begin)
            assert client.get(f"/workloads/default/group/{name}/explain") == found
