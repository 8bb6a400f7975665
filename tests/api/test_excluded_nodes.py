"""Nodes that PreFilter left out: the plugin that did it is named with its reason by all views,
answers and archives, of the present as of the past."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import psycopg
import pyarrow.parquet as pq
import pytest

from eventsched.api.application import application
from eventsched.api.desk.asked import Desk
from eventsched.api.gates.gate import OpenGate
from eventsched.domain import records
from eventsched.domain.records import Outcome, PodDecided
from eventsched.domain.records.exclusions import UNNAMED, Exclusion, exclusion_of
from eventsched.eventlog.archive.archive_manifest import DECISIONS
from eventsched.questions.excluded_nodes import excluded_refusal
from eventsched.questions.states import FoldedStates
from eventsched.questions.streams import DatabaseStreams
from tests.api.asking import Client
from tests.postgres.archives import archived
from tests.postgres.test_prefilter_parity import STREAM, log

__all__ = ["log"]

NAMED = {
    "no-claim": (
        "VolumeRestrictions",
        '0/3 nodes are available: persistentvolumeclaim "missing" not found. not found',
    ),
    "no-node": ("NodeAffinity", "node(s) didn't satisfy plugin(s) [NodeAffinity]"),
    "one-node": ("NodeResourcesFit", "Insufficient cpu"),
}
"""The plugin and the reason by owner; of the last one only some nodes were left out."""


@pytest.fixture
def client(log: str) -> Iterator[Client]:
    with closing(DatabaseStreams(log)) as streams:
        yield Client(application(Desk(streams, FoldedStates()), OpenGate(local_only=True)))


def test_the_view_names_the_plugin(log: str) -> None:
    with psycopg.connect(log) as connection:
        found = connection.execute(
            "SELECT owner_name, plugin, reason, code FROM eventsched.pods_now"
            " WHERE state = 'unschedulable' AND owner_name = ANY(%s)",
            (list(NAMED),),
        ).fetchall()
        excluded = {owner: (plugin, reason) for owner, plugin, reason, code in found
                    if code == "Excluded"}  # fmt: skip
    assert {owner: (plugin, reason) for owner, plugin, reason, _ in found} == NAMED
    assert excluded.keys() == {"no-claim", "no-node"}


REFUSALS = """
SELECT n.owner_name, d.seq, r.plugin, r.reason, r.code, r.nodes
FROM eventsched.decisions d
JOIN eventsched.pods_now n USING (stream, pod_uid)
JOIN {source} ON {condition}
WHERE n.owner_name = ANY(%s) ORDER BY 1, 2, 3
"""
Named = dict[str, set[tuple[str | None, str]]]


def excluded(log: str, source: str, condition: str = "true") -> Named:
    """Owner → what is named for the nodes that PreFilter left out."""
    found: Named = {}
    with psycopg.connect(log) as connection:
        query = REFUSALS.format(source=source, condition=condition)
        for owner, _, plugin, reason, code, _ in connection.execute(
            query.encode(), (list(NAMED),)
        ).fetchall():
            if code == "Excluded":
                found.setdefault(owner, set()).add((plugin, reason))
    return found


EXCLUDED: Named = {
    "no-claim": {NAMED["no-claim"]},
    "no-node": {NAMED["no-node"]},
    "one-node": {("NodeAffinity", "node(s) didn't satisfy plugin(s) [NodeAffinity]")},
}
"""What is named for left out nodes, also beside a node that another plugin refused."""


def test_refusals_name_it(log: str) -> None:
    view = excluded(log, "eventsched.refusals r", "r.stream = d.stream AND r.seq = d.seq")
    function = excluded(log, "LATERAL eventsched.refusals(d.stream, d.seq) r")
    assert function == view == EXCLUDED


def test_verdicts_name_it(log: str) -> None:
    """Of an attempt whose nodes were judged; of the others there are no vectors."""
    nodes = "LATERAL (SELECT v.*, 1 AS nodes FROM eventsched.verdicts(d.stream, d.seq) v) r"
    assert excluded(log, nodes)["one-node"] == EXCLUDED["one-node"]


def test_archives_name_it(log: str, tmp_path: Path) -> None:
    archived(log, STREAM, tmp_path)
    found: Named = {}
    for path in (tmp_path / STREAM).glob(f"*.{DECISIONS}.parquet"):
        for row in pq.read_table(path).to_pylist():
            for each in row["refusals"]:
                if each["code"] == "Excluded" and row["outcome"] == "unschedulable":
                    owner = row["pod"].rpartition("-")[0]
                    found.setdefault(owner, set()).add((each["plugin"], each["reason"]))
    assert {owner: found[owner] for owner in EXCLUDED} == EXCLUDED


def test_decisions_name_it(client: Client) -> None:
    """On the list, by filter, and one by one."""
    for owner in ("no-claim", "no-node"):
        plugin, reason = NAMED[owner]
        found = client.get(f"/decisions?owner={owner}")["decisions"]
        assert {(each["plugin"], each["code"], each["reason"]) for each in found} == {
            (plugin, "Excluded", reason)
        }
        words = f"plugin={quote(plugin)}&reason={quote(reason[:40].upper())}"
        positions = [each["position"] for each in client.get(f"/decisions?{words}")["decisions"]]
        assert {each["position"] for each in found} <= set(positions)
        assert positions == sorted(positions, reverse=True)
        for each in found:
            detail = client.get(f"/decisions/{each['position']}")
            assert detail["decision"] == each
            [refused] = detail["refusals"]
            assert (refused["plugin"], refused["reason"], refused["nodes"]) == (plugin, reason, 3)
    assert client.get("/decisions?plugin=VolumeRestrictions&reason=nowhere")["decisions"] == []
    placed = client.get("/decisions?owner=fits")["decisions"]
    assert {each["plugin"] for each in placed} == {None}


def test_verdicts_of_nodes_name_it(client: Client) -> None:
    [*_, first] = client.get("/decisions?owner=one-node")["decisions"]
    verdicts = client.get(f"/decisions/{first['position']}/verdicts")["verdicts"]
    found = {each["node"]: (each["plugin"], each["reason"]) for each in verdicts}
    [expected] = EXCLUDED["one-node"]
    assert (found["n2"], found["n3"]) == (expected, expected)
    assert found["n1"] == NAMED["one-node"]


def test_the_verdicts_on_one_node_name_it(client: Client) -> None:
    """As the verdicts of each decision do; before, no plugin was named for the same nodes."""
    [expected] = EXCLUDED["one-node"]
    refusals = client.get("/nodes/n2/verdicts")["refusals"]
    [named] = [each for each in refusals if (each["plugin"], each["reason"]) == expected]
    newest = client.get(f"/decisions/{named['newest']['position']}/verdicts")["verdicts"]
    [own] = [each for each in newest if each["node"] == "n2"]
    assert (own["plugin"], own["status"], own["reason"]) == (
        named["plugin"],
        named["code"],
        named["reason"],
    )


def test_counts_name_it(client: Client) -> None:
    answer = client.get("/refusals")
    plugins = {each["plugin"]: each for each in answer["plugins"]}
    assert None not in plugins
    for owner in ("no-claim", "no-node"):
        plugin, reason = NAMED[owner]
        [row] = [each for each in plugins[plugin]["reasons"] if each["reason"] == reason]
        listed = client.get(f"/decisions?plugin={quote(plugin)}&reason={quote(reason)}")
        assert row["attempts"] == len(listed["decisions"])
        assert row["codes"] == ["Excluded"]


def test_pods_that_are_gone_are_named_alike(client: Client, log: str) -> None:
    with psycopg.connect(log) as connection:
        connection.execute("DELETE FROM eventsched_log.pod_now WHERE owner_name = 'no-claim'")
    pods = client.get("/pods?ever=true")["pods"]
    gone = [each for each in pods if each["name"].startswith("no-claim-")]
    assert {(each["state"], each["plugin"], each["reason"]) for each in gone} == {
        ("gone", *NAMED["no-claim"])
    }


@pytest.mark.parametrize("is_past", [False, True])
def test_every_answer_names_it(client: Client, is_past: bool) -> None:
    """A group by reason and a filter lead to the pods that they count."""
    at = f"at={client.get('/now')['position']}" if is_past else ""
    pods = client.get(f"/pods?{at}&state=unschedulable")["pods"]
    found = {pod["owner_name"]: (pod["plugin"], pod["reason"]) for pod in pods}
    assert {owner: found[owner] for owner in NAMED} == NAMED
    groups = client.get(f"/pods/groups?{at}&by=reason&state=unschedulable")["groups"]
    keys = {(group["plugin"], group["reason"]): group for group in groups}
    reasons = client.get(f"/now?{at}")["reasons"]
    for owner in ("no-claim", "no-node"):
        [reason] = [each for each in reasons if (each["plugin"], each["reason"]) == NAMED[owner]]
        assert (reason["pods"], reason["group"]) == (2, keys[NAMED[owner]]["key"])
        plugin, text = map(quote, NAMED[owner])
        for words in (f"group={quote(reason['group'], safe='')}", f"plugin={plugin}&reason={text}"):
            shown = client.get(f"/pods?{at}&{words}")["pods"]
            assert [pod["owner_name"] for pod in shown] == [owner] * 2, words


def test_a_pod_that_no_node_would_take_is_a_finding_with_the_plugin(
    client: Client, log: str
) -> None:
    """After ten minutes, by the clock of the log."""
    with psycopg.connect(log) as connection:
        connection.execute("SET LOCAL search_path = eventsched_log")
        connection.execute("UPDATE pod_now SET waiting_since = waiting_since - 601000000")
        connection.execute("ALTER TABLE queue_move DISABLE TRIGGER ALL")
        connection.execute("UPDATE queue_move SET at = at - 601000000")
    found: list[dict[str, Any]] = client.get("/queue/anomalies")["anomalies"]
    facts = {each["facts"]["owner_name"]: each["facts"] for each in found}
    assert {
        owner: (facts[owner]["plugin"], facts[owner]["reason"]) for owner in ("no-claim", "no-node")
    } == {owner: NAMED[owner] for owner in ("no-claim", "no-node")}


@pytest.mark.parametrize(
    ("plugin", "message", "named"),
    [
        ("A", "0/3 nodes are available: no.", ("A", "0/3 nodes are available: no.")),
        (None, "3 node(s) didn't satisfy plugin(s) [A B]. x",
         ("A B", "node(s) didn't satisfy plugin(s) [A B]")),
        ("", "0/3 nodes", (None, "PreFilter left the node out")),
        (None, None, (None, "PreFilter left the node out")),
    ],
)  # fmt: skip
def test_what_is_named(plugin: str | None, message: str | None, named: Any, log: str) -> None:
    """By SQL as by Python."""
    found = excluded_refusal(plugin, message)
    assert (found.plugin, found.reason) == named
    assert found.code == "Excluded"
    with psycopg.connect(log) as connection:
        query = (
            "SELECT eventsched_log.excluding_plugin(p, m), eventsched_log.excluding_reason(p, m)"
            " FROM (VALUES (%s::text, %s::text)) AS a (p, m)"
        )
        assert connection.execute(query, (plugin, message)).fetchall() == [named]


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({}, Exclusion("A", "no")),
        ({"evaluated": 1}, UNNAMED),  # A ended the attempt after PreFilter
        ({"evaluated": 1, "message": "1 node(s) didn't satisfy plugin(s) [B]."},
         Exclusion("B", "node(s) didn't satisfy plugin(s) [B]")),
        ({"outcome": Outcome.ERROR}, Exclusion("A", "no")),
        ({"outcome": Outcome.SCHEDULED, "node": "n1"}, UNNAMED),
    ],
)  # fmt: skip
def test_what_is_named_of_a_record(changes: dict[str, Any], named: Exclusion, log: str) -> None:
    """By SQL as by Python."""
    record = PodDecided(uid="a", attempt=1, outcome=Outcome.UNSCHEDULABLE, plugin="A", message="no")
    record = msgspec.structs.replace(record, **changes)
    assert exclusion_of(record) == named
    with psycopg.connect(log) as connection:
        found = connection.execute(
            "SELECT eventsched_log.exclusion(%s::json)", (records.encode(record).decode(),)
        ).fetchall()
    assert found == [(list(named),)]
