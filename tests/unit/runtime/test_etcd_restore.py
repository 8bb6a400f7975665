"""A leader notices that the cluster was restored to an earlier state."""

from typing import Any

import pytest

from eventsched.cluster.messages import (
    Bound,
    ListCluster,
    Listed,
    Listing,
    NodeSeen,
    PodSeen,
    Relisted,
)
from eventsched.domain import records
from eventsched.domain.objects import Node, Pod
from eventsched.domain.records import Queue
from eventsched.runtime.leader.leader_messages import Request
from eventsched.runtime.reconciliation import etcd_restore
from tests.builders import make_node, make_pod
from tests.leader_harness import BIND, LeaderHarness, kinds, leading, offered


def bound() -> LeaderHarness:
    """A leader that has bound p1 to n1, and has seen n1 and p1 at 30 and 31."""
    harness = leading()
    harness.commit(harness.send(Bound(BIND)))
    harness.commit(harness.send(NodeSeen(make_node(labels={"new": "1"}), 30)))
    assert harness.send(PodSeen(make_pod(node_name="n1"), 31)) == []
    return harness


def pods(version: int, *seen: tuple[Pod, int]) -> Listing:
    """A list of pods, each at a version."""
    return Listing("Pod", version, [PodSeen(*each) for each in seen])


def nodes(version: int, *seen: tuple[Node, int]) -> Listing:
    """A list of nodes."""
    return Listing("Node", version, [NodeSeen(*each) for each in seen])


def asked(requests: list[Request]) -> list[Any]:
    """What is asked of the cluster."""
    return [each for each in requests if isinstance(each, ListCluster)]


@pytest.mark.row(30)
def test_a_pod_that_lost_its_node_is_scheduled_again() -> None:
    """The next leader sees it on none: what it had is free, and it comes again."""
    harness = LeaderHarness(bound())
    requests = harness.lead(make_node(), make_pod())
    assert kinds(requests) == [
        "TermBegan", "PodDeleted", "NodeUpdated", "PodAdded", "PodQueued", "PodDecided",
    ]  # fmt: skip
    [bind] = harness.commit(requests)
    assert isinstance(bind, type(BIND))
    assert (bind.uid, bind.resource_version) == ("p1", 11)
    assert bind.decision != BIND.decision
    harness.commit_all(harness.send(Bound(bind)))
    assert harness.leader.engine.state.pods["p1"].bound


def test_a_pod_whose_deletion_is_undone_is_scheduled() -> None:
    """It had been skipped, and nothing else would bring it back into a queue."""
    first = LeaderHarness()
    deleting = make_pod(deleting=True)
    first.commit_all(first.lead(make_node(), deleting))
    assert first.leader.engine.state.pods["p1"].queue is None
    harness = LeaderHarness(first)
    requests = harness.lead(make_node(), make_pod())
    assert kinds(requests)[:4] == ["TermBegan", "PodDeleted", "PodAdded", "PodQueued"]
    [bind] = harness.commit(requests)
    assert isinstance(bind, type(BIND))


@pytest.mark.row(30)
def test_a_pod_that_is_on_another_node_frees_the_one_in_the_log() -> None:
    """Another scheduler has bound p1 since: p2, which waited for room on n1, is bound there."""
    first = bound()
    first.commit_all(first.send(PodSeen(make_pod("p2", cpu=4000), 32)))
    assert first.leader.engine.state.pods["p2"].queue is Queue.UNSCHEDULABLE
    harness = LeaderHarness(first)
    moved = make_pod(node_name="n2")
    requests = harness.lead(make_node(), make_node("n2", cpu=1), moved, make_pod("p2", cpu=4000))
    assert kinds(requests) == [
        "TermBegan", "PodDeleted", "PodQueued", "NodeUpdated", "NodeAdded", "PodAdded",
        "NodeOvercommitted",
    ]  # fmt: skip


def test_a_pod_that_has_its_gate_again_begins_again() -> None:
    """A gate cannot be added. What the log has of its attempts, a nomination for example, is of a
    time that no longer exists."""
    first = LeaderHarness()
    first.commit_all(first.lead(make_node(cpu=1), make_pod()))
    assert first.leader.engine.state.pods["p1"].queue is Queue.UNSCHEDULABLE
    harness = LeaderHarness(first)
    requests = harness.lead(make_node(cpu=1), make_pod(gates=("wait",)))
    assert kinds(requests)[:4] == ["TermBegan", "PodDeleted", "PodAdded", "PodQueued"]


@pytest.mark.row(30)
@pytest.mark.parametrize("since", [31, 40])
def test_a_list_of_an_earlier_version_ends_the_term(since: int) -> None:
    """Though all its objects are what they were."""
    harness = bound()
    assert harness.send(Relisted(pods(30, (make_pod(), 11)), since)) == []
    assert harness.leader.stopped == etcd_restore.REASON
    later = LeaderHarness(harness)
    assert "PodDeleted" in kinds(later.lead(make_node(), make_pod()))


def test_a_requested_list_of_an_earlier_version_ends_the_term() -> None:
    """Of any resource."""
    harness = bound()
    found = Listed([nodes(29, (make_node(), 10)), pods(31, (make_pod(node_name="n1"), 31))])
    assert harness.send(found) == []
    assert harness.leader.stopped == etcd_restore.REASON


@pytest.mark.row(30)
@pytest.mark.parametrize("listing", [
    pods(1000, (make_pod(), 11)),
    nodes(1000, (make_node(), 10)),
])  # fmt: skip
def test_an_object_older_than_before_is_listed_again(listing: Listing) -> None:
    """Versions were raised after the restore: only the objects show it."""
    harness = bound()
    requests = harness.send(Relisted(listing, 31))
    assert asked(requests) == [ListCluster()]
    assert [each for each in kinds(requests) if each.startswith("Pod")] == []
    others = {"Pod": pods(1001, (make_pod(node_name="n1"), 31)),
              "Node": nodes(1001, (make_node(), 30))}  # fmt: skip
    others[listing.resource] = listing
    assert harness.send(Listed(list(others.values()))) == []
    assert harness.leader.stopped == etcd_restore.REASON


def test_an_answer_newer_than_a_list_does_not_end_the_term() -> None:
    """The bind was answered after the list was made: the next list says so."""
    harness = leading()
    harness.commit(harness.send(Bound(BIND)))
    requests = harness.send(Relisted(pods(25, (make_pod(), 11)), 20))
    assert asked(requests) == [ListCluster()]
    harness.commit(requests)
    after = Listed([nodes(26, (make_node(), 10)), pods(26, (make_pod(node_name="n1"), 26))])
    assert asked(harness.send(after)) == []
    assert harness.leader.leading
    assert harness.leader.engine.state.pods["p1"].bound


def test_only_one_list_is_under_way() -> None:
    """One answers all doubts that there were; the others wait for the next."""
    harness = bound()
    first = harness.send(Relisted(pods(1000, (make_pod(), 11)), 31))
    assert asked(first) == [ListCluster()]
    assert asked(harness.commit(first)) == []
    assert asked(harness.send(Relisted(nodes(1000, (make_node(), 10)), 31))) == []


def test_a_pod_that_the_restore_brought_back_is_added() -> None:
    """It had ended after the backup."""
    harness = LeaderHarness(bound())
    requests = harness.lead(make_node(), make_pod(node_name="n1"), make_pod("p0", node_name="n1"))
    assert [each.pod.uid for each in offered(requests) if isinstance(each, records.PodAdded)] == [
        "p0"
    ]
