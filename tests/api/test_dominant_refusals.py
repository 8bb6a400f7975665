"""Which refusal of several is named first, and which pods a filter by one of them finds: on nodes
of which most are not meant for the pods."""

import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any
from urllib.parse import quote

import pytest

from eventsched.api.application import application
from eventsched.api.desk.asked import Desk
from eventsched.api.gates.gate import OpenGate
from eventsched.cli.main import main
from eventsched.domain import records
from eventsched.domain.objects import Owner, Taint
from eventsched.domain.records import FORMAT
from eventsched.history.dominant_refusal import refusal_rank
from eventsched.questions.states import FoldedStates
from eventsched.questions.streams import DatabaseStreams
from tests.api.asking import Client
from tests.builders import make_node, make_pod
from tests.databases import Server, migrate
from tests.postgres.histories import World

STREAM = "fenced"
CONTROL_PLANE = (Taint(key="control-plane", value="", effect="NoSchedule"),)


LATER = 601
"""Seconds: longer than a long wait."""


def fenced_log(address: str) -> None:
    """Three nodes with a taint and two small ones; pods of which one lacks cpu, one is larger than
    any node, one asks for a label, and one that failed is gone; the last one is placed when the
    others have waited long."""
    world = World()
    world.see(records.StreamStarted(format=FORMAT, engine="test", seed="fenced"), 0)
    for number in range(3):
        node = make_node(f"control-{number}", cpu=8000, taints=CONTROL_PLANE)
        world.see(records.NodeAdded(node=node), 0)
    for number in range(2):
        world.see(records.NodeAdded(node=make_node(f"small-{number}", cpu=1000)), 0)
    web = Owner(kind="ReplicaSet", name="web-7f9c8")
    for pod in (
        make_pod("filler-0", cpu=600), make_pod("filler-1", cpu=600),
        make_pod("lacks", cpu=900, owner=web), make_pod("large", cpu=3000, owner=web),
        make_pod("labelled", cpu=100, spec={"node_selector": {"disk": "ssd"}}),
        make_pod("left", cpu=900),
    ):  # fmt: skip
        world.see(records.PodAdded(pod=pod), 1)
        for uid, place in world.attempt().items():
            world.see(records.BindSucceeded(uid=uid, node=place), 1)
    world.see(records.PodDeleted(uid="left"), 2)
    world.see(records.PodAdded(pod=make_pod("later", cpu=100)), LATER)
    for uid, place in world.attempt().items():
        world.see(records.BindSucceeded(uid=uid, node=place), LATER)
    world.write(address, STREAM)


@pytest.fixture(scope="module")
def fenced(one_server: Server) -> Iterator[str]:
    with one_server.fresh(migrate) as url:
        fenced_log(url)
        yield url


@pytest.fixture(scope="module")
def asking(fenced: str) -> Iterator[Client]:
    with closing(DatabaseStreams(fenced)) as streams:
        yield Client(application(Desk(streams, FoldedStates()), OpenGate(local_only=True)))


NAMED = {
    "lacks": ("NodeResourcesFit", "Insufficient cpu"),
    "large": ("NodeResourcesFit", "Insufficient cpu"),
    "labelled": ("TaintToleration", "node(s) had untolerated taint(s)"),
}


@pytest.mark.parametrize(
    ("plugin", "code", "rank"),
    [
        ("NodeResourcesFit", "Unschedulable", 0), ("VolumeBinding", "Error", 0),
        ("NodeResourcesFit", "UnschedulableAndUnresolvable", 1),
        ("NodeAffinity", "UnschedulableAndUnresolvable", 2),
        ("", "UnschedulableAndUnresolvable", 3), (None, "NotEvaluated", 3),
    ],
)  # fmt: skip
def test_ranks(plugin: str | None, code: str, rank: int) -> None:
    assert refusal_rank(plugin, code) == rank


