"""Pods of the past that were deleted and came back with the same uid, as a restore of etcd does."""

from collections.abc import Iterator

import pytest

from eventsched.api.application import application
from eventsched.api.desk.asked import Desk
from eventsched.api.gates.gate import OpenGate
from eventsched.domain import records
from eventsched.domain.records import FORMAT
from eventsched.questions.states import FoldedStates
from eventsched.questions.streams import DatabaseStreams, opened_streams
from tests.api.asking import Client
from tests.api.test_past_pages import pods_of
from tests.builders import make_node, make_pod
from tests.databases import Server, migrate
from tests.postgres.histories import World

DAY = "returned"
NAMES = ("tried", "bound", "moved", "gated")


def _day() -> World:
    """Each pod has two lives, and what it does in the second differs from the first. Pod
    ``between`` came before the second ones and has one life; it waits, as they do."""
    world = World()
    world.see(records.StreamStarted(format=FORMAT, engine="test", seed="s"), 0)
    world.see(records.NodeAdded(node=make_node("n1", cpu=1000)), 0)
    world.see(records.PodAdded(pod=make_pod("tried", cpu=9000)), 1)
    world.see(records.PodAdded(pod=make_pod("moved", cpu=9000)), 1)
    world.see(records.PodAdded(pod=make_pod("bound", cpu=100)), 2)
    world.see(records.PodAdded(pod=make_pod("gated", cpu=9000)), 2)
    placed = world.attempt()
    world.see(records.BindSucceeded(uid="bound", node=placed["bound"]), 3)
    for uid in NAMES:
        world.see(records.PodDeleted(uid=uid), 4)
    world.see(records.PodAdded(pod=make_pod("between", cpu=9000)), 5)
    world.attempt()
    world.see(records.PodAdded(pod=make_pod("tried", cpu=9000)), 7)
    world.see(records.PodAdded(pod=make_pod("moved", cpu=10, node_name="n1")), 8)
    world.see(records.PodAdded(pod=make_pod("gated", cpu=9000, gates=("a",))), 9)
    world.see(records.PodAdded(pod=make_pod("bound", cpu=200)), 10)
    placed = world.attempt()
    world.see(records.BindSucceeded(uid="bound", node=placed["bound"]), 11)
    return world


def _cuts() -> dict[str, int]:
    return {f"until-{cut}": cut for cut in range(8, len(_day().logged) + 1)}


def _written(address: str) -> None:
    """The day, and its beginnings as streams of their own."""
    migrate(address)
    world = _day()
    world.write(address, DAY)
    whole = world.logged
    for name, cut in _cuts().items():
        world.logged = whole[:cut]
        world.write(address, name)


@pytest.fixture(scope="module")
def streams(one_server: Server) -> Iterator[DatabaseStreams]:
    with one_server.fresh(_written) as url, opened_streams(url, None) as opened:
        yield opened


def test_the_past_is_what_was_the_present(streams: DatabaseStreams) -> None:
    """At every position, with the times of the pods' own lives."""
    client = Client(application(Desk(streams, FoldedStates()), OpenGate(local_only=True)))
    for name, cut in _cuts().items():
        for sort in ("position", "-waiting"):
            past = pods_of(client, f"stream={DAY}&at={cut}&sort={sort}")
            present = pods_of(client, f"stream={name}&sort={sort}")
            for row in (*past, *present):  # in the middle of a step no row of the past says it
                row["since"] = None if row["state"] == "unqueued" else row["since"]
            assert past == present, (cut, sort)
    found = {pod["name"]: pod for pod in pods_of(client, f"stream={DAY}&at={cut}")}
    assert len({pod["since"] for pod in found.values()}) > 3
    assert {pod["attempts"] for pod in found.values()} == {0, 1}


def test_the_pod_that_has_waited_longest(streams: DatabaseStreams) -> None:
    """Not the one whose uid was in the queue before."""
    opened = streams.open(DAY)
    past = FoldedStates().past(opened, str(opened.log.head.next))
    tried, between, moved = (
        next(row for row in past.rows if row.pod.name == name)
        for name in ("tried", "between", "moved")
    )
    found = past.oldest([[between, tried], [tried], [moved]])
    assert [row and row.pod.name for row in found] == ["between", "tried", None]
    assert between["waiting_since"] < tried["waiting_since"]
