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
from eventsched.runtime.leader.retry_queue import PATIENCE
from tests.builders import SECOND, make_node, make_pod
from tests.desk import (
    BIND,
    GET,
    NOW,
    TOUCH,
    Desk,
    kinds,
    leading,
    listed,
    offered,
)


def test_the_first_term_of_a_stream() -> None:
    """It says how it began, takes in the cluster, and decides; the bind waits for the commit."""
    desk = Desk()
    requests = desk.lead(make_node(), make_pod())
    opening, term, *_ = offered(requests)
    assert opening == StreamStarted(format=1, engine="0", seed="s", timeline="t1")
    assert term == records.TermBegan(epoch=1, token="01010101")
    assert kinds(requests)[2:5] == ["NodeAdded", "PodAdded", "PodQueued"]
    assert kinds(requests)[-1] == "PodDecided"
    [append] = requests
    assert isinstance(append, Append)
    assert append.batch.mark == b'{"seen":{"Namespace":20,"Node":20,"Pod":20},"reported":0}'
    intent = len(offered(requests)) - 1
    [bind] = desk.commit(requests)
    assert bind == BindPod("p1", "default", "p1", "n1", 11, f"main/{intent}@01010101")


def test_after_an_unknown_outcome_the_same_batch_is_offered_again() -> None:
    """Also when there is more to say meanwhile."""
    desk = Desk()
    [append] = desk.lead(make_node(), make_pod())
    assert desk.tell(Unknown(append)) == []
    assert desk.tell(PodSeen(make_pod("p2"), 21)) == []
    assert desk.leader.wake_at == NOW + PATIENCE
    assert desk.tell(Tick(), after=1) == [append]


def test_the_next_batch_is_computed_while_one_commits() -> None:
    """It leaves with the binds of the one before."""
    desk = Desk()
    first = desk.lead(make_node(), make_pod())
    assert desk.tell(PodSeen(make_pod("p2"), 21)) == []
    bind, append = desk.commit(first)
    assert isinstance(bind, BindPod)
    assert kinds([append])[0] == "PodAdded"
    assert kinds([append])[-1] == "PodDecided"


def test_a_bind_that_succeeds() -> None:
    """Its echo in the watch is no news."""
    desk = leading()
    requests = desk.tell(Bound(BIND))
    assert kinds(requests) == ["BindSucceeded", "PodBound"]
    assert desk.commit(requests) == []
    assert desk.tell(PodSeen(make_pod(node_name="n1"), 21)) == []


def test_a_bind_without_an_answer_is_looked_up_and_sent_again() -> None:
    """The same one: the pod has not changed."""
    desk = leading()
    assert desk.tell(Unknown(BIND)) == []
    assert desk.tell(Tick(), after=1) == [GET]
    assert desk.tell(PodShown(GET, PodSeen(make_pod(), 11)), after=1) == [BIND]


def test_a_bind_without_an_answer_that_has_landed() -> None:
    """The pod shows it."""
    desk = leading()
    desk.tell(Unknown(BIND))
    desk.tell(Tick(), after=1)
    requests = desk.tell(PodShown(GET, PodSeen(make_pod(node_name="n1"), 12)), after=1)
    assert kinds(requests) == ["PodUpdated", "PodBound"]


def test_a_changed_pod_is_bound_with_its_new_version_once_that_is_committed() -> None:
    """With the same decision id."""
    desk = leading()
    changed = make_pod(labels={"a": "b"})
    requests = desk.tell(PodShown(BIND, PodSeen(changed, 12)))
    assert offered(requests)[1:] == [
        records.BindRetried(uid="p1", node="n1", attempt=1, resource_version=12)
    ]
    assert len(requests) == 1
    [bind] = desk.commit(requests)
    assert bind == BindPod("p1", "default", "p1", "n1", 12, BIND.decision)


def test_an_intent_whose_node_is_gone_is_given_up_after_a_touch() -> None:
    """And the pod is decided anew after its backoff."""
    desk = leading()
    desk.commit(desk.tell(NodeGone("n1", 21)))
    assert desk.tell(Unknown(BIND)) == []
    assert desk.tell(Tick(), after=1) == [GET]
    assert desk.tell(PodShown(GET, PodSeen(make_pod(), 11)), after=1) == [TOUCH]
    requests = desk.tell(PodShown(TOUCH, PodSeen(make_pod(), 22)), after=1)
    voided, unreserved, queued = offered(requests)
    assert voided == records.BindVoided(
        uid="p1", node="n1", attempt=1, reason="the node is gone", resource_version=22
    )
    assert isinstance(unreserved, records.PodUnreserved)
    assert isinstance(queued, records.PodQueued)
    assert queued.cause == "BindVoided"


