"""Lists are taken in over many steps, and everything else waits until they are."""

from collections.abc import Callable

import pytest

from eventsched.cluster.messages import (
    Bound,
    Listed,
    Listing,
    PodGone,
    PodSeen,
    Relisted,
)
from eventsched.runtime.leader.leader_messages import (
    Append,
    Committed,
    Deposed,
    Message,
    Request,
    Tick,
)
from eventsched.runtime.reconciliation import breaks
from tests.builders import make_node, make_pod
from tests.leader_harness import BIND, NOW, LeaderHarness, kinds, leading, listed


def always() -> bool:
    """There is no time for anything more."""
    return True


@pytest.fixture(autouse=True)
def many_breaks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(breaks, "ITEMS_BETWEEN_BREAKS", 1)


def before() -> LeaderHarness:
    """A leader of two nodes and three pods, all of whose records are committed."""
    harness = LeaderHarness()
    pods = [make_pod(f"p{number}", node_name="n1") for number in range(3)]
    harness.commit_all(harness.lead(make_node(), make_node("n2"), *pods))
    return harness


NOW_LISTED = listed(
    make_node(), make_pod("p0", node_name="n1"), make_pod("p1", node_name="n2"), make_pod("p9")
)
"""One node and one pod are gone, a pod has moved, and another one is new."""


def taken_over(harness: LeaderHarness) -> LeaderHarness:
    """The next leader, which has begun to take in the lists."""
    successor = LeaderHarness(harness)
    successor.send(successor.acquired)
    assert successor.leader.step([NOW_LISTED], NOW, is_time_up=always) == []
    assert successor.leader.reconciling
    return successor


def finished(harness: LeaderHarness, is_time_up: Callable[[], bool] = always) -> list[Request]:
    """Steps until the lists are taken in; the requests of the last one."""
    requests: list[Request] = []
    while harness.leader.reconciling:
        assert not requests
        assert harness.leader.wake_at == NOW
        requests = harness.leader.step([Tick()], NOW, is_time_up=is_time_up)
    return requests


def test_the_records_are_those_of_a_single_step() -> None:
    known = before()
    at_once = LeaderHarness(known)
    at_once.send(at_once.acquired)
    expected = at_once.leader.handle(NOW_LISTED, NOW)

    in_steps = taken_over(known)
    steps = 0

    def counted() -> bool:
        nonlocal steps
        steps += 1
        return True

    requests = finished(in_steps, counted)

    assert steps > 20
    assert [append.batch.body for append in requests if isinstance(append, Append)] == [
        append.batch.body for append in expected if isinstance(append, Append)
    ]
    assert in_steps.leader.engine.state.digest() == at_once.leader.engine.state.digest()
    assert in_steps.leader.counts == at_once.leader.counts


def test_nothing_is_lost_if_the_process_dies_in_between() -> None:
    """The log has nothing of it; the next leader takes in the same."""
    known = before()
    expected = kinds(finished(taken_over(known)))
    for step in range(20):
        dying = taken_over(known)
        for _ in range(step):
            assert not dying.leader.leading
            assert dying.leader.step([Tick()], NOW, is_time_up=always) == []
        assert kinds(finished(taken_over(dying))) == expected


def test_what_a_watch_shows_meanwhile_comes_afterwards() -> None:
    """A pod of the list that is gone since stays gone."""
    harness = taken_over(before())
    assert harness.leader.step([PodGone("p0", 31)], NOW, is_time_up=always) == []
    harness.commit_all(finished(harness))
    assert sorted(harness.leader.engine.state.pods) == ["p1", "p9"]


def test_answers_wait_while_a_watch_is_listed_again() -> None:
    """Nothing is appended and no effect is requested until the list is taken in."""
    harness = leading()
    pods = [PodSeen(make_pod(f"p{number}"), 40 + number) for number in range(2, 30)]
    gap = Relisted(Listing("Pod", 80, [PodSeen(make_pod(), 11), *pods]), 20)
    for message in (gap, Bound(BIND), Tick()):
        assert harness.leader.step([message], NOW, is_time_up=always) == []
    assert harness.leader.reconciling
    assert harness.leader.leading
    assert not harness.leader.can_attempt
    assert not harness.leader.all_committed
    requests = finished(harness)
    found = kinds(requests)
    assert found.index("PodBound") > found.index("WatchRelisted")
    assert found.index("PodDecided") > found.index("PodBound")


def test_a_leader_that_is_deposed_meanwhile_stops_afterwards() -> None:
    harness = leading()
    gap = Relisted(Listing("Pod", 80, [PodSeen(make_pod(), 11)]), 20)
    harness.leader.step([gap, Deposed("another leader"), Committed()], NOW, is_time_up=always)
    assert harness.leader.leading
    assert finished(harness) == []
    assert harness.leader.stopped == "another leader"


def test_lists_of_a_restored_cluster_stop_the_leader() -> None:
    harness = before()
    gap = Relisted(Listing("Pod", 5, [PodSeen(make_pod(), 4)]), 20)
    harness.leader.step([gap], NOW, is_time_up=always)
    assert finished(harness) == []
    assert "restored" in harness.leader.stopped


def test_two_lists_are_taken_in_one_after_the_other() -> None:
    harness = before()
    first, second = (
        Relisted(Listing("Pod", version, [PodSeen(make_pod(name), version)]), 20)
        for name, version in (("q1", 40), ("q2", 50))
    )
    harness.leader.step([first, second], NOW, is_time_up=always)
    harness.commit_all(finished(harness))
    assert sorted(harness.leader.engine.state.pods) == ["q2"]


def test_messages_of_the_step_in_which_the_lists_come_wait_too() -> None:
    harness = LeaderHarness()
    harness.send(harness.acquired)
    messages: list[Message] = [
        Listed(listed(make_node(), make_pod("p0")).listings),
        PodGone("p0", 31),
    ]
    harness.leader.step(messages, NOW, is_time_up=always)
    finished(harness)
    assert not harness.leader.engine.state.pods
