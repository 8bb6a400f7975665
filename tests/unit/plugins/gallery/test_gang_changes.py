"""Coscheduling: the group, or the cluster, changes while some of the pods wait at Permit."""

import pytest

from eventsched.domain import records
from eventsched.domain.objects import Pod
from eventsched.domain.records import PodUnreserved, PreemptionDecided
from eventsched.plugins.default_preemption import DefaultPreemption
from eventsched.plugins.gallery.coscheduling import Coscheduling
from eventsched.plugins.node_resources_fit import NodeResourcesFit
from eventsched.scheduling.engine import Engine
from eventsched.scheduling.framework import Cycle
from eventsched.testing import typed
from tests.builders import added, attempted, engine_of, make_node, make_pod, observed
from tests.gangs import GANG, Room, engine, goes, member, placed, sent_back, settle, waits

OTHERS = "other-scheduler"


def two_waiting() -> Engine:
    """p1 and p2 wait for p3, which belongs to another scheduler."""
    made = engine(member("p1"), member("p2"), member("p3", scheduler_name=OTHERS))
    assert attempted(made) + attempted(made) == [waits("p1"), waits("p2")]
    return made


def test_another_scheduler_binds_the_one_that_was_missing() -> None:
    """Nothing is waited for any more."""
    made = two_waiting()
    bound = records.PodUpdated(pod=member("p3", scheduler_name=OTHERS, node_name="n1"))
    assert observed(made, bound) == [bound, *goes("p1", "p1"), *goes("p2", "p1")]


def test_fewer_are_needed() -> None:
    """As soon as all of them say so: the largest number counts."""
    made = two_waiting()
    one, two = (records.PodUpdated(pod=member(name, 2)) for name in ("p1", "p2"))
    last = records.PodUpdated(pod=member("p3", 2, scheduler_name=OTHERS))
    assert observed(made, one, two) == [one, two]
    assert observed(made, last) == [last, *goes("p1", "p1"), *goes("p2", "p1")]


FEW = "pod group default/g has 2 of the 3 pods that it needs"


def test_too_few_are_left() -> None:
    """A group that cannot go holds nothing."""
    made = two_waiting()
    gone = records.PodDeleted(uid="p3")
    assert observed(made, gone) == [
        gone,
        *sent_back("p1", FEW),
        *sent_back("p2", "pod group default/g goes together, default/p1 had to leave n1"),
    ]


def test_one_leaves_the_group() -> None:
    """It goes alone, and without it there are too few."""
    made = two_waiting()
    alone = records.PodUpdated(pod=make_pod("p1"))
    assert observed(made, alone) == [alone, *goes("p1", "p1"), *sent_back("p2", FEW)]


def test_a_node_goes_on_which_they_wait() -> None:
    """No pod is bound to it; they are tried again, and go elsewhere."""
    made = engine_of(typed(Coscheduling), Room())
    pods = [member(name) for name in ("p1", "p2", "p3")]
    observed(made, *added(make_node("n1", pods=2), make_node("n2", pods=2), *pods))
    attempted(made)
    home = made.state.pods["p1"].booked_node
    gone = records.NodeDeleted(name=home)
    back = PodUnreserved(uid="p1", node=home, plugin=GANG, message=f"node {home} is gone")
    assert observed(made, gone)[1] == back
    observed(made, *added(make_node("n3", pods=2)))
    settle(made)
    assert placed(made) == {"p1", "p2", "p3"}
    assert home not in {made.state.pods[pod.uid].booked_node for pod in pods}


@pytest.mark.parametrize("first", [True, False])
def test_a_pod_that_preempts_does_not_reject_its_group(first: bool) -> None:
    """Before or after Coscheduling in PostFilter: preemption helps the pod."""
    gang, others = typed(Coscheduling), (NodeResourcesFit(), DefaultPreemption())
    made = engine_of(*((gang, *others) if first else (*others, gang)))
    low = make_pod("low", cpu=1000, node_name="n2")
    observed(made, *added(make_node("n1", cpu=1000), make_node("n2", cpu=1000), low))
    observed(made, *added(*(important(name) for name in ("p1", "p2"))))
    attempted(made)
    assert made.state.reservations["p1"].waits
    said = attempted(made)
    assert [each.evicted for each in said if isinstance(each, PreemptionDecided)] == [("low",)]
    assert not [each for each in said if isinstance(each, PodUnreserved)]


def important(name: str) -> Pod:
    """A pod of 1 cpu in a group of two."""
    return member(name, 2, cpu=1000, priority=100)


def test_the_rejected_pods_of_a_group_do_not_reject_it_again() -> None:
    """In a group of a thousand this would be a million rejections."""
    rejecting: list[str] = []

    class Counting(Coscheduling):
        """Records the pods that reject their group."""

        def _reject_waiting(self, cycle: Cycle, pod: Pod, why: str) -> None:
            rejecting.append(pod.uid)
            super()._reject_waiting(cycle, pod, why)

    made = engine_of(typed(Counting), Room())
    observed(made, *added(make_node(pods=9), *(member(f"p{n}", 10) for n in range(10))))
    while not made.idle:
        attempted(made)
    assert not made.state.reservations
    assert rejecting == ["p9"]