def test_an_intent_is_given_up_after_some_binds() -> None:
    """None of them was answered."""
    desk = leading()
    for number in range(4):
        desk.tell(Unknown(BIND), after=number)
        assert desk.tell(Tick(), after=number + 0.5) == [GET]
        [following] = desk.tell(PodShown(GET, PodSeen(make_pod(), 11)), after=number + 0.5)
        assert following == (TOUCH if number == 3 else BIND)


def test_a_pod_that_is_gone_needs_no_fence() -> None:
    """Nothing can be bound to it; the watch then tells nothing new."""
    desk = leading()
    assert kinds(desk.tell(PodAbsent(BIND))) == ["PodDeleted"]
    assert desk.tell(PodGone("p1", 21)) == []
    assert "p1" not in desk.leader.engine.state.pods


def test_a_late_answer_does_not_bring_a_pod_back() -> None:
    """The watch had seen its end."""
    desk = leading()
    desk.commit(desk.tell(PodGone("p1", 21)))
    assert desk.tell(PodShown(BIND, PodSeen(make_pod(), 12))) == []
    assert "p1" not in desk.leader.engine.state.pods


def test_the_next_leader_redoes_an_open_intent() -> None:
    """Same node, same decision id; the version of its list, recorded first."""
    before = leading()
    desk = Desk(before)
    requests = desk.lead(make_node(), make_pod())
    assert offered(requests) == [
        records.TermBegan(epoch=2, token="02020202"),
        records.BindRetried(uid="p1", node="n1", attempt=1, resource_version=11),
    ]
    assert desk.commit(requests) == [BIND]


def test_the_next_leader_does_not_redo_where_somebody_else_took_the_room() -> None:
    """It makes sure that nothing lands any more."""
    desk = Desk(leading())
    intruder = make_pod("intruder", cpu=4000, node_name="n1", scheduler_name="other")
    touch, append = desk.lead(make_node(), make_pod(), intruder)
    assert touch == TOUCH
    assert kinds([append]) == ["TermBegan", "PodAdded", "NodeOvercommitted"]
    assert desk.leader.counts["NodeOvercommitted"] == 1


@pytest.mark.row(9)
def test_lost_history_voids_what_the_log_promises() -> None:
    """After all pods without a node were touched, and the cluster was listed once more."""
    desk = Desk(leading(), timeline="t2")
    assert desk.tell(desk.acquired) == [ListCluster()]
    assert desk.tell(listed(make_node(), make_pod())) == [TOUCH]
    assert desk.tell(Relisted(Listing("Node", 25, ()), 20)) == []
    assert desk.tell(Unknown(TOUCH)) == []
    assert desk.tell(Tick(), after=1) == [TOUCH]
    assert desk.tell(PodShown(TOUCH, PodSeen(make_pod(), 22)), after=1) == [ListCluster()]
    requests = desk.tell(listed(make_node(), make_pod()), after=1)
    assert kinds(requests) == [
        "TermBegan", "BindVoided", "PodUnreserved", "PodQueued", "HistoryLost",
    ]  # fmt: skip
    assert offered(requests)[-1] == records.HistoryLost(timeline="t2")
    desk.commit(requests)
    assert Desk(desk, timeline="t2").lead(make_node(), make_pod())


def test_a_deposed_leader_is_silent() -> None:
    """Whatever it is told."""
    desk = leading()
    assert desk.tell(Deposed("fenced")) == []
    assert desk.leader.stopped == "fenced"
    assert desk.leader.wake_at is None
    assert desk.tell(Bound(BIND)) == []
    assert desk.tell(PodSeen(make_pod("p2"), 21)) == []


def test_an_idle_leader_asks_whether_it_still_is_one() -> None:
    """After two seconds, and soon again when there was no answer."""
    desk = leading()
    assert desk.leader.wake_at == NOW + HEARTBEAT
    assert desk.tell(Tick(), after=2) == [Renew(desk.term)]
    assert desk.tell(Tick(), after=3) == []
    assert desk.tell(Unknown(Renew(desk.term)), after=3) == []
    assert desk.tell(Tick(), after=3.2) == [Renew(desk.term)]
    assert desk.tell(Renewed(), after=4) == []
    assert desk.leader.wake_at == NOW + 4 * SECOND + HEARTBEAT


