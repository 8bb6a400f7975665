"""Pods, what happened, and a pod's story as of a position: those of a log that ends there."""

from collections.abc import Iterator
from typing import Any

import pytest

from eventsched.api.application import ROOT, application
from eventsched.api.desk.asked import Desk
from eventsched.api.gates.gate import OpenGate
from eventsched.questions.states import MOST_KEPT, FoldedStates
from eventsched.questions.streams import DatabaseStreams, opened_streams
from tests.api.asking import Client
from tests.databases import Server, migrate
from tests.postgres.histories import ODD, odd_day

CUTS = (9, 16, 25, 33, 41, 52, 60, 71, 83)
"""Positions of the odd day, in the middle of steps, too."""


def _written(address: str) -> None:
    """The odd day, and its beginnings as streams of their own."""
    migrate(address)
    world = odd_day()
    world.write(address, ODD)
    whole = world.logged
    for cut in CUTS:
        world.logged = whole[:cut]
        world.write(address, f"until-{cut}")


@pytest.fixture(scope="module")
def streams(one_server: Server) -> Iterator[DatabaseStreams]:
    with one_server.fresh(_written) as url, opened_streams(url, None) as opened:
        yield opened


@pytest.fixture(scope="module")
def cuts(streams: DatabaseStreams) -> Client:
    return Client(application(Desk(streams, FoldedStates()), OpenGate(local_only=True)))


def pods_of(client: Client, query: str) -> list[dict[str, Any]]:
    path = f"/pods?{query}&limit=3"
    return [each for page in client.pages(path, "pods", "cursor") for each in page]


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("sort", ["position", "-position", "-waiting"])
def test_pods(cuts: Client, cut: int, sort: str) -> None:
    """All fields, in all orders, over pages. No row says since when a pod is on its node that
    another scheduler placed."""
    past = pods_of(cuts, f"stream={ODD}&at={cut}&sort={sort}")
    present = pods_of(cuts, f"stream=until-{cut}&sort={sort}")
    unknown = [each["name"] for each in past if each["since"] is None]
    assert set(unknown) <= {"b", "gang-1"}
    for each in present:
        each["since"] = None if each["name"] in unknown else each["since"]
    assert past == present


def test_pods_by_the_time_of_their_state(cuts: Client) -> None:
    found = pods_of(cuts, f"stream={ODD}&at=33&sort=since")
    assert found == sorted(found, key=lambda each: (each["since"], each["position"])) != []


def test_filters(cuts: Client) -> None:
    """The reason is that of any refusal in the last attempt."""
    every = pods_of(cuts, f"stream={ODD}&at=25&sort=position")
    for name in ("namespace", "name", "state", "node", "profile"):
        for value in {each[name] for each in every} - {None}:
            found = pods_of(cuts, f"stream={ODD}&at=25&sort=position&{name}={value}")
            assert found == [each for each in every if each[name] == value], (name, value)
    pending = pods_of(cuts, f"stream={ODD}&at=25&sort=position&state=pending")
    queues = ("active", "backoff", "unschedulable", "gated")
    assert pending == [each for each in every if each["state"] in queues] != every
    refused = [each for each in every if each["plugin"] == "NodeResourcesFit"]
    assert refused != []
    for words in ("plugin=NodeResourcesFit", "reason=INSUFFICIENT", "plugin=TaintToleration"):
        assert pods_of(cuts, f"stream={ODD}&at=25&sort=position&{words}") == refused
    assert pods_of(cuts, f"stream={ODD}&at=25&plugin=NodeName") == []
    first = every[0]
    for part in (first["name"][1:].upper(), f"{first['namespace']}/{first['name']}"[1:]):
        path = f"stream={ODD}&at=25&sort=position&name_contains={part}"
        names = [f"{each['namespace']}/{each['name']}" for each in pods_of(cuts, path)]
        whole = [f"{each['namespace']}/{each['name']}" for each in every]
        assert names == [name for name in whole if part.lower() in name] != []


