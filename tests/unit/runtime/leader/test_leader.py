"""The leader's loop, message by message: what it asks for, and what waits for a commit."""

from dataclasses import replace

import pytest

from eventsched.cluster.messages import (
    BindPod,
    Bound,
    ListCluster,
    Listing,
    NodeGone,
    NodeSeen,
    ObjectGone,
    ObjectSeen,
    PodAbsent,
    PodGone,
    PodSeen,
    PodShown,
    Relisted,
    Unknown,
)
from eventsched.domain import records
from eventsched.domain.objects.registry import Namespace
from eventsched.domain.records import StreamStarted
from eventsched.runtime.leader.leader_messages import (
    Append,
    Committed,
    Deposed,
    Renew,
    Renewed,
    Tick,
)
from eventsched.runtime.leader.leader_term import HEARTBEAT
from eventsched.runtime.leader.retry_queue import RETRY_DELAY
from tests.builders import SECOND, make_node, make_pod
from tests.leader_harness import (
    BIND,
    GET,
    NOW,
    TOUCH,
    LeaderHarness,
    kinds,
    leading,
    listed,
    offered,
)


def test_the_first_term_of_a_stream() -> None:
    """It says how it began, takes in the cluster, and decides; the bind waits for the commit."""
    harness = LeaderHarness()
    requests = harness.lead(make_node(), make_pod())
    opening, term, *_ = offered(requests)
    assert opening == StreamStarted(format=1, engine="0", seed="s", timeline="t1")
    assert term == records.TermBegan(epoch=1, token="01010101")
    assert kinds(requests)[2:5] == ["NodeAdded", "PodAdded", "PodQueued"]
    assert kinds(requests)[-1] == "PodDecided"
    [append] = requests
    assert isinstance(append, Append)
    assert append.batch.mark == b'{"seen":{"Namespace":20,"Node":20,"Pod":20},"reported":0}'
    intent = len(offered(requests)) - 1
    [bind] = harness.commit(requests)
    assert bind == BindPod("p1", "default", "p1", "n1", 11, f"main/{intent}@01010101")


def test_after_an_unknown_outcome_the_same_batch_is_offered_again() -> None:
    """Also when there is more to say meanwhile."""
    harness = LeaderHarness()
    [append] = harness.lead(make_node(), make_pod())
    assert harness.send(Unknown(append)) == []
    assert harness.send(PodSeen(make_pod("p2"), 21)) == []
    assert harness.leader.wake_at == NOW + RETRY_DELAY
    assert harness.send(Tick(), after=1) == [append]


def test_the_next_batch_is_computed_while_one_commits() -> None:
    """It leaves with the binds of the one before."""
    harness = LeaderHarness()
    first = harness.lead(make_node(), make_pod())
    assert harness.send(PodSeen(make_pod("p2"), 21)) == []
    bind, append = harness.commit(first)
    assert isinstance(bind, BindPod)
    assert kinds([append])[0] == "PodAdded"
    assert kinds([append])[-1] == "PodDecided"


def test_a_bind_that_succeeds() -> None:
    """Its echo in the watch is not news."""
    harness = leading()
    requests = harness.send(Bound(BIND))
    assert kinds(requests) == ["BindSucceeded", "PodBound"]
    assert harness.commit(requests) == []
    assert harness.send(PodSeen(make_pod(node_name="n1"), 21)) == []


def test_after_a_bind_without_an_answer_the_pod_is_read_and_the_bind_repeated() -> None:
    """The same one: the pod has not changed."""
    harness = leading()
    assert harness.send(Unknown(BIND)) == []
    assert harness.send(Tick(), after=1) == [GET]
    assert harness.send(PodShown(GET, PodSeen(make_pod(), 11)), after=1) == [BIND]


