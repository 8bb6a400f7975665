"""The next step of a pod that lacks room while other nodes are closed by taints: by the commands on
each form of the log, and by the API."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from eventsched.api.application import application
from eventsched.api.desk.asked import Desk
from eventsched.api.gates.gate import OpenGate
from eventsched.cli.main import main
from eventsched.questions.states import FoldedStates
from eventsched.questions.streams import opened_streams
from eventsched.runtime.queries import nodes_at
from tests.api.asking import Client
from tests.databases import Server, migrate
from tests.postgres.archives import LATER, archived

CLUSTER = """---
{apiVersion: v1, kind: Node, metadata: {name: open},
 status: {allocatable: {cpu: "4", memory: 8Gi, pods: "110"}}}
---
{apiVersion: v1, kind: Node, metadata: {name: large},
 spec: {taints: [{key: dedicated, value: batch, effect: NoSchedule}]},
 status: {allocatable: {cpu: "64", memory: 64Gi, example.com/gpu: "1", pods: "110"}}}
---
{apiVersion: v1, kind: Node, metadata: {name: small},
 spec: {taints: [{key: edge, effect: NoExecute}]},
 status: {allocatable: {cpu: "2", memory: 8Gi, pods: "110"}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: wide},
 spec: {containers: [{name: a, image: b, resources: {requests: {cpu: "8", example.com/gpu: "1"}}}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: plain},
 spec: {containers: [{name: a, image: b, resources: {requests: {cpu: "8"}}}]}}
"""
KNOWN = (
    "add a toleration for the taint dedicated=batch:NoSchedule of 1 node, if meant for such pods "
    "({room} what else it would take); or "
    "add a larger node, with 8 cpu and 1 example.com/gpu, or lower its requests"
)
SAYS = "`eventsched explain default/wide --why-not large` says"
WITH_PODS = KNOWN.format(room=f"it has room now; {SAYS}")
WITHOUT_PODS = KNOWN.format(room=f"large enough when empty; {SAYS} whether there is room now, and")
"""What is read of a log has the nodes without the pods on them."""
STREAM = "simulation"


@pytest.fixture
def log(one_server: Server, tmp_path: Path) -> Iterator[str]:
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    with one_server.fresh(migrate) as url:
        load = ("--manifests", str(tmp_path / "cluster.yaml"), "--until", "1m")
        assert main(["simulate", *load, "--database", url]) == 0
        yield url


def next_step(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    capsys.readouterr()
    assert main([*words, "-o", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    step: str = told.get("why", told)["summary"]["next_step"]
    return step


def test_a_node_that_is_too_small_is_not_offered(
    log: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor is a dedicated one to a pod that does not ask for what it offers."""
    file, folder = tmp_path / "log.jsonl", tmp_path / "archive"
    assert main(["log", "export", str(file), "--database", log]) == 0
    archived(log, STREAM, folder, before=LATER)
    places = (("--database", log), ("--file", str(file)), ("--from-archive", str(folder)))
    for place in places:
        assert next_step(capsys, "explain", "wide", *place) == WITHOUT_PODS
        step = next_step(capsys, "explain", "plain", *place)
        assert step.startswith("add a larger node, with 8 cpu, or lower its requests (")
    load = ("--manifests", str(tmp_path / "cluster.yaml"), "--until", "1m", "--in-memory")
    assert next_step(capsys, "simulate", *load, "--why", "default/wide") == WITH_PODS
    with opened_streams(log, None) as streams:
        client = Client(application(Desk(streams, FoldedStates()), OpenGate(local_only=False)))
        at = f"at={client.get('/position')['position']}"
        for query in ("", at):
            told = client.get(f"/pods/default/wide/explain?{query}")
            assert told["summary"]["next_step"] == WITHOUT_PODS
            told = client.get(f"/pods/default/wide/timeline?{query}")
            assert f"Next step: {WITHOUT_PODS}." in told["headline"]
            assert (
                "NodeResourcesFit refuses 1 of 3 nodes: Insufficient cpu; Insufficient example.com/"
                "gpu (even without other pods); TaintToleration alone refuses nodes"
            ) in told["headline"][0]
    monkeypatch.setattr(nodes_at, "MOST_SEARCHED", 1)
    assert "was not checked" in next_step(capsys, "explain", "wide", "--file", str(file))