def test_every_answer_names_the_same(asking: Client) -> None:
    """Not the taint of most nodes, unless nothing else refuses the pod. Only ``explain`` asks the
    nodes: none of those with a taint has the label."""
    pods = {each["name"]: each for each in asking.get("/pods?state=unschedulable")["pods"]}
    assert {name: (each["plugin"], each["reason"]) for name, each in pods.items()} == NAMED
    for name, (plugin, reason) in NAMED.items():
        decision = asking.get(f"/decisions?pod={name}")["decisions"][0]
        summary = asking.get(f"/pods/default/{name}/explain")["summary"]
        assert (decision["plugin"], decision["reason"]) == (plugin, reason)
        if name == "labelled":
            assert (summary["plugin"], summary["nodes"]) == ("NodeAffinity", 2)
            assert summary["next_step"].startswith("label one of 2 open nodes, such as small-0,")
        else:
            assert (summary["plugin"], summary["reason"]) == (plugin, reason)
        assert summary["of"] == 5
    reasons = asking.get("/now")["reasons"]
    assert {(each["plugin"], each["reason"]): each["pods"] for each in reasons} == {
        NAMED["lacks"]: 2, NAMED["labelled"]: 1,
    }  # fmt: skip


def test_findings_name_the_same(asking: Client, fenced: str) -> None:
    """So do the commands, while the refusals of most nodes are those of taints."""
    found = {each["pod"]: each["facts"] for each in asking.get("/queue/anomalies")["anomalies"]}
    assert {pod: (facts["plugin"], facts["reason"]) for pod, facts in found.items()} == NAMED
    plugins = asking.get("/refusals")["plugins"]
    firsts = {each["plugin"]: each["first"] for each in plugins}
    assert firsts == {"NodeResourcesFit": 3, "TaintToleration": 1, "NodeAffinity": 0}
    assert next(iter(firsts)) == "NodeResourcesFit"
    nodes = {each["plugin"]: each["nodes"] for each in plugins}
    assert nodes["TaintToleration"] > nodes["NodeResourcesFit"]
    assert sum(each["first"] for plugin in plugins for each in plugin["reasons"]) == 4


def test_findings_lead_to_the_pods_refused_alike(asking: Client) -> None:
    """By the group that the answers name, also the refusals of attempts by reason."""

    def pods(group: str) -> set[str]:
        return {each["name"] for each in asking.get(f"/pods?group={quote(group)}")["pods"]}

    for each in asking.get("/queue/anomalies")["anomalies"]:
        same = {pod for pod, refusal in NAMED.items() if refusal == NAMED[each["pod"]]}
        assert pods(each["group"]) == same
    for plugin in asking.get("/refusals")["plugins"]:
        for reason in plugin["reasons"]:
            named = (plugin["plugin"], reason["reason"])
            last = {pod for pod, refusal in NAMED.items() if refusal == named}
            assert pods(reason["group"]) == last


def test_a_workload_is_grouped_by_it(fenced: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Both that lack cpu, though for one the end of other pods would help."""
    assert main(["explain", "rs/web-7f9c8", "--database", fenced, "-o", "json"]) == 0
    groups: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["groups"]
    assert {(each["plugin"], each["reason"]) for each in groups} == {NAMED["lacks"]}
    assert sum(each["pods"] for each in groups) == 2


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("plugin=TaintToleration", ["labelled", "lacks", "large"]),
        ("plugin=NodeAffinity", ["labelled"]),
        ("reason=insufficient%20CPU", ["lacks", "large"]),
        ("plugin=TaintToleration&reason=insufficient", []),
        ("ever=true&plugin=NodeResourcesFit", ["lacks", "large", "left"]),
        ("ever=true&state=gone&reason=taint", ["left"]),
    ],
)
def test_filters_find_a_refusal_on_few_nodes(asking: Client, words: str, found: list[str]) -> None:
    """But not the pods that were placed although some nodes refused them."""
    assert sorted(each["name"] for each in asking.get(f"/pods?{words}")["pods"]) == found
