"""CapacityScheduling. The pods and quotas of the table cases are those of scheduler-plugins,
pkg/capacityscheduling/capacity_scheduling_test.go; what comes of them is worked out from its
rule."""

from typing import Any

import msgspec
import pytest

from eventsched.domain import records
from eventsched.domain.objects import Pod
from eventsched.domain.objects.registry import ElasticQuota
from eventsched.domain.records import PodDecided, PodQueued, PreemptionDecided, Queue
from eventsched.plugins.gallery.capacity_scheduling import CapacityScheduling
from eventsched.plugins.node_resources_fit import NodeResourcesFit
from eventsched.scheduling.engine import Engine
from eventsched.scheduling.preemption.victim_rules import LEAVING
from tests.builders import SECOND, added, attempted, engine_of, make_node, make_pod, observed
from tests.displacing import budget

MID, HIGH = 100, 1000
MAX = "Pod ns1/p1 is rejected in PreFilter because ElasticQuota ns1 is more than Max"
MIN = "Pod ns2/p1 is rejected in PreFilter because total ElasticQuota used is more than min"


def pod(name: str, namespace: str, memory: int, priority: int = 0, node: str = "",
        **fields: Any) -> Pod:  # fmt: skip
    """A pod that asks for memory alone."""
    return make_pod(
        name, cpu=0, memory=memory, namespace=namespace, priority=priority, node_name=node, **fields
    )


def quota(namespace: str, least: int, most: int | None) -> records.ObjectChanged:
    """A namespace's guarantee and limit of memory."""
    limit = None if most is None else {"memory": most}
    kept = ElasticQuota(name="q", namespace=namespace, min={"memory": least}, max=limit)
    return records.ObjectChanged(object=kept)


def engine(*stimuli: records.Stimulus, memory: int = 150, nodes: int = 1) -> Engine:
    """One whose nodes node-a, node-b… have so much memory."""
    made = engine_of(NodeResourcesFit(), CapacityScheduling())
    observed(made, *added(*(make_node(f"node-{n}", memory=memory) for n in "abc"[:nodes])))
    observed(made, *stimuli)
    return made


def decided(it: Engine) -> PodDecided:
    """The next attempt's decision."""
    return next(each for each in attempted(it) if isinstance(each, PodDecided))


def preempted(it: Engine) -> PreemptionDecided:
    """What the next attempt decides of other pods."""
    (found,) = [each for each in attempted(it) if isinstance(each, PreemptionDecided)]
    return found


# --- PreFilter ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "refusal"),
    [(500, ""), (1700, ""), (1701, MAX), (1800, MAX)],
)
def test_a_pod_beyond_its_namespaces_limit_is_refused(wanted: int, refusal: str) -> None:
    """300 of at most 2000 are in use."""
    it = engine(
        quota("ns1", 2000, 2000), *added(pod("used", "ns1", 300, node="node-a")),
        *added(pod("p1", "ns1", wanted, preemption_policy="Never")), memory=10_000,
    )  # fmt: skip
    found = decided(it)
    never = "not eligible due to preemptionPolicy=Never."
    assert found.message == (refusal and f"0/1 nodes are available: {refusal}. {never}")
    assert found.plugin == ("CapacityScheduling" if refusal else "")


def test_nobody_borrows_what_nobody_lends() -> None:
    """ns1 uses 1800 of the 2000 that both are guaranteed, ns2 200: 500 more are too many."""
    it = engine(
        quota("ns1", 1000, 2000), quota("ns2", 1000, 2000),
        *added(pod("a", "ns1", 1800, node="node-a"), pod("b", "ns2", 200, node="node-a")),
        *added(pod("p1", "ns2", 500, preemption_policy="Never")), memory=10_000,
    )  # fmt: skip
    assert decided(it).message.startswith(f"0/1 nodes are available: {MIN}.")


def test_a_namespace_without_a_quota_is_not_limited() -> None:
    """Whatever others have."""
    it = engine(quota("ns1", 1, 1), *added(pod("p1", "ns2", 500)), memory=10_000)
    assert decided(it).node == "node-a"


def test_a_reservation_counts_at_once_and_ends_with_it() -> None:
    """Between the decision and the bind, and when the bind is refused."""
    it = engine(quota("ns1", 100, 100), memory=10_000)
    observed(it, *added(pod("p1", "ns1", 60), pod("p2", "ns1", 60)))
    assert decided(it).node == "node-a"
    assert it.state.quotas.used("ns1") == {"memory": 60}
    assert decided(it).message.count("is more than Max") == 1
    failed = records.BindFailed(uid="p1", node="node-a", message="refused")
    made = observed(it, failed, at=SECOND)
    assert it.state.quotas.used("ns1") == {}
    assert [each.uid for each in made if isinstance(each, PodQueued)].count("p2") == 1