def test_a_bind_without_an_answer_that_succeeded() -> None:
    """The pod shows it."""
    harness = leading()
    harness.send(Unknown(BIND))
    harness.send(Tick(), after=1)
    requests = harness.send(PodShown(GET, PodSeen(make_pod(node_name="n1"), 12)), after=1)
    assert kinds(requests) == ["PodUpdated", "PodBound"]


def test_a_changed_pod_is_bound_with_its_new_version_once_that_is_committed() -> None:
    """With the same decision id."""
    harness = leading()
    changed = make_pod(labels={"a": "b"})
    requests = harness.send(PodShown(BIND, PodSeen(changed, 12)))
    assert offered(requests)[1:] == [
        records.BindRetried(uid="p1", node="n1", attempt=1, resource_version=12)
    ]
    assert len(requests) == 1
    [bind] = harness.commit(requests)
    assert bind == BindPod("p1", "default", "p1", "n1", 12, BIND.decision)


def test_an_intent_whose_node_is_gone_is_given_up_after_a_touch() -> None:
    """And the pod is decided again after its backoff."""
    harness = leading()
    harness.commit(harness.send(NodeGone("n1", 21)))
    assert harness.send(Unknown(BIND)) == []
    assert harness.send(Tick(), after=1) == [GET]
    assert harness.send(PodShown(GET, PodSeen(make_pod(), 11)), after=1) == [TOUCH]
    requests = harness.send(PodShown(TOUCH, PodSeen(make_pod(), 22)), after=1)
    voided, unreserved, queued = offered(requests)
    assert voided == records.BindVoided(
        uid="p1", node="n1", attempt=1, reason="the node is gone", resource_version=22
    )
    assert isinstance(unreserved, records.PodUnreserved)
    assert isinstance(queued, records.PodQueued)
    assert queued.cause == "BindVoided"


def test_an_intent_is_given_up_after_too_many_binds() -> None:
    """None of them was answered."""
    harness = leading()
    for number in range(4):
        harness.send(Unknown(BIND), after=number)
        assert harness.send(Tick(), after=number + 0.5) == [GET]
        [following] = harness.send(PodShown(GET, PodSeen(make_pod(), 11)), after=number + 0.5)
        assert following == (TOUCH if number == 3 else BIND)


def test_a_pod_that_is_gone_needs_no_fence() -> None:
    """Nothing can be bound to it; the watch then reports nothing new."""
    harness = leading()
    assert kinds(harness.send(PodAbsent(BIND))) == ["PodDeleted"]
    assert harness.send(PodGone("p1", 21)) == []
    assert "p1" not in harness.leader.engine.state.pods


def test_a_late_answer_does_not_bring_a_pod_back() -> None:
    """The watch had seen its end."""
    harness = leading()
    harness.commit(harness.send(PodGone("p1", 21)))
    assert harness.send(PodShown(BIND, PodSeen(make_pod(), 12))) == []
    assert "p1" not in harness.leader.engine.state.pods


def test_the_next_leader_redoes_an_open_intent() -> None:
    """Same node, same decision id; the version of its list, recorded first."""
    before = leading()
    harness = LeaderHarness(before)
    requests = harness.lead(make_node(), make_pod())
    assert offered(requests) == [
        records.TermBegan(epoch=2, token="02020202"),
        records.BindRetried(uid="p1", node="n1", attempt=1, resource_version=11),
    ]
    assert harness.commit(requests) == [BIND]


def test_the_next_leader_gives_up_an_intent_whose_room_is_taken() -> None:
    """It makes sure that nothing lands any more."""
    harness = LeaderHarness(leading())
    intruder = make_pod("intruder", cpu=4000, node_name="n1", scheduler_name="other")
    touch, append = harness.lead(make_node(), make_pod(), intruder)
    assert touch == TOUCH
    assert kinds([append]) == ["TermBegan", "PodAdded", "NodeOvercommitted"]
    assert harness.leader.counts["NodeOvercommitted"] == 1


