"""What the newest attempts found for one node."""

from collections import Counter
from typing import Any

import pytest

from eventsched.questions.findings import node_verdicts
from tests.api.asking import Client
from tests.postgres.histories import TIGHT

NODE = "node-00003"


def _verdicts(client: Client, position: int) -> list[dict[str, Any]]:
    path = f"/decisions/{position}/verdicts?stream={TIGHT}&limit=1000"
    found: list[dict[str, Any]] = client.get(path)["verdicts"]
    return found


@pytest.mark.parametrize("at", [None, 700])
def test_they_are_those_of_the_decisions(client: Client, at: int | None) -> None:
    end = "" if at is None else f"&until={at}"
    newest = client.get(f"/decisions?stream={TIGHT}&limit=100{end}")["decisions"]
    expected: Counter[tuple[str | None, str, str]] = Counter()
    feasible = chosen = known = 0
    for decision in newest:
        of_node = [e for e in _verdicts(client, decision["position"]) if e["node"] == NODE]
        for each in of_node:
            if each["status"] == "NotEvaluated":
                continue
            known += 1
            if each["status"] == "Success":
                feasible += 1
                chosen += decision["node"] == NODE
            else:
                expected[each["plugin"], each["status"], each["reason"]] += 1
    assert expected
    assert chosen or at
    when = "" if at is None else f"&at={at}"
    found = client.get(f"/nodes/{NODE}/verdicts?stream={TIGHT}{when}")
    assert (found["attempts"], found["known"]) == (len(newest), known)
    assert (found["feasible"], found["chosen"]) == (feasible, chosen)
    refusals = {(e["plugin"], e["code"], e["reason"]): e["attempts"] for e in found["refusals"]}
    assert refusals == dict(expected)
    counts = [each["attempts"] for each in found["refusals"]]
    assert counts == sorted(counts, reverse=True)
    placed = client.get(f"/decisions?stream={TIGHT}&node={NODE}&limit=10{end}")["decisions"]
    assert [e["position"] for e in found["placed"]] == [e["position"] for e in placed]
    assert [e["pod"] for e in found["placed"]] == [e["pod"] for e in placed]


def test_the_newest_attempt_of_a_refusal(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_verdicts, "LOOKED_AT", 30)
    found = client.get(f"/nodes/{NODE}/verdicts?stream={TIGHT}&at=700")
    assert found["attempts"] == 30
    for refusal in found["refusals"]:
        newest = refusal["newest"]
        own = [e for e in _verdicts(client, newest["position"]) if e["node"] == NODE]
        assert [(e["plugin"], e["reason"]) for e in own] == [(refusal["plugin"], refusal["reason"])]


def test_a_node_that_was_never_there(client: Client) -> None:
    assert client.problem(f"/nodes/node-3/verdicts?stream={TIGHT}", 400) == (
        "node; node-3 was never there; did you mean node-00003?"
    )
    assert client.problem(f"/nodes/zzz/verdicts?stream={TIGHT}", 400) == (
        "node; zzz was never there; there are, among others: node-00000, node-00001, node-00002"
    )
