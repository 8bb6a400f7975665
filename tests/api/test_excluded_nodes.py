"""Pods for which PreFilter left out all nodes: the plugin that did it is named with its reason,
by view pods_now and by all answers about pods, of the present as of the past."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any
from urllib.parse import quote

import psycopg
import pytest

from eventsched.api.application import application
from eventsched.api.desk.asked import Desk
from eventsched.api.gates.gate import OpenGate
from eventsched.questions.overviews.excluded_nodes import excluded_refusal
from eventsched.questions.states import FoldedStates
from eventsched.questions.streams import DatabaseStreams
from tests.api.asking import Client
from tests.postgres.test_prefilter_parity import log

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
def test_what_is_named(plugin: str | None, message: str | None, named: Any) -> None:
    found = excluded_refusal(plugin, message)
    assert (found.plugin, found.reason) == named
    assert found.code == "Excluded"