def test_nominated_pods_count() -> None:
    """Of the namespace those at least as important; of others those within the guarantee."""
    it = engine(
        quota("ns1", 100, 100), quota("ns2", 100, None),
        *added(pod("n1", "ns1", 60, MID, nominated_node="node-a")), memory=10_000,
    )  # fmt: skip
    assert it.judge(pod("p1", "ns1", 60, MID)).refusal is not None
    assert it.judge(pod("p1", "ns1", 60, HIGH)).refusal is None
    assert it.judge(pod("p1", "ns2", 140)).refusal is None
    assert it.judge(pod("p1", "ns2", 141)).refusal is not None


# --- preemption ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("quotas", "priorities", "victims"),
    [
        # 100 of 50 guaranteed: a pod of its own namespace has to go.
        ((("ns1", 50, 200), ("ns2", 200, 200)), (MID, MID, MID), ["t1-p1"]),
        ((("ns1", 50, 200), ("ns2", 200, 200)), (HIGH, MID, MID), None),
        # 100 of 150 guaranteed: the other namespace borrows 50.
        ((("ns1", 150, 200), ("ns2", 50, 200)), (MID, HIGH, MID), ["t1-p3"]),
        ((("ns1", 150, 200), ("ns2", 50, 200)), (MID, 9999, 9999), ["t1-p3"]),
        ((("ns1", 150, 200), ("ns2", 100, 200)), (MID, MID, MID), None),
        # Without quotas the least important goes, and among equals the one that came last.
        ((), (MID, MID, MID), ["t1-p3"]),
        ((), (HIGH, MID, HIGH), ["t1-p2"]),
        # A pod without a quota displaces no pod that has one.
        ((("ns2", 50, 200),), (MID, MID, MID), ["t1-p1"]),
        ((("ns2", 50, 200),), (HIGH, MID, MID), None),
    ],
)
def test_whom_a_pod_displaces(
    quotas: tuple[tuple[str, int, int], ...], priorities: tuple[int, ...],
    victims: list[str] | None,
) -> None:  # fmt: skip
    """A pod of ns1 on a node full of one pod of ns1 and two of ns2."""
    places = (("t1-p1", "ns1"), ("t1-p2", "ns2"), ("t1-p3", "ns2"))
    bound = [
        pod(name, namespace, 50, priority, "node-a")
        for (name, namespace), priority in zip(places, priorities, strict=True)
    ]
    it = engine(*(quota(*each) for each in quotas), *added(*bound, pod("p1", "ns1", 50, HIGH)))
    if victims is None:
        found = decided(it)
        assert found.message.endswith(
            "0/1 nodes are available: 1 No preemption victims found for incoming pod."
        )
        return
    found_ = preempted(it)
    assert (list(found_.victims), found_.node, found_.plugin) == (
        victims, "node-a", "CapacityScheduling",
    )  # fmt: skip


def test_a_borrower_is_displaced_though_it_is_more_important() -> None:
    """It is evicted, the pod that needs the room gets it, and the borrower waits for its turn."""
    it = engine(
        quota("ns1", 100, None), quota("ns2", 50, None),
        *added(*(pod(f"b{n}", "ns2", 50, 9999, "node-a") for n in range(3))),
        *added(pod("p1", "ns1", 50)),
    )  # fmt: skip
    assert preempted(it).evicted == ("b2",)
    assert it.state.preemptions.is_eviction_needed(it.state.pods["b2"].pod)
    observed(it, records.EvictionSucceeded(uid="b2"), at=SECOND)
    assert it.state.pods["p1"].queue is Queue.UNSCHEDULABLE
    observed(it, records.PodDeleted(uid="b2"), at=2 * SECOND)
    assert decided(it).node == "node-a"
    assert it.state.quotas.used("ns1") == {"memory": 50}
    observed(it, *added(pod("b3", "ns2", 50, 9999)), at=3 * SECOND)
    message = decided(it).message
    assert "total ElasticQuota used is more than min" in message


def test_a_quota_is_no_way_round_the_limit() -> None:
    """A less important pod is there, but without it the pod is beyond the limit all the same."""
    it = engine(
        quota("ns1", 50, 100), quota("ns2", 500, None),
        *added(pod("a", "ns1", 90, HIGH, "node-b"), pod("b", "ns1", 10, MID, "node-a")),
        *added(pod("p1", "ns1", 50, HIGH)), nodes=2, memory=1000,
    )  # fmt: skip
    assert decided(it).message == (
        f"0/2 nodes are available: {MAX}. 0/2 nodes are available: "
        "1 No preemption victims found for incoming pod, 1 global quota max exceeded."
    )


