"""Anomalies of the past: those that the views have of a log that ends there."""

from collections.abc import Iterator
from contextlib import closing
from random import Random
from typing import Any

import pytest

from eventsched.api.application import application
from eventsched.api.desk.asked import Desk
from eventsched.api.gates.gate import OpenGate
from eventsched.history.past_state.anomalies import KINDS
from eventsched.questions.states import FoldedStates
from eventsched.questions.streams import DatabaseStreams
from tests.api import test_anomalies, test_findings
from tests.api.asking import Client
from tests.api.test_visibility import OneNamespace
from tests.databases import Server, migrate
from tests.postgres.anomalous import TOO_SMALL, Diary

ASKED = test_anomalies.ASKED

AGAIN = {"evicted again", "nominated again"}
CUTS = (50, 52, 57, 66, 72)
"""Positions in that log: before and while bosses starve, after they do, and between preemptions
that have been for nothing."""
AGAIN_CUTS = range(52, 66, 2)
"""Positions around the third eviction of a workload."""


def _prepared(address: str) -> None:
    test_anomalies.written(address)
    hopeless = Diary("n1")
    hopeless.is_refused(hopeless.arrives("giant"), TOO_SMALL)
    hopeless.is_refused(hopeless.arrives("unreserved"), TOO_SMALL, feasible=1)
    hopeless.minute = 12
    hopeless.is_placed(hopeless.arrives("web"), "n1")
    hopeless.write(address, "hopeless")
    test_findings.written(address)
    for cut in {*CUTS, *AGAIN_CUTS}:
        diary = test_anomalies.anomalous()
        del diary.entries[cut:]
        diary.write(address, f"until-{cut}", batch=20)


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


def found(answer: dict[str, Any]) -> dict[str, Any]:
    return {name: rows for name, rows in answer.items() if name != "stream"}


@pytest.mark.parametrize("limit", ["", "&limit=1"])
def test_the_end_of_the_log_is_the_present(desk: Desk, whole: Client, limit: str) -> None:
    for client in (whole, Client(application(desk, OneNamespace()))):
        for stream in (test_anomalies.STREAM, test_findings.STREAM, "hopeless"):
            asked = f"/queue/anomalies?stream={stream}{limit}"
            present = client.get(asked)
            past = client.get(f"{asked}&at={head_of(client, stream)}")
            assert found(past) == found(present)
            assert [each["kind"] for each in past["kinds"]] == list(KINDS)


@pytest.mark.parametrize("cut", sorted({*CUTS, *AGAIN_CUTS}))
def test_a_position_is_the_end_of_the_log_before_it(whole: Client, cut: int) -> None:
    past = found(whole.get(f"{ASKED}&at={cut}"))
    assert past == found(whole.get(f"/queue/anomalies?stream=until-{cut}"))


def test_what_was_found_when(whole: Client) -> None:
    kinds = {
        cut: {each["kind"] for each in whole.get(f"{ASKED}&at={cut}")["anomalies"]} for cut in CUTS
    }
    starving, for_nothing = {"starving"}, {"preempted for nothing"}
    assert kinds == {
        50: set(), 52: starving, 57: AGAIN, 66: AGAIN | starving | for_nothing,
        72: AGAIN | starving | for_nothing,
    }  # fmt: skip


def restless(seed: int) -> Diary:
    """Workloads of some replicas each, and pods without an owner, that leave for bosses and are
    replaced, in odd numbers and at odd times."""
    draw, diary = Random(seed), Diary("n1", "n2")
    running: list[str] = []
    bosses = [diary.arrives(f"boss-{number}", priority=9) for number in range(3)]
    for number in range(60):
        diary.minute += draw.choice((0, 1, 4, 15))
        owner, namespace = draw.choice(("a", "b", "")), draw.choice(("x", "y"))
        web = diary.arrives(f"web-{number}", owner, namespace=namespace)
        diary.is_placed(web, "n1")
        running.append(web)
        if draw.random() < 0.5:
            victims = [running.pop(draw.randrange(len(running))) for _ in running[:2]]
            place = draw.randrange(len(bosses))
            boss = bosses[place]
            leaving = tuple(pod for pod in victims[1:] if draw.random() < 0.2)
            diary.preempts(boss, "n1", *victims, leaving=leaving)
            diary.goes(*(pod for pod in victims if draw.random() < 0.8))
            if draw.random() < 0.2:
                diary.is_placed(boss, "n2")
                bosses[place] = diary.arrives(f"boss-{number + 3}", priority=9)
    return diary


@pytest.mark.parametrize("seed", range(3))
def test_what_went_back_and_forth_before_any_position(one_server: Server, seed: int) -> None:
    """As the views have it of a log that ends there."""
    whole, seen = restless(seed), set()
    cuts = sorted(Random(seed).sample(range(40, len(whole.entries)), 8))

    def written(address: str) -> None:
        migrate(address)
        whole.write(address, "whole", batch=50)
        for cut in cuts:
            part = restless(seed)
            del part.entries[cut:]
            part.write(address, f"until-{cut}", batch=50)

    with one_server.fresh(written) as url, closing(DatabaseStreams(url)) as streams:
        client = Client(application(Desk(streams, FoldedStates()), OpenGate(local_only=True)))
        for cut in cuts:
            past = client.get(f"/queue/anomalies?stream=whole&at={cut}")
            present = client.get(f"/queue/anomalies?stream=until-{cut}")
            assert any_victim(past) == any_victim(present), cut
            seen |= {each["kind"] for each in past["anomalies"]}
    assert seen >= AGAIN


def any_victim(answer: dict[str, Any]) -> dict[str, Any]:
    """The answer without the pod of a workload that is named of those that were evicted last."""
    for each in answer["anomalies"]:
        if each["kind"] == "evicted again":
            del each["pod"], each["uid"], each["text"]
    return found(answer)


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
