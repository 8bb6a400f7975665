"""A pod that asks for too much work, on a real API server: it is parked with the reason, counted,
and the others go on; what is left of it can be placed."""

from functools import partial

from eventsched.domain.records import MoveCause, PodDecided, PodQueued
from eventsched.runtime.effects.event_drafts import WORK_BUDGET_EXCEEDED as REASON
from tests.cluster.harness.client import Object, wait_for
from tests.cluster.harness.manifests import node, pod
from tests.cluster.harness.plane import ControlPlane
from tests.cluster.harness.pods import Pods
from tests.cluster.harness.scheduler import Schedulers

METRIC = "eventsched_over_budget_pods_total"


def spread(count: int) -> list[Object]:
    return [
        {
            "maxSkew": 1,
            "topologyKey": f"example.com/key-{number}",
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": {"app": "hostile"}},
        }
        for number in range(count)
    ]


def test_a_pod_over_its_budget_is_parked_and_the_others_go_on(
    plane: ControlPlane, schedulers: Schedulers, namespace: str
) -> None:
    plane.admin.create(node("n1", cpu="64"))
    pods = Pods(plane.admin, namespace)
    scheduler = schedulers.start().leads()
    hostile = pods.create(pod("hostile", topologySpreadConstraints=spread(2_000)))
    for number in range(10):
        pods.create(pod(f"innocent-{number}"))
    for number in range(10):
        assert pods.node(f"innocent-{number}") == "n1"
    said = pods.wait_condition("hostile")
    assert (said["status"], said["reason"]) == ("False", REASON)
    assert said["message"].startswith("the pod asks for more work than the budget of an attempt")
    assert "workBudget is 4,000,000" in said["message"]
    assert pods.wait_event("hostile", "FailedScheduling")["note"] == said["message"]
    wait_for(partial(scheduler.metric, METRIC), "it is counted")
    uid = hostile["metadata"]["uid"]
    log = scheduler.log()
    assert [(each.attempt, each.node) for each in log.of(PodDecided) if each.uid == uid] == [
        (1, "")
    ]
    causes = [each.cause for each in log.of(PodQueued) if each.uid == uid]
    assert causes == ["PodAdd", MoveCause.OVER_BUDGET]
    # Its owner makes it smaller: another pod of the same name.
    pods.delete("hostile")
    pods.create(pod("hostile", topologySpreadConstraints=spread(20)))
    assert pods.node("hostile") == "n1"
    assert scheduler.stop() == 0


def test_a_larger_budget_lets_it_pass(
    plane: ControlPlane, schedulers: Schedulers, namespace: str
) -> None:
    """With none it is an attempt like any other."""
    plane.admin.create(node("n1", cpu="64"))
    pods = Pods(plane.admin, namespace)
    schedulers.start(settings={"workBudget": 0}).leads()
    pods.create(pod("hostile", topologySpreadConstraints=spread(2_000)))
    assert pods.node("hostile") == "n1"
