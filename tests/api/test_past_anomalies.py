"""Anomalies of the past: those that the views have of a log that ends there."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from eventsched.api.application import application
from eventsched.api.desk.asked import Desk
from eventsched.api.gates.gate import OpenGate
from eventsched.questions.states import FoldedStates
from eventsched.questions.streams import DatabaseStreams
from tests.api import test_anomalies, test_findings
from tests.api.asking import Client
from tests.api.test_visibility import OneNamespace
from tests.databases import Server
from tests.postgres.anomalous import TOO_SMALL, Diary

ASKED = test_anomalies.ASKED
AGAIN = ("evicted again", "nominated again")


CUTS = (50, 52, 57, 66, 72)
"""Positions in that log: before and while bosses starve, after they do, and between preemptions
that have been for nothing."""


def _prepared(address: str) -> None:
    test_anomalies.written(address)
    hopeless = Diary("n1")
    hopeless.is_refused(hopeless.arrives("giant"), TOO_SMALL)
    hopeless.is_refused(hopeless.arrives("unreserved"), TOO_SMALL, feasible=1)
    hopeless.minute = 12
    hopeless.is_placed(hopeless.arrives("web"), "n1")
    hopeless.write(address, "hopeless")
    test_findings.written(address)
    for cut in CUTS:
        diary = test_anomalies.anomalous()
        del diary.entries[cut:]
        diary.write(address, f"until-{cut}")


@pytest.fixture(scope="module")
def desk(one_server: Server) -> Iterator[Desk]:
    with one_server.fresh(_prepared) as url, closing(DatabaseStreams(url)) as streams:
        yield Desk(streams, FoldedStates())


@pytest.fixture(scope="module")
def whole(desk: Desk) -> Client:
    """A client that sees everything."""
    return Client(application(desk, OpenGate(local_only=True)))


def head_of(client: Client, stream: str) -> int:
    found = client.get(f"/position?stream={stream}")
    return int(found["head"])


def without_again(answer: dict[str, Any]) -> dict[str, Any]:
    return {
        name: [each for each in rows if each["kind"] not in AGAIN]
        for name, rows in answer.items()
        if name != "stream"
    }


@pytest.mark.parametrize("limit", ["", "&limit=1"])
def test_the_end_of_the_log_is_the_present(desk: Desk, whole: Client, limit: str) -> None:
    for client in (whole, Client(application(desk, OneNamespace()))):
        for stream in (test_anomalies.STREAM, test_findings.STREAM, "hopeless"):
            asked = f"/queue/anomalies?stream={stream}{limit}"
            present = client.get(asked)
            past = client.get(f"{asked}&at={head_of(client, stream)}")
            assert without_again(past) == without_again(present)
            assert not {each["kind"] for each in past["kinds"]} & set(AGAIN)


@pytest.mark.parametrize("cut", CUTS)
def test_a_position_is_the_end_of_the_log_before_it(whole: Client, cut: int) -> None:
    past = without_again(whole.get(f"{ASKED}&at={cut}"))
    present = without_again(whole.get(f"/queue/anomalies?stream=until-{cut}"))
    assert past == present
    kinds = {each["kind"] for each in past["anomalies"]}
    wanted = {50: set(), 52: {"starving"}, 57: set(), 66: {"starving", "preempted for nothing"}}
    assert kinds == wanted.get(cut, {"starving", "preempted for nothing"})


def test_what_no_node_would_take(whole: Client) -> None:
    """Once it has waited for long."""
    asked = "/queue/anomalies?stream=hopeless"
    head = head_of(whole, "hopeless")
    found = whole.get(f"{asked}&at={head}")["anomalies"]
    kinds = {(each["kind"], each["pod"]) for each in found}
    assert kinds == {("starving", "unreserved"), ("unplaceable", "giant")}
    assert whole.get(f"{asked}&at={head - 4}")["anomalies"] == []


def test_flushes_of_the_past(whole: Client) -> None:
    """A pod is one of them once it is placed."""
    asked = f"/queue/flushed?stream={test_findings.STREAM}"
    [found] = whole.get(asked)["pods"]
    assert whole.get(f"{asked}&at={found['placed'] + 1}")["pods"] == [found]
    assert whole.get(f"{asked}&at={found['placed']}")["total"] == 0
