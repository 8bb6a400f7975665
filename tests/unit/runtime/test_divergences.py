"""Pods that a list shows otherwise than the log are counted, by kind."""

import pytest

from eventsched.cluster.messages import Bound, Listing, PodSeen, Relisted
from eventsched.domain.objects import Pod
from eventsched.runtime.reconciliation.divergences import PodDivergence
from tests.builders import make_node, make_pod
from tests.leader_harness import BIND, LeaderHarness, leading


def bound() -> LeaderHarness:
    """A leader that has bound p1 to n1."""
    harness = leading()
    harness.commit(harness.send(Bound(BIND)))
    return harness


def waiting() -> LeaderHarness:
    """A leader whose pod p1 fits no node."""
    harness = LeaderHarness()
    harness.commit_all(harness.lead(make_pod()))
    return harness


def relisted(harness: LeaderHarness, *pods: Pod) -> dict[str, int]:
    """What a list of these pods, after a gap, adds to the counts of divergences."""
    seen = [PodSeen(pod, 40) for pod in pods]
    harness.send(Relisted(Listing("Pod", 50, seen), 20))
    counts = harness.leader.counts
    return {kind: counts[kind] for kind in PodDivergence if counts[kind]}


def test_a_bound_pod_is_on_another_node() -> None:
    harness = bound()
    assert relisted(harness, make_pod(node_name="n2")) == {PodDivergence.MOVED: 1}


def test_a_reserved_pod_was_bound_by_another_client() -> None:
    harness = leading()
    assert relisted(harness, make_pod(node_name="n2")) == {PodDivergence.TAKEN: 1}


def test_a_waiting_pod_was_bound_by_another_client() -> None:
    harness = waiting()
    assert relisted(harness, make_pod(node_name="n2")) == {PodDivergence.FOREIGN: 1}


def test_a_bound_pod_has_no_node_when_the_next_term_begins() -> None:
    """As after a restore of etcd."""
    harness = LeaderHarness(bound())
    harness.lead(make_node(), make_pod())
    assert harness.leader.counts[PodDivergence.UNBOUND] == 1


@pytest.mark.parametrize(
    ("harness", "pods"),
    [
        (bound, [make_pod(node_name="n1")]),
        (bound, []),
        (leading, [make_pod()]),
        (leading, [make_pod(node_name="n1")]),
        (waiting, [make_pod()]),
        (waiting, [make_pod("p2", node_name="n2")]),
    ],
    ids=["bound", "gone", "not bound yet", "just bound", "waiting", "unknown"],
)
def test_what_agrees_with_the_log_or_is_news(harness: type, pods: list[Pod]) -> None:
    """It is not counted."""
    assert relisted(harness(), *pods) == {}


def test_the_first_list_of_a_new_stream_has_no_divergence() -> None:
    harness = LeaderHarness()
    harness.lead(make_node(), make_pod(node_name="n1"))
    assert not [kind for kind in PodDivergence if harness.leader.counts[kind]]