@pytest.mark.row(9)
def test_a_log_of_0_1_learns_its_copy_at_the_first_term() -> None:
    """So a restored dump is noticed from then on."""
    first = LeaderHarness(timeline="7301/1")
    first.commit_all(first.lead(make_node()))
    upgraded = LeaderHarness(first, timeline="7301/1/5.40")
    requests = upgraded.lead(make_node())
    began = offered(requests)[0]
    assert isinstance(began, records.TermBegan)
    assert began.timeline == "7301/1/5.40"
    upgraded.commit_all(requests)
    again = LeaderHarness(upgraded, timeline="7301/1/5.40")
    requests = again.lead(make_node())
    [began] = offered(requests)
    assert isinstance(began, records.TermBegan)
    assert began.timeline == ""
    again.commit_all(requests)
    restored = LeaderHarness(again, timeline="7301/1/5.41")
    assert kinds(restored.lead(make_node())) == ["TermBegan", "HistoryLost"]


@pytest.mark.row(9)
def test_lost_history_voids_what_the_log_promises() -> None:
    """After all pods without a node were touched, and the cluster was listed once more."""
    harness = LeaderHarness(leading(), timeline="t2")
    assert harness.send(harness.acquired) == [ListCluster()]
    assert harness.send(listed(make_node(), make_pod())) == [TOUCH]
    assert harness.send(Relisted(Listing("Node", 25, ()), 20)) == []
    assert harness.send(Unknown(TOUCH)) == []
    assert harness.send(Tick(), after=1) == [TOUCH]
    assert harness.send(PodShown(TOUCH, PodSeen(make_pod(), 22)), after=1) == [ListCluster()]
    requests = harness.send(listed(make_node(), make_pod()), after=1)
    assert kinds(requests) == [
        "TermBegan", "BindVoided", "PodUnreserved", "PodQueued", "HistoryLost",
    ]  # fmt: skip
    assert offered(requests)[-1] == records.HistoryLost(timeline="t2")
    harness.commit(requests)
    assert LeaderHarness(harness, timeline="t2").lead(make_node(), make_pod())


def test_a_deposed_leader_is_silent() -> None:
    """Whatever it receives."""
    harness = leading()
    assert harness.send(Deposed("fenced")) == []
    assert harness.leader.stopped == "fenced"
    assert harness.leader.wake_at is None
    assert harness.send(Bound(BIND)) == []
    assert harness.send(PodSeen(make_pod("p2"), 21)) == []


def test_a_pod_that_comes_back_is_not_bound_before_its_new_decision_is_committed() -> None:
    """A restore of etcd brings it back under the same uid; the decision about its earlier life is
    committed only then."""
    harness = LeaderHarness()
    first = harness.lead(make_node(), make_pod())
    assert harness.send(PodGone("p1", 31)) == []
    assert harness.send(PodSeen(make_pod(), 32)) == []
    second = harness.commit(first)
    assert kinds(second) == ["PodDeleted", "PodAdded", "PodQueued", "PodDecided"]
    assert [type(each) for each in second] == [Append]
    [bind] = harness.commit(second)
    assert isinstance(bind, type(BIND))
    assert bind.decision != BIND.decision


def test_an_idle_leader_renews_its_term() -> None:
    """After two seconds, and soon again when there was no answer."""
    harness = leading()
    assert harness.leader.wake_at == NOW + HEARTBEAT
    assert harness.send(Tick(), after=2) == [Renew(harness.term)]
    assert harness.send(Tick(), after=3) == []
    assert harness.send(Unknown(Renew(harness.term)), after=3) == []
    assert harness.send(Tick(), after=3.2) == [Renew(harness.term)]
    assert harness.send(Renewed(), after=4) == []
    assert harness.leader.wake_at == NOW + 4 * SECOND + HEARTBEAT