def test_pods_are_put_back_as_far_as_the_quota_allows() -> None:
    """Of three of the namespace two have to go, for the limit alone: the node has room."""
    bound = [pod(f"a{n}", "ns1", 30, priority, "node-a") for n, priority in enumerate((1, 3, 2))]
    it = engine(
        quota("ns1", 10, 100), quota("ns2", 500, None), *added(*bound),
        *added(pod("p1", "ns1", 50, HIGH)), memory=1000,
    )  # fmt: skip
    assert preempted(it).victims == ("a2", "a0")


def test_a_budget_is_spared_where_that_can_be() -> None:
    """Victims that the quota alone demands count as breaking a budget, too."""
    labels = {"app": "a"}
    guarded = pod("a0", "ns1", 60, MID, "node-a", labels=labels)
    other = pod("a1", "ns1", 60, MID + 1, "node-b")
    kept = msgspec.structs.replace(budget("a", 0), namespace="ns1")
    it = engine(
        quota("ns1", 60, 130), quota("ns2", 500, None), records.ObjectChanged(object=kept),
        *added(guarded, other, pod("p1", "ns1", 60, HIGH)), nodes=2, memory=1000,
    )  # fmt: skip
    found = preempted(it)
    assert (found.victims, found.violations, found.criterion) == (("a1",), 0, "violations")


@pytest.mark.parametrize(
    ("quotas", "namespace", "memory", "waits"),
    [
        # One of its own that is less important and leaving: wait.
        ((("ns1", 50, 150),), "ns1", 50, True),
        # One of another namespace that borrows.
        ((("ns1", 50, 150), ("ns2", 50, 150)), "ns2", 100, True),
        # That does not borrow.
        ((("ns1", 50, 150), ("ns2", 100, 150)), "ns2", 100, False),
        # Neither has a quota.
        ((), "ns2", 50, True),
        # Only the other has one.
        ((("ns2", 50, 150),), "ns2", 100, False),
        # Only the pod itself has one.
        ((("ns1", 50, 150),), "ns2", 100, False),
    ],
)
def test_a_nominated_pod_waits_for_those_that_leave(
    quotas: tuple[tuple[str, int, int], ...], namespace: str, memory: int, waits: bool
) -> None:
    """On its node, if they make room for it."""
    leaving = pod("t1-p0", namespace, memory, MID, "node-a", deleting=True)
    rest = pod("rest", "ns3", 150 - memory, 9999, "node-a")
    wanting = pod("p1", "ns1", 50, HIGH, nominated_node="node-a")
    it = engine(*(quota(*each) for each in quotas), *added(leaving, rest, wanting))
    assert (LEAVING in decided(it).message) is waits


# --- wake-ups -----------------------------------------------------------------------------


def waiting() -> Engine:
    """An engine in which p1 waits, refused by its namespace's quota."""
    it = engine(
        quota("ns1", 100, 100), quota("ns2", 100, None),
        *added(pod("a", "ns1", 80, MID, "node-a"), pod("b", "ns2", 20, MID, "node-a")),
        *added(pod("c", "ns3", 20, MID, "node-a"), pod("p1", "ns1", 50)), memory=1000,
    )  # fmt: skip
    assert decided(it).message.startswith(f"0/1 nodes are available: {MAX}.")
    assert it.state.pods["p1"].queue is Queue.UNSCHEDULABLE
    return it


@pytest.mark.parametrize(
    ("change", "is_woken"),
    [
        (records.PodDeleted(uid="a"), True),
        (records.PodDeleted(uid="b"), False),
        (records.PodDeleted(uid="c"), False),
        (records.PodUpdated(pod=pod("a", "ns1", 30, MID, "node-a")), True),
        (records.PodUpdated(pod=pod("a", "ns1", 80, MID, "node-a", labels={"a": "b"})), False),
        (quota("ns1", 100, 200), True),
        (quota("ns2", 200, None), False),
        (records.ObjectDeleted(type="ElasticQuota", namespace="ns1", name="q"), True),
        (records.PodUpdated(pod=pod("p1", "ns1", 10)), True),
        (records.PodUpdated(pod=pod("p1", "ns1", 50, labels={"a": "b"})), False),
    ],
)
def test_what_wakes_a_pod(change: records.Stimulus, is_woken: bool) -> None:
    """Changes of its own namespace, and others that let it pass."""
    it = waiting()
    observed(it, change, at=SECOND)
    assert (it.state.pods["p1"].queue is not Queue.UNSCHEDULABLE) is is_woken
