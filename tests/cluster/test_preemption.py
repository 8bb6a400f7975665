"""A pod preempts others of lower priority as kube-scheduler would, with the same Events and
conditions."""

import re
from typing import Any

import pytest

from eventsched.domain.records import EvictionSucceeded, PreemptionDecided
from tests.cluster.harness.client import Object, wait_for
from tests.cluster.harness.manifests import SCHEDULER, UPSTREAM, budget, node, pod, priority_class
from tests.cluster.harness.plane import ControlPlane
from tests.cluster.harness.pods import EVENT, Pods, condition
from tests.cluster.harness.scheduler import Schedulers
from tests.cluster.harness.servers import Server


@pytest.fixture
def pods(plane: ControlPlane, namespace: str) -> Pods:
    """Two nodes, each with room for one pod of 3 CPUs, and priorities by value."""
    for name in "ab":
        plane.admin.create(node(name))
    for value in (1, 10, 50, 100):
        plane.admin.create(priority_class(f"p{value}", value))
    return Pods(plane.admin, namespace)


def resident(pods: Pods, name: str, node: str, priority: int, **more: Any) -> Object:
    """A pod of 3 CPUs on a node. After its deletion it stays terminating until it is deleted with
    no grace period."""
    manifest = pod(name, cpu="3", scheduler="other", priorityClassName=f"p{priority}", **more)
    manifest["spec"]["terminationGracePeriodSeconds"] = 60
    made = accepted(pods, manifest)
    assert pods.client.bind(made, node).status == 201
    return made


def accepted(pods: Pods, manifest: Object) -> Object:
    """A pod that was created once the API server had heard of its priority class itself."""
    return wait_for(lambda: pods.create(manifest), "its priority class is known")


def incoming(pods: Pods, name: str, scheduler: str, priority: int) -> Object:
    wanted = pod(name, cpu="3", scheduler=scheduler, priorityClassName=f"p{priority}")
    return accepted(pods, wanted)


def is_leaving(found: Object) -> bool:
    return "deletionTimestamp" in found["metadata"]


def nominated(pods: Pods, name: str) -> str:
    """Where a pod is to go when the others have left."""
    return str(pods.get(name)["status"].get("nominatedNodeName", ""))


def story(pods: Pods, scheduler: str) -> list[object]:
    """The Events and conditions when a pod preempts the one of lowest priority, which terminates
    slowly; and the results for it and for a pod that arrives later."""
    victim = resident(pods, "victim", "a", 1)
    resident(pods, "other", "b", 50)
    high = incoming(pods, "high", scheduler, 100)
    wait_for(lambda: is_leaving(pods.get("victim")), "the victim has to leave")
    wait_for(lambda: nominated(pods, "high"), "the pod is nominated")
    event = pods.wait_event("victim", "Preempted")
    failure = pods.wait_event("high", "FailedScheduling")
    assert not is_leaving(pods.get("other"))
    told: list[object] = [
        nominated(pods, "high"),
        condition(pods.get("victim"), "DisruptionTarget"),
        of_any_attempt(pods.wait_condition("high")),
        *[{key: each.get(key) for key in EVENT_FIELDS} for each in (event, failure)],
    ]

    incoming(pods, "late", scheduler, 10)
    told.append(pods.wait_condition("late"))
    assert pods.get("victim")["metadata"]["uid"] == victim["metadata"]["uid"]
    pods.delete("victim")
    told.append(pods.node("high"))
    assert "nodeName" not in pods.get("late")["spec"]
    own = {high["metadata"]["uid"]: "HIGH", victim["metadata"]["uid"]: "VICTIM"}
    return [common(each, {**own, pods.namespace: "NAMESPACE", scheduler: "NAME"}) for each in told]


def of_any_attempt(found: Object) -> Object:
    """A condition without what another attempt adds while the victim leaves: that the pod may not
    preempt again."""
    return {**found, "message": found["message"].partition(" no new claims to deallocate")[0]}


EVENT_FIELDS = ("reportingController", "action", "reason", "type", "regarding", "note")
"""Not ``related``: v1.36 loses the preemptor there (podExecutorPreemptor.Obj gives itself)."""


def common(found: object, own: dict[str, str]) -> object:
    """The same without what is this story's own: names, times, decisions."""
    match found:
        case dict():
            return {
                key: common(each, own)
                for key, each in found.items()
                if key not in ("lastTransitionTime", "resourceVersion")
            }
        case str():
            for mine, name in own.items():
                found = found.replace(mine, name)
            return re.sub(r" \(\S+/\d+@\w+\)", "", found)
    return found


def test_preemption_is_reported_as_upstream_does(
    plane: ControlPlane, upstream: Server, pods: Pods, schedulers: Schedulers
) -> None:
    theirs = story(pods, UPSTREAM)
    plane.discard(upstream)
    for each in pods.all():
        pods.delete(each["metadata"]["name"])
    pods.client.delete_all(EVENT, pods.namespace)
    scheduler = schedulers.start()
    ours = story(pods, SCHEDULER)

    assert ours == theirs
    (event,) = pods.events("victim", "Preempted")
    assert event["related"]["uid"] == pods.get("high")["metadata"]["uid"]
    log = scheduler.log()
    (decided,) = log.of(PreemptionDecided)
    assert [log.names[uid] for uid in decided.victims] == [f"{pods.namespace}/victim"]
    assert [each.uid for each in log.of(EvictionSucceeded)] == list(decided.victims)


def test_a_budget_is_kept_where_another_node_will_do(
    controllers: ControlPlane, pods: Pods, schedulers: Schedulers
) -> None:
    """The more important pod has to go, since nothing guards it. Its kubelet takes no time."""
    pods.create(budget("guard", {"app": "db"}, available=1))
    resident(pods, "guarded", "a", 1, labels={"app": "db"})
    resident(pods, "free", "b", 50)
    pods.wait_running(2)

    def is_healthy() -> bool:
        found = pods.client.get("PodDisruptionBudget", "guard", pods.namespace)
        return bool(found.get("status", {}).get("currentHealthy"))

    wait_for(is_healthy, "the budget counts its pod")
    schedulers.start()
    incoming(pods, "high", SCHEDULER, 100)
    pods.wait(lambda found: {each["metadata"]["name"] for each in found} == {"guarded", "high"}, "")

    pods.wait_running(2)
    assert pods.nodes() == {"guarded": "a", "high": "b"}


def test_a_budget_is_broken_where_nothing_else_will_do(
    controllers: ControlPlane, pods: Pods, schedulers: Schedulers
) -> None:
    """As upstream does it: budgets are kept if possible."""
    pods.create(budget("guard", {"app": "db"}, available=2))
    for name in "ab":
        resident(pods, f"guarded-{name}", name, 1, labels={"app": "db"})
    pods.wait_running(2)
    scheduler = schedulers.start()
    incoming(pods, "high", SCHEDULER, 100)

    chosen = pods.node("high")
    pods.wait_running(2)
    (decided,) = scheduler.log().of(PreemptionDecided)
    assert (decided.node, decided.violations) == (chosen, 1)