def test_a_relisted_resource_is_compared_with_the_state() -> None:
    """The gap is in the log, then what has happened in it; older news are not taken in."""
    harness = leading()
    newer = NodeSeen(make_node("n2"), 25)
    requests = harness.send(Relisted(Listing("Node", 30, [newer]), 20))
    assert offered(requests) == [
        records.WatchRelisted(resource="Node", since=20, upto=30),
        records.NodeDeleted(name="n1"),
        records.NodeAdded(node=newer.node),
    ]
    assert harness.send(NodeSeen(make_node(), 28)) == []


def test_a_list_is_compared_with_the_state_for_all_resources() -> None:
    """Ends first, pods before what they need; then what pods need before pods."""
    harness = LeaderHarness()
    harness.commit(harness.lead(make_node(), make_pod(), Namespace(name="old")))
    requests = harness.send(listed(make_pod("p2"), make_node("n2"), Namespace(name="new")))
    kinds_of = [type(each).__name__ for each in offered(requests)]
    assert [kind for kind in kinds_of if kind not in ("PodQueued", "PodDecided")] == [
        "WatchRelisted", "WatchRelisted", "WatchRelisted",
        "PodDeleted", "NodeDeleted", "ObjectDeleted", "ObjectChanged", "NodeAdded", "PodAdded",
    ]  # fmt: skip


def test_other_objects_are_observed() -> None:
    """Each once, and their ends."""
    harness = LeaderHarness()
    harness.commit(harness.lead(Namespace(name="a")))
    requests = harness.send(ObjectSeen(Namespace(name="a", labels={"x": "y"}), 21))
    assert kinds(requests) == ["ObjectChanged"]
    assert harness.send(ObjectSeen(Namespace(name="a"), 20)) == []
    requests = harness.commit(requests) + harness.send(ObjectGone("Namespace", "", "a", 22))
    assert offered(requests) == [records.ObjectDeleted(type="Namespace", name="a")]


@pytest.mark.row(21)
def test_repeated_watch_events_are_ignored() -> None:
    """Neither is what is older than an answer of ours."""
    harness = leading()
    harness.commit(harness.send(PodSeen(make_pod("p2", labels={"a": "1"}), 21)))
    harness.commit(harness.send(PodSeen(make_pod("p2", labels={"a": "2"}), 22)))
    assert harness.send(PodSeen(make_pod("p2", labels={"a": "1"}), 21)) == []
    harness.commit(harness.send(PodShown(BIND, PodSeen(make_pod(labels={"a": "2"}), 25))))
    assert harness.send(PodSeen(make_pod(labels={"a": "1"}), 24)) == []
    assert harness.leader.engine.state.pods["p1"].pod.labels == {"a": "2"}


@pytest.mark.row(16)
def test_a_term_continues_from_the_time_of_the_log() -> None:
    """Time neither goes back nor stands still; it runs half as fast until the clock has it."""
    before = LeaderHarness()
    before.commit(before.lead(make_node()))
    harness = LeaderHarness(before)
    harness.leader.handle(harness.acquired, NOW - 3600 * SECOND)
    harness.leader.handle(listed(make_node()), NOW - 3598 * SECOND)
    assert harness.leader.engine.state.now == NOW + SECOND
    harness.leader.handle(Committed(), NOW - 3596 * SECOND)
    assert harness.leader.wake_at == NOW - 3596 * SECOND + 2 * HEARTBEAT
    harness.leader.handle(PodSeen(make_pod(), 21), NOW + 3599 * SECOND)
    assert harness.leader.engine.state.now == NOW + 3600 * SECOND - SECOND // 2
    harness.leader.handle(PodSeen(make_pod("p2"), 22), NOW + 3602 * SECOND)
    assert harness.leader.engine.state.now == NOW + 3602 * SECOND


def test_a_log_without_its_end_is_refused() -> None:
    """Its head says that there is more."""
    harness = LeaderHarness(leading())
    short = replace(harness.acquired, records=list(harness.acquired.records)[:-1])
    with pytest.raises(ValueError, match="its head says"):
        harness.send(short)
