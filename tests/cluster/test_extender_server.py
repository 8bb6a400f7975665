"""kube-scheduler as it is, with ``eventsched extender`` as its extender: pods go where the plugins
say, and the log has every question and answer."""

import pytest

from eventsched.domain.records import (
    BindIntended,
    ExtenderInquired,
    ExtenderReplied,
    PodBound,
    PodDecided,
    PodQueued,
)
from tests.cluster.harness.asking import both, grouped
from tests.cluster.harness.client import wait_for
from tests.cluster.harness.manifests import UPSTREAM, node, priority_class
from tests.cluster.harness.plane import ControlPlane
from tests.cluster.harness.pods import Pods
from tests.cluster.harness.scheduler import Schedulers


@pytest.mark.parametrize("caches", [True, False])
def test_kube_scheduler_asks_and_binds(
    plane: ControlPlane, schedulers: Schedulers, namespace: str, caches: bool
) -> None:
    pods = Pods(plane.admin, namespace)
    for name in ("a0", "b0", "b1", "b2"):
        pods.client.create(node(name, labels={"nodeGroup": name[0]}))
    with both(plane, schedulers, nodeCacheCapable=caches) as extender:
        for name in ("one", "two"):
            pods.create(grouped(name, "b"))
            assert pods.node(name) == "b1"
        pods.create(grouped("nowhere", "c"))
        condition = pods.wait_condition("nowhere")
        assert condition["message"].startswith("0/4 nodes are available: 4 ")
        log = extender.log()
        assert {each.verb for each in log.of(ExtenderInquired)} == {"filter", "prioritize"}
        assert not [each.problem for each in log.of(ExtenderReplied) if each.problem]
        assert not log.of(PodDecided)
        assert not log.of(PodQueued)
        counted = extender.metric(
            "eventsched_extender_inquiries_total", verb="filter", result="answer"
        )
        assert counted >= 3


def test_kube_scheduler_has_it_bind(
    plane: ControlPlane, schedulers: Schedulers, namespace: str
) -> None:
    pods = Pods(plane.admin, namespace)
    for name in ("b0", "b1"):
        pods.client.create(node(name, labels={"nodeGroup": "b"}))
    with both(plane, schedulers, nodeCacheCapable=True, bindVerb="bind") as extender:
        names = [f"web-{number}" for number in range(5)]
        for name in names:
            pods.create(grouped(name, "b"))
        assert [pods.node(name) for name in names] == ["b1"] * 5
        wait_for(lambda: len(extender.log().of(PodBound)) == 5, "5 are bound")
        log = extender.log()
        assert [each.node for each in log.of(BindIntended)] == ["b1"] * 5
        # kube-scheduler may see a pod first, and then asks again.
        problems = {each.problem for each in log.of(ExtenderReplied) if each.problem}
        assert problems <= {"the pod is not known (yet)"}
        told = pods.wait_event("web-0", "Scheduled")
        assert told["reportingController"] == UPSTREAM


def test_kube_scheduler_asks_whose_eviction_would_help(
    plane: ControlPlane, schedulers: Schedulers, namespace: str
) -> None:
    """Both nodes are full of less important pods; on one of them the pod would not be let in."""
    pods = Pods(plane.admin, namespace)
    plane.admin.create(priority_class("important", 1000))
    for group in "ab":
        plane.admin.create(node(f"{group}0", "1", labels={"nodeGroup": group}))
        filler = pods.create(grouped(f"filler-{group}", group, cpu="900m"))
        filler["metadata"]["annotations"] = {}
        assert plane.admin.bind(filler, f"{group}0").status == 201
    with both(plane, schedulers, nodeCacheCapable=True, preemptVerb="preempt") as extender:
        pods.create(grouped("web", "b", cpu="500m", priorityClassName="important"))
        assert pods.node("web", 60.0) == "b0"
        assert set(pods.nodes()) == {"filler-a", "web"}
        log = extender.log()
        asked = [each for each in log.of(ExtenderInquired) if each.verb == "preempt"]
        told = [each for each in log.of(ExtenderReplied) if each.verb == "preempt"]
        assert set(asked[0].candidates) == {"a0", "b0"}
        assert {node for each in told for node in each.victims} == {"b0"}