@pytest.mark.parametrize("cut", CUTS)
def test_now(cuts: Client, cut: int) -> None:
    past = cuts.get(f"/now?stream={ODD}&at={cut}")
    present = cuts.get(f"/now?stream=until-{cut}&nodes=false")
    nodes, log, leader = past.pop("nodes"), past.pop("log"), past.pop("leader")
    assert (nodes["position"], leader["holder"], log["lag_seconds"]) == (cut, "test", None)
    for each in (past, present):  # among equals any order is right
        each["reasons"].sort(key=lambda reason: (-reason["pods"], reason["example"]))
    assert past | {"stream": ""} == {
        name: value for name, value in present.items() if name not in ("log", "leader", "nodes")
    } | {"stream": ""}


@pytest.mark.parametrize("cut", CUTS)
def test_stories(cuts: Client, cut: int) -> None:
    """A pod that came later is not there, and the remedy does not name it as the nearest one."""
    there = pods_of(cuts, f"stream=until-{cut}")
    for pod in there:
        path = f"/pods/{pod['namespace']}/{pod['name']}"
        for what in ("explain", "timeline"):
            past = cuts.get(f"{path}/{what}?stream={ODD}&at={cut}&uid={pod['uid']}")
            present = cuts.get(f"{path}/{what}?stream=until-{cut}&uid={pod['uid']}")
            assert past | {"stream": ""} == present | {"stream": ""}
        words = [
            cuts.ask(f"{ROOT}{path}/explain?stream={query}", accept="text/plain").body
            for query in (f"{ODD}&at={cut}", f"until-{cut}")
        ]
        assert words[0].replace(ODD.encode(), b"") == words[1].replace(b"until-%d" % cut, b"")
    assert cuts.problem(f"/pods/prod/web/explain?stream={ODD}&at=16", 404) == (
        "at; prod/web came only at position 65; choose a later time, or position 66"
    )


def test_a_decision(cuts: Client) -> None:
    """The attempt after it is known from its position on."""
    tried = cuts.get(f"/decisions?stream={ODD}&limit=100")["decisions"]
    first = next(each for each in reversed(tried) if each["outcome"] == "unschedulable")
    position = first["position"]
    following = cuts.get(f"/decisions/{position}?stream={ODD}")["following"]
    found = {
        at: cuts.get(f"/decisions/{position}?stream={ODD}&at={at}")["following"]
        for at in (position + 1, following, following + 1)
    }
    assert found == {position + 1: None, following: None, following + 1: following}
    assert "choose a later position" in cuts.problem(
        f"/decisions/{position}?stream={ODD}&at={position}", 400
    )


def test_positions(cuts: Client) -> None:
    """A time means the position after its last record."""
    end = cuts.get(f"/position?stream={ODD}")
    assert (end["position"], end["time"]) == (end["head"], end["head_time"])
    by_position = cuts.get(f"/position?stream={ODD}&at=25")
    by_time = cuts.get(f"/position?stream={ODD}&at={by_position['time'].replace('+', '%2B')}")
    assert by_time["time"] == by_position["time"]
    assert by_time["position"] >= by_position["position"]
    begin = cuts.get(f"/position?stream={ODD}&at=0")
    assert (begin["time"], begin["begin"]) == (None, 0)
    for path in ("/position", "/now", "/pods"):
        assert cuts.problem(f"{path}?stream={ODD}&at=9999", 400) == (
            f"at; the log ends at position {end['head']}; name a position up to {end['head']}"
        )
    assert cuts.problem(f"/pods?stream={ODD}&at=9&ever=true", 400).startswith("ever; ")


def test_the_newest_state_stays_while_the_past_is_walked_through(
    streams: DatabaseStreams,
) -> None:
    states = FoldedStates()
    desk = Desk(streams, states)
    client = Client(application(desk, OpenGate(local_only=True)))
    newest = client.get(f"/state?stream={ODD}")
    for at in CUTS:
        client.get(f"/pods?stream={ODD}&at={at}")
    positions = [None, *CUTS[1 - MOST_KEPT :]]
    assert [position for _, position in states._kept] == positions
    assert client.get(f"/state?stream={ODD}") == newest
