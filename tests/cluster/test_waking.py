"""A pod that no node takes waits for what would help it; when that happens it is placed, long
before waiting pods are tried again anyway (which is after five minutes)."""

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from eventsched.domain.records import PodDecided
from tests.cluster.harness.client import JSON_PATCH, MERGE, Object, wait_for
from tests.cluster.harness.manifests import claim, mounted, node, pod, storage_class, taint, volume
from tests.cluster.harness.plane import ControlPlane
from tests.cluster.harness.pods import Pods
from tests.cluster.harness.scheduler import Schedulers

HOST = "kubernetes.io/hostname"


def near(app: str) -> Object:
    """Only beside a pod of an app."""
    found = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": app}}}
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [found]}}


def far(app: str) -> Object:
    """Only on nodes without a pod of an app."""
    found = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": app}}}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [found]}}


class Wait(NamedTuple):
    """A pod that waits, and what it waits for."""

    spec: dict[str, Any]
    change: Callable[[Pods], object]


def on(name: str, **spec: Any) -> dict[str, Any]:
    return {"nodeSelector": {HOST: name}, **spec}


def placed(pods: Pods, name: str, node: str, **spec: Any) -> Object:
    """A pod that another scheduler has put on a node."""
    made = pods.create(pod(name, scheduler="other", **spec))
    assert pods.client.bind(made, node).status == 201
    return made


def bound_claim(pods: Pods) -> None:
    """A claim whose volume is there, as the volume controller leaves it."""
    pods.client.create(storage_class("fixed"))
    made = volume("disk", "fixed")
    made["spec"]["claimRef"] = {"name": "data", "namespace": pods.namespace}
    pods.client.create(made)
    wanted = claim("data", "fixed", volume="disk")
    wanted["metadata"]["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
    pods.create(wanted)


def grown(pods: Pods) -> None:
    more = {"status": {"allocatable": {"cpu": "4"}, "capacity": {"cpu": "4"}}}
    pods.client.patch("Node", "small", more, subresource="status")


def patch_node(name: str, body: Object) -> Callable[[Pods], object]:
    return lambda pods: pods.client.patch("Node", name, body)


def patch_pod(name: str, *operations: Object) -> Callable[[Pods], object]:
    return lambda pods: pods.client.patch(
        "Pod", name, list(operations), pods.namespace, content_type=JSON_PATCH
    )


TOLERATES_RESERVED = {"key": "reserved", "operator": "Exists"}
WAITS = {
    "for a label of a node": Wait(
        {"nodeSelector": {"disk": "ssd"}},
        patch_node("a", {"metadata": {"labels": {"disk": "ssd"}}}),
    ),
    "for a taint to go": Wait(
        on("tainted"),
        lambda pods: pods.client.patch(
            "Node", "tainted", {"spec": {"taints": None}}, content_type=MERGE
        ),
    ),
    "for the end of a cordon": Wait(
        on("cordoned"), patch_node("cordoned", {"spec": {"unschedulable": False}})
    ),
    "for a larger node": Wait(on("small", cpu="3"), grown),
    "for a node": Wait(on("new"), lambda pods: pods.client.create(node("new"))),
    "for a pod to go": Wait(on("full", cpu="2"), lambda pods: pods.delete("fills")),
    "for a pod to come": Wait(
        {"affinity": near("db")}, lambda pods: placed(pods, "db", "a", labels={"app": "db"})
    ),
    "for a pod to change": Wait(
        on("loud", affinity=far("loud")),
        patch_pod("noise", {"op": "replace", "path": "/metadata/labels/app", "value": "quiet"}),
    ),
    "for a gate to open": Wait(
        {"schedulingGates": [{"name": "example.com/wait"}]},
        patch_pod("waits-for-a-gate-to-open", {"op": "remove", "path": "/spec/schedulingGates"}),
    ),
    "for a toleration of its own": Wait(
        on("reserved"),
        patch_pod(
            "waits-for-a-toleration-of-its-own",
            {"op": "add", "path": "/spec/tolerations/-", "value": TOLERATES_RESERVED},
        ),
    ),
    "for a claim": Wait({"volumes": mounted("data")}, bound_claim),
}


@pytest.fixture
def pods(plane: ControlPlane, namespace: str) -> Pods:
    """Nodes that each lack something."""
    for name in ("a", "cordoned", "small", "full", "loud"):
        plane.admin.create(node(name, cpu="2" if name == "small" else "4"))
    for name in ("tainted", "reserved"):
        plane.admin.create(node(name, taints=[taint("reserved")]))
    plane.admin.patch("Node", "cordoned", {"spec": {"unschedulable": True}})
    found = Pods(plane.admin, namespace)
    placed(found, "fills", "full", cpu="3")
    placed(found, "noise", "loud", labels={"app": "loud"})
    return found


def test_pods_wait_for_what_would_help_them(pods: Pods, schedulers: Schedulers) -> None:
    scheduler = schedulers.start()
    names = {wait: f"waits-{wait.replace(' ', '-')}" for wait in WAITS}
    for wait, name in names.items():
        pods.create(pod(name, **WAITS[wait].spec))
    for name in names.values():
        assert pods.wait_condition(name)["status"] == "False"

    for wait, name in names.items():
        assert pods.nodes()[name] == ""
        WAITS[wait].change(pods)
        assert pods.node(name), wait
    assert scheduler.metric("scheduler_pending_pods") == 0


def test_a_pod_that_is_being_deleted_is_not_placed(pods: Pods, schedulers: Schedulers) -> None:
    """A finalizer keeps it in the cluster."""
    waits = pod("waits", nodeSelector={"disk": "ssd"})
    waits["metadata"]["finalizers"] = ["example.com/hold"]
    scheduler = schedulers.start()
    made = pods.create(waits)
    pods.wait_condition("waits")
    pods.client.delete("Pod", "waits", pods.namespace)
    pods.client.patch("Node", "a", {"metadata": {"labels": {"disk": "ssd"}}})
    pods.create(pod("other", nodeSelector={"disk": "ssd"}))

    assert pods.node("other") == "a"
    assert "nodeName" not in pods.get("waits")["spec"]
    decided = [each for each in scheduler.log().of(PodDecided) if each.node]
    assert made["metadata"]["uid"] not in {each.uid for each in decided}
    nothing = {"metadata": {"finalizers": None}}
    pods.client.patch("Pod", "waits", nothing, pods.namespace, content_type=MERGE)
    wait_for(lambda: not scheduler.metric("scheduler_pending_pods"), "it is forgotten")
