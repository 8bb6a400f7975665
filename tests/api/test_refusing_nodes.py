"""Which nodes a plugin refuses most."""

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from typing import Any
from urllib.parse import quote

import pytest

from eventsched.api.application import application
from eventsched.api.desk.asked import Desk
from eventsched.api.gates.gate import OpenGate
from eventsched.domain import records
from eventsched.domain.records import FORMAT
from eventsched.questions.findings import refusing_nodes
from eventsched.questions.states import FoldedStates
from eventsched.questions.streams import DatabaseStreams
from tests.api.asking import Client
from tests.builders import make_node, make_pod
from tests.databases import Server, migrate
from tests.postgres.histories import TIGHT, World

CPU = "Insufficient cpu"


def _asked(client: Client, query: str) -> dict[str, Any]:
    found: dict[str, Any] = client.get(f"/refusals/nodes?plugin=NodeResourcesFit{query}")
    return found


def _verdicts(client: Client, position: int) -> list[dict[str, Any]]:
    path = f"/decisions/{position}/verdicts?stream={TIGHT}&limit=1000"
    found: list[dict[str, Any]] = client.get(path)["verdicts"]
    return found


@pytest.mark.parametrize("reason", [CPU, None])
@pytest.mark.parametrize("until", [None, 700])
def test_they_are_those_of_the_decisions(
    client: Client, monkeypatch: pytest.MonkeyPatch, reason: str | None, until: int | None
) -> None:
    """The newest with the refusal, whatever there is between them."""
    monkeypatch.setattr(refusing_nodes, "READ", 30)
    end = "" if until is None else f"&until={until}"
    refused: Counter[str] = Counter()
    evaluated: Counter[str] = Counter()
    newest: dict[str, int] = {}
    times: list[str] = []
    decisions = client.get(f"/decisions?stream={TIGHT}&limit=1000{end}")["decisions"]
    for decision in decisions:
        verdicts = _verdicts(client, decision["position"])
        alike = [
            each["node"]
            for each in verdicts
            if each["plugin"] == "NodeResourcesFit" and reason in (None, each["reason"])
        ]
        if alike and len(times) < 30:
            times.append(decision["at"])
            refused.update(alike)
            evaluated.update(e["node"] for e in verdicts if e["status"] != "NotEvaluated")
            newest = dict.fromkeys(alike, decision["position"]) | newest
    more = "" if reason is None else f"&reason={quote(reason)}"
    found = _asked(client, f"&stream={TIGHT}{more}{end}")
    assert (found["attempts"], found["known"]) == (30, 30)
    assert (found["since"], found["until"]) == (times[-1], times[0])
    assert {each["node"]: each["attempts"] for each in found["nodes"]} == dict(refused)
    assert all(each["evaluated"] == evaluated[each["node"]] for each in found["nodes"])
    assert all(each["newest"] == newest[each["node"]] for each in found["nodes"])
    counts = [each["attempts"] for each in found["nodes"]]
    assert counts == sorted(counts, reverse=True)
    always = [node for node, count in refused.items() if count == evaluated[node]]
    assert (found["count"], found["always"]) == (len(refused), len(always))
    [first] = _asked(client, f"&stream={TIGHT}{more}{end}&limit=1")["nodes"]
    assert first == found["nodes"][0]


def test_a_refusal_that_no_attempt_had(client: Client) -> None:
    for query in ("&reason=Insufficient", "&until=0"):
        found = _asked(client, f"&stream={TIGHT}{query}")
        assert (found["attempts"], found["count"], found["nodes"]) == (0, 0, [])
    assert client.problem(f"/refusals/nodes?stream={TIGHT}", 400).startswith("plugin")


def replaced_nodes(address: str) -> None:
    """Node n1 is deleted after two attempts; n3 gets its row in the vectors."""
    world = World()
    world.see(records.StreamStarted(format=FORMAT, engine="test", seed="rows"), 0)
    for name in ("n1", "n2"):
        world.see(records.NodeAdded(node=make_node(name, cpu=1000)), 0)
    for number in range(2):
        world.see(records.PodAdded(pod=make_pod(f"before-{number}", cpu=9000)), 1 + number)
        world.attempt()
    world.see(records.NodeDeleted(name="n1"), 5)
    world.see(records.NodeAdded(node=make_node("n3", cpu=1000)), 6)
    world.see(records.NodeAdded(node=make_node("n4", cpu=1000)), 7)
    world.see(records.PodAdded(pod=make_pod("after", cpu=9000)), 8)
    world.attempt()
    world.write(address, "rows")


@pytest.fixture(scope="module")
def replaced(one_server: Server) -> Iterator[Client]:
    with one_server.fresh(migrate) as url:
        replaced_nodes(url)
        with closing(DatabaseStreams(url)) as streams:
            yield Client(application(Desk(streams, FoldedStates()), OpenGate(local_only=True)))


def test_a_row_that_another_node_gets_counts_for_each(replaced: Client) -> None:
    found = _asked(replaced, f"&reason={quote(CPU)}")
    expected: Counter[str] = Counter()
    for decision in replaced.get("/decisions")["decisions"]:
        verdicts = replaced.get(f"/decisions/{decision['position']}/verdicts")["verdicts"]
        expected.update(each["node"] for each in verdicts)
    assert expected.keys() == {"n1", "n2", "n3", "n4"}
    assert expected["n1"] == 2
    assert {each["node"]: each["attempts"] for each in found["nodes"]} == dict(expected)
    assert found["always"] == 4