def test_after_a_gap_in_a_watch_its_resource_is_compared() -> None:
    """The gap is in the log, then what has happened in it; older news are not taken in."""
    desk = leading()
    newer = NodeSeen(make_node("n2"), 25)
    requests = desk.tell(Relisted(Listing("Node", 30, [newer]), 20))
    assert offered(requests) == [
        records.WatchRelisted(resource="Node", since=20, upto=30),
        records.NodeDeleted(name="n1"),
        records.NodeAdded(node=newer.node),
    ]
    assert desk.tell(NodeSeen(make_node(), 28)) == []


def test_a_list_says_of_all_resources_what_is_news() -> None:
    """Ends first, pods before what they need; then what pods need before pods."""
    desk = Desk()
    desk.commit(desk.lead(make_node(), make_pod(), Namespace(name="old")))
    requests = desk.tell(listed(make_pod("p2"), make_node("n2"), Namespace(name="new")))
    kinds_of = [type(each).__name__ for each in offered(requests)]
    assert [kind for kind in kinds_of if kind not in ("PodQueued", "PodDecided")] == [
        "WatchRelisted", "WatchRelisted", "WatchRelisted",
        "PodDeleted", "NodeDeleted", "ObjectDeleted", "ObjectChanged", "NodeAdded", "PodAdded",
    ]  # fmt: skip


def test_other_objects_are_observed() -> None:
    """Each once, and their ends."""
    desk = Desk()
    desk.commit(desk.lead(Namespace(name="a")))
    requests = desk.tell(ObjectSeen(Namespace(name="a", labels={"x": "y"}), 21))
    assert kinds(requests) == ["ObjectChanged"]
    assert desk.tell(ObjectSeen(Namespace(name="a"), 20)) == []
    requests = desk.commit(requests) + desk.tell(ObjectGone("Namespace", "", "a", 22))
    assert offered(requests) == [records.ObjectDeleted(type="Namespace", name="a")]


@pytest.mark.row(21)
def test_what_a_watch_repeats_is_no_news() -> None:
    """Neither is what is older than an answer of ours."""
    desk = leading()
    desk.commit(desk.tell(PodSeen(make_pod("p2", labels={"a": "1"}), 21)))
    desk.commit(desk.tell(PodSeen(make_pod("p2", labels={"a": "2"}), 22)))
    assert desk.tell(PodSeen(make_pod("p2", labels={"a": "1"}), 21)) == []
    desk.commit(desk.tell(PodShown(BIND, PodSeen(make_pod(labels={"a": "2"}), 25))))
    assert desk.tell(PodSeen(make_pod(labels={"a": "1"}), 24)) == []
    assert desk.leader.engine.state.pods["p1"].pod.labels == {"a": "2"}


@pytest.mark.row(16)
def test_a_clock_that_is_behind_the_log_goes_on_from_there() -> None:
    """Time neither goes back nor stands still; it runs half as fast until the clock has it."""
    before = Desk()
    before.commit(before.lead(make_node()))
    desk = Desk(before)
    desk.leader.handle(desk.acquired, NOW - 3600 * SECOND)
    desk.leader.handle(listed(make_node()), NOW - 3598 * SECOND)
    assert desk.leader.engine.state.now == NOW + SECOND
    desk.leader.handle(Committed(), NOW - 3596 * SECOND)
    assert desk.leader.wake_at == NOW - 3596 * SECOND + 2 * HEARTBEAT
    desk.leader.handle(PodSeen(make_pod(), 21), NOW + 3599 * SECOND)
    assert desk.leader.engine.state.now == NOW + 3600 * SECOND - SECOND // 2
    desk.leader.handle(PodSeen(make_pod("p2"), 22), NOW + 3602 * SECOND)
    assert desk.leader.engine.state.now == NOW + 3602 * SECOND


def test_a_log_without_its_end_is_refused() -> None:
    """Its head says that there is more."""
    desk = Desk(leading())
    short = replace(desk.acquired, records=list(desk.acquired.records)[:-1])
    with pytest.raises(ValueError, match="its head says"):
        desk.tell(short)
