"""What the named rules are written in: nodes, pods, and kinds made of rules."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from tests.conformance.oracle.clusters import HOSTNAME, ZONE, Obj
from tests.conformance.oracle.kinds import namespaces

Rule = Callable[[random.Random], Obj]
Cluster = Callable[[random.Random], list[Obj]]
T = TypeVar("T")
PODS = 6  # a scenario
DEFAULT_ROOM = {"cpu": "8", "memory": "16Gi", "pods": "110", "ephemeral-storage": "50Gi"}


@dataclass(frozen=True)
class Kind:
    """A kind of scenario whose pods are the rules that are to be reached, each under its name.

    Scenario after scenario takes the next rules of the list, the next configuration, and the next
    cluster if there are several.
    """

    name: str
    cluster: Cluster | Sequence[Cluster]
    rules: Mapping[str, Rule]
    configs: Sequence[str] = field(default=("",))
    preempt: bool = False

    def scenario(self, number: int) -> Obj:
        """The scenario of a number, which counts from 1: always the same."""
        r = random.Random(f"{self.name}/{number}")
        objects = namespaces() + self.objects(r, number)
        names = list(self.rules)
        start = (number - 1) * PODS
        pending = []
        for index in range(start, start + PODS):
            rule = names[index % len(names)]
            made = self.rules[rule](r)
            made["metadata"] |= {"name": f"{rule}-{index}", "uid": f"uid-{rule}-{index}"}
            pending.append(made)
        return {
            "id": f"{self.name}-{number}",
            "kind": self.name,
            "config": _next(self.configs, number),
            "objects": objects,
            "pending": pending,
            "preempt": self.preempt,
        }

    def objects(self, r: random.Random, number: int = 1) -> list[Obj]:
        """A cluster of this kind."""
        clusters = [self.cluster] if callable(self.cluster) else self.cluster
        return _next(clusters, number)(r)


def _next(found: Sequence[T], number: int) -> T:
    return found[(number - 1) % len(found)]


def node(name: str, labels: Mapping[str, str | None] | None = None, **more: Any) -> Obj:
    """A node with room, in zone-a unless its labels say otherwise; a label of None is left out.

    ``room`` is added to what it has, ``status`` and ``spec`` are as they are.
    """
    given = {HOSTNAME: name, ZONE: "zone-a", "disk": "ssd", **(labels or {})}
    room = {**DEFAULT_ROOM, **more.pop("room", {})}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {k: v for k, v in given.items() if v is not None}},
        "spec": more.pop("spec", {}),
        "status": {"capacity": room, "allocatable": room, **more.pop("status", {})},
    }


def zoned(r: random.Random, count: int) -> list[Obj]:
    """Nodes n0, n1, … of two or three zones; some without a zone, some without a disk."""
    made = []
    for index in range(count):
        zone = r.choice(["zone-a", "zone-a", "zone-b", "zone-b", "zone-c", None])
        disk = r.choice(["ssd", "hdd", "hdd", None])
        made.append(node(f"n{index}", {ZONE: zone, "disk": disk}))
    return made


def container(name: str = "c", cpu: str = "100m", memory: str = "64Mi", **more: Any) -> Obj:
    """A container; ``requests`` are instead of cpu and memory."""
    requests = more.pop("requests", {"cpu": cpu, "memory": memory})
    image = more.pop("image", "registry.example/app:v1")
    return {"name": name, "image": image, "resources": {"requests": requests}, **more}


def pod(labels: Mapping[str, str] | None = None, namespace: str = "default", **spec: Any) -> Obj:
    """A pod without a name; ``cpu`` and ``memory`` are those of its only container, ``metadata``
    and ``status`` go where they belong, all else is its spec."""
    asked = {key: spec.pop(key) for key in ("cpu", "memory", "requests") if key in spec}
    metadata = {"namespace": namespace, **spec.pop("metadata", {})}
    if labels is None:
        labels = {"app": "a"}
    if labels:
        metadata["labels"] = dict(labels)
    made: Obj = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}
    if "status" in spec:
        made["status"] = spec.pop("status")
    made["spec"] = {
        "schedulerName": "default-scheduler",
        "containers": [container(**asked)],
        **spec,
    }
    return made


def placed(name: str, on: str, made: Obj) -> Obj:
    """The pod under a name, on a node."""
    made["metadata"] |= {"name": name, "uid": f"uid-{name}"}
    made["spec"]["nodeName"] = on
    made["status"] = {"phase": "Running", **made.get("status", {})}
    return made


def named(name: str, made: Obj) -> Obj:
    """The pod under a name, without a node."""
    made["metadata"] |= {"name": name, "uid": f"uid-{name}"}
    return made


def terminating(made: Obj, at: str = "2026-01-01T00:00:00Z") -> Obj:
    """The pod as one that is being deleted."""
    made["metadata"] |= {"deletionTimestamp": at, "finalizers": ["example.com/hold"]}
    return made


def matching(**labels: str) -> Obj:
    """A label selector of labels."""
    return {"matchLabels": labels}


def where(key: str, operator: str, *values: str) -> Obj:
    """A label selector, or node selector term, of one expression."""
    return {"matchExpressions": [expression(key, operator, *values)]}


def expression(key: str, operator: str, *values: str) -> Obj:
    """One requirement of a selector."""
    made: Obj = {"key": key, "operator": operator}
    if values:
        made["values"] = list(values)
    return made
