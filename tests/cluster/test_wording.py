"""What people read about a pod is what they would read if kube-scheduler had it: twins, one for
each scheduler, on one API server."""

import json
import re
from contextlib import suppress
from typing import Any

import pytest

from tests.cluster.harness.client import Object
from tests.cluster.harness.manifests import (
    SCHEDULER,
    UPSTREAM,
    mounted,
    node,
    pod,
    priority_class,
    taint,
)
from tests.cluster.harness.plane import ControlPlane
from tests.cluster.harness.pods import Pods
from tests.cluster.harness.scheduler import Schedulers
from tests.cluster.harness.servers import Server

IN_ZONE = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "taken"}}}


def required(**terms: Any) -> Object:
    """A pod's affinity."""
    key = "requiredDuringSchedulingIgnoredDuringExecution"
    return {"affinity": {kind: {key: value} for kind, value in terms.items()}}


def on_disk(*kinds: str) -> Object:
    match = {"key": "disk", "operator": "In", "values": list(kinds)}
    return required(nodeAffinity={"nodeSelectorTerms": [{"matchExpressions": [match]}]})


SPREAD = {
    "maxSkew": 1,
    "topologyKey": "zone",
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"app": "taken"}},
}
PORT = {"name": "app", "image": "app:1", "ports": [{"containerPort": 80, "hostPort": 80}]}
GPU = {"name": "app", "image": "app:1", "resources": {"limits": {"example.com/gpu": "2"}}}
FATES: dict[str, Object] = {
    "placed": {"nodeSelector": {"disk": "ssd"}, "tolerations": [{"operator": "Exists"}]},
    "too large": {"cpu": "100", "memory": "100Gi"},
    "no such node": {"nodeSelector": {"disk": "tape"}},
    "no such affinity": on_disk("tape", "drum"),
    "without a node by name": required(
        nodeAffinity={
            "nodeSelectorTerms": [
                {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["zz"]}]}
            ]
        }
    ),
    "tainted": on_disk("ssd"),
    "some of all": {"cpu": "3", **on_disk("hdd", "ssd")},
    "port taken": {"containers": [PORT], **on_disk("hdd")},
    "extended resource": {"containers": [GPU]},
    "no pod to be near": required(
        podAffinity=[{**IN_ZONE, "labelSelector": {"matchLabels": {"app": "nobody"}}}]
    ),
    "pods to be far from": required(podAntiAffinity=[IN_ZONE]),
    "too close": {"labels": {"app": "taken"}, "topologySpreadConstraints": [SPREAD], "cpu": "3"},
    "no topology": {"topologySpreadConstraints": [{**SPREAD, "topologyKey": "rack"}]},
    "no claim": {"volumes": mounted("lost")},
    "gated": {"schedulingGates": [{"name": "example.com/wait"}]},
    "never preempts": {"cpu": "3", "priorityClassName": "modest"},
}


@pytest.fixture
def pods(plane: ControlPlane, namespace: str) -> Pods:
    """Three nodes, with a pod each."""
    plane.admin.create(priority_class("modest", 10, preemptionPolicy="Never"))
    found = Pods(plane.admin, namespace)
    resources = {"requests": {"cpu": "2"}}
    taken = {"app": "taken"}
    for name, zone, disk in (("a", "x", "hdd"), ("b", "y", "hdd"), ("c", "y", "ssd")):
        taints = [taint("reserved", "db")] if disk == "ssd" else []
        plane.admin.create(node(name, labels={"zone": zone, "disk": disk}, taints=taints))
        containers = [{**PORT, "resources": resources}]
        made = found.create(pod(f"on-{name}", "", None, "nobody", taken, containers=containers))
        assert found.client.bind(made, name).status == 201
    return found


def test_both_schedulers_report_the_same(
    plane: ControlPlane, upstream: Server, pods: Pods, schedulers: Schedulers
) -> None:
    schedulers.start()
    reports = {}
    for scheduler in (UPSTREAM, SCHEDULER):
        for fate in FATES:
            name = f"{scheduler}-{fate.replace(' ', '-')}"
            pods.create(pod(name, scheduler=scheduler, **FATES[fate]))
        reports[scheduler] = {fate: reports_of(plane, pods, scheduler, fate) for fate in FATES}

    ours, theirs = reports[SCHEDULER], reports[UPSTREAM]
    assert {fate: (ours[fate], theirs[fate]) for fate in FATES if ours[fate] != theirs[fate]} == {}
    notes = {fate: [each["note"] for each in events] for fate, (events, *_) in ours.items()}
    assert notes.pop("gated") == []
    assert notes.pop("placed") == ["Successfully assigned NAMESPACE/POD to c"]
    assert all(note.startswith("0/3 nodes are available: ") for (note,) in notes.values())


class Words:
    """Replaces names of one pod in texts by common words."""

    def __init__(self, found: Object, scheduler: str) -> None:
        metadata = found["metadata"]
        own = {metadata["name"]: "POD", metadata["uid"]: "UID", metadata["namespace"]: "NAMESPACE"}
        self._own = {**own, scheduler: "SCHEDULER"}

    def common(self, text: str) -> str:
        """The text with the common words."""
        for mine, name in self._own.items():
            text = text.replace(mine, name)
        return text

    def event(self, event: Object) -> Object:
        """An Event's fields, except for times and metadata. That it happened again is left out, and
        the resourceVersion of the pod, which only upstream gives."""
        found = {key: value for key, value in event.items() if key not in _PASSING}
        found["regarding"].pop("resourceVersion", None)
        found["reportingInstance"] = re.sub("-.*", "-HOST", found["reportingInstance"])
        return dict(json.loads(self.common(json.dumps(found))))

    def description(self, text: str) -> list[str]:
        """What kubectl says, except for ages, the annotation with the decision, and later
        Events."""
        text = re.sub(rf"{_AGE}( \(x\d+ over {_AGE}\))?", "AGE", self.common(text))
        lines = re.sub("[ -]+", " ", text).splitlines()
        with suppress(ValueError):
            del lines[lines.index("Events:") + 4 :]
        return [line for line in lines if not line.startswith(("Annotations:", "Start Time:"))]


_AGE = r"\b(?:\d+[hms])+\b"
_PASSING = ("metadata", "eventTime", "series", "deprecatedLastTimestamp", "deprecatedCount")


def reports_of(
    plane: ControlPlane, pods: Pods, scheduler: str, fate: str
) -> tuple[list[Object], list[Object], list[str]]:
    """The first Event of a pod, its conditions and its description, once its outcome is known."""
    name = f"{scheduler}-{fate.replace(' ', '-')}"
    if fate == "placed":
        pods.node(name)
        pods.wait_event(name, "Scheduled")
    elif fate != "gated":
        pods.wait_event(name, "FailedScheduling")
    pods.wait_condition(name)
    found = pods.get(name)
    words = Words(found, scheduler)
    conditions = found["status"]["conditions"]
    for each in conditions:
        each["lastTransitionTime"] = re.sub(r"\d", "0", each["lastTransitionTime"])
    text = plane.kubectl("describe", "pod", name, f"--namespace={pods.namespace}")
    events = [words.event(each) for each in pods.events(name)[:1]]
    return events, conditions, words.description(text)
