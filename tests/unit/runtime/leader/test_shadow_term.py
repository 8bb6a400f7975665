"""A shadow's leader: it decides and compares, and asks the cluster for nothing."""

from typing import Any

import msgspec
import pytest

from eventsched.cluster.messages import ListCluster, PodGone, PodSeen
from eventsched.domain.behaviours import CURRENT, Behaviour
from eventsched.domain.errors import InputError
from eventsched.domain.records import PlacementCompared, PlacementMatch, Record
from eventsched.domain.records.stimuli import SHADOWS
from eventsched.runtime.leader.leader_messages import Append
from eventsched.runtime.leader.shadow_term import ShadowTerm
from tests.builders import make_node, make_pod
from tests.faults.database import stored_of
from tests.leader_harness import NOW, OPENING, LeaderHarness, kinds, leading, offered

SHADOW = msgspec.structs.replace(
    OPENING, inputs={SHADOWS: "default-scheduler"}, flags=(*CURRENT, Behaviour.SHADOWS)
)


def shadow(before: LeaderHarness | None = None, **options: Any) -> LeaderHarness:
    """The leader of a shadow."""
    return LeaderHarness(before, opening=SHADOW, **options)


def compared(found: list[Record]) -> list[tuple[str, PlacementMatch, int]]:
    """The comparisons among records: pod, outcome, attempt."""
    return [
        (record.uid, record.outcome, record.attempt)
        for record in found
        if isinstance(record, PlacementCompared)
    ]


def test_a_decision_has_no_effect() -> None:
    """Its commit, and all that follows, asks only for the log; no Event is written."""
    harness = shadow()
    requests = harness.lead(make_node(), make_pod(), make_node("full", cpu=0))
    assert offered(requests)[0] == msgspec.structs.replace(SHADOW, timeline="t1")
    assert kinds(requests)[-1] == "PodDecided"
    assert harness.commit(requests) == []
    requests = harness.send(PodSeen(make_pod(node_name="n1"), 21))
    assert kinds(requests) == ["PodUpdated", "PlacementCompared"]
    assert harness.commit(requests) == []
    assert harness.reports == []


def test_a_pod_without_a_node_has_no_event_either() -> None:
    harness = shadow()
    assert harness.commit(harness.lead(make_node(cpu=100), make_pod())) == []
    assert harness.reports == []


def test_a_placement_that_arrives_before_the_attempt() -> None:
    """The pod is decided first, and so are those before it in the queue: the other scheduler's
    bind may come with the same step as the pod."""
    harness = shadow()
    harness.commit_all(harness.lead(make_node()))
    events = [
        PodSeen(make_pod("p1"), 21),
        PodSeen(make_pod("p2"), 22),
        PodSeen(make_pod("p2", node_name="n1"), 23),
        PodSeen(make_pod("p1", node_name="n1"), 24),
    ]
    requests = harness.leader.step(events, NOW)
    assert compared(offered(requests)) == [
        ("p2", PlacementMatch.SAME, 1),
        ("p1", PlacementMatch.SAME, 1),
    ]
    assert isinstance(requests[0], Append)


def test_a_full_batch_comes_first() -> None:
    """While the database is behind nothing is decided, and the log says so."""
    harness = shadow(records=4)
    requests = harness.lead(make_node())
    events = [PodSeen(make_pod(f"p{n}"), 21 + n) for n in range(6)]
    requests += harness.leader.step([*events, PodSeen(make_pod("p5", node_name="n1"), 30)], NOW)
    while any(isinstance(request, Append) for request in requests):
        requests = harness.commit(requests)
    found = [record for batch in harness.batches for record in stored(batch)]
    assert compared(found) == [("p5", PlacementMatch.UNDECIDED, 0)]


def stored(batch: Any) -> list[Record]:
    """The records of a committed batch."""
    return [record.record for record in stored_of(batch)]


@pytest.mark.parametrize("end", ["placed", "deleted"])
def test_the_next_term_carries_on(end: str) -> None:
    """A decision of the term before is compared; nothing is retried."""
    first = shadow()
    assert first.commit(first.lead(make_node(), make_pod())) == []
    second = shadow(first)
    requests = second.lead(make_node(), make_pod())
    assert kinds(requests) == ["TermBegan"]
    assert second.commit(requests) == []
    event = PodSeen(make_pod(node_name="n1"), 30) if end == "placed" else PodGone("p1", 30)
    outcome = PlacementMatch.SAME if end == "placed" else PlacementMatch.ONLY_HERE
    assert compared(offered(second.send(event))) == [("p1", outcome, 1)]


def test_what_happened_without_the_shadow() -> None:
    """Decisions of the term before are compared with the list; other pods were not decided."""
    first = shadow()
    assert first.commit(first.lead(make_node(), make_pod("p1"), make_pod("p2"))) == []
    second = shadow(first)
    third = make_pod("p3", node_name="n1")
    requests = second.lead(make_node(), make_pod("p1", node_name="n1"), third)
    assert compared(offered(requests)) == [
        ("p2", PlacementMatch.ONLY_HERE, 1),
        ("p1", PlacementMatch.SAME, 1),
    ]


def test_lost_history_touches_no_pod() -> None:
    """There is no bind of a shadow that could still succeed."""
    first = shadow()
    assert first.commit(first.lead(make_node(), make_pod())) == []
    second = shadow(first, timeline="t2")
    requests = second.lead(make_node(), make_pod())
    assert kinds(requests) == ["TermBegan", "HistoryLost"]
    assert len(requests) == 1
    assert second.commit(requests) == []


def test_the_streams_do_not_mix() -> None:
    """The first record marks each of them, and the message says what to do."""
    first = shadow()
    first.commit(first.lead(make_node(), make_pod()))
    normal = LeaderHarness(first)
    with pytest.raises(InputError) as refused:
        normal.send(normal.acquired)
    assert str(refused.value) == (
        "stream main: is the log of a shadow of default-scheduler: nothing in it was bound; "
        "give the scheduler another --stream, or add --shadow"
    )
    second = shadow(leading())
    with pytest.raises(InputError) as refused:
        second.send(second.acquired)
    assert str(refused.value) == (
        "stream main: is the log of a scheduler that binds pods, which a shadow must not continue; "
        "give the shadow a --stream of its own"
    )


def test_no_tracker_of_a_shadow_could_write() -> None:
    """Only extenders are called."""
    harness = shadow()
    assert harness.send(harness.acquired) == [ListCluster()]
    phase: Any = harness.leader._phase
    assert isinstance(phase.leader_term, ShadowTerm)
    assert [kind.__name__ for kind in phase.leader_term.trackers._trackers] == ["Consult"]
