"""The fourteen kinds of scenario with random clusters and pods."""

import os
import random
from typing import Any

from tests.conformance.oracle.clusters import Obj, node, storage
from tests.conformance.oracle.pods import pod
from tests.conformance.oracle.profiles import profile

SCALE = int(os.environ.get("GEN_SCALE", "1"))  # 2 doubles every cluster

KINDS = {
    "resources": ["rich"],
    "taints": ["taint"],
    "nodeaffinity": ["nodeaffinity"],
    "ports": ["port"],
    "spread": ["spread", "taint"],
    "spread-affinity": ["spread", "nodeaffinity"],
    "interpod": ["podaffinity"],
    "images": ["image"],
    "volumes": ["volume"],
    "preemption": ["preempt", "rich"],
    "preemption-affinity": ["preempt", "podaffinity", "port"],
    "default-spread": ["services"],
    "config": ["config", "rich", "nodeaffinity", "taint", "podaffinity", "image"],
    "mixed": ["rich", "taint", "nodeaffinity", "port", "spread", "podaffinity", "image"],
}


def scenario(seed: int, kind: str) -> Obj:
    """The scenario of a kind and a seed: always the same."""
    r = random.Random(f"{kind}/{seed}")
    features = KINDS[kind]
    preempt = "preempt" in features
    count = SCALE * (r.choice([3, 8, 14, 25]) if preempt else r.choice([1, 4, 12, 20, 40]))
    nodes = [node(r, index, features) for index in range(count)]
    objects = nodes + namespaces()
    claims: list[str] = []
    if "volume" in features:
        more, claims = storage(r, nodes)
        objects += more
    if "services" in features:
        objects += _services()
    crowd = r.randint(count if preempt else 0, count * (5 if preempt else 2))
    existing = [pod(r, f"e{index:03d}", features, False, nodes, claims) for index in range(crowd)]
    if preempt and r.random() < 0.5:
        objects.append(_budget(r))
    pending = [pod(r, f"p{index}", features, True, nodes, claims) for index in range(6)]
    if "services" in features:
        _own(pending)
    if preempt:
        _press(r, pending)
    return {
        "id": f"{kind}-{seed}",
        "kind": kind,
        "config": profile(r) if "config" in features else "",
        "objects": objects + existing,
        "pending": pending,
        "preempt": preempt,
    }


def namespaces() -> list[Obj]:
    """The namespaces of every scenario, with the team that owns each."""
    teams = (("default", "red"), ("other", "blue"), ("third", "red"))
    return [
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": name, "labels": {"team": team}},
        }
        for name, team in teams
    ]


def service(name: str, selector: Any, namespace: str = "default") -> Obj:
    """A Service."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"selector": selector, "ports": [{"port": 80}]},
    }


def owner(kind: str, name: str, selector: Any, version: str = "apps/v1") -> Obj:
    """A ReplicaSet, StatefulSet or ReplicationController that selects pods."""
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": name, "namespace": "default", "uid": f"{name}-uid"},
        "spec": {
            "selector": selector,
            "template": {
                "metadata": {"labels": {"app": "b"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
        },
    }


def owned_by(kind: str, name: str, version: str = "apps/v1", controller: bool = True) -> Obj:
    """The reference of a pod to its owner."""
    made: Obj = {"apiVersion": version, "kind": kind, "name": name, "uid": f"{name}-uid"}
    if controller:
        made["controller"] = True
    return made


def _services() -> list[Obj]:
    return [
        service("svc", {"app": "a"}),
        owner("ReplicaSet", "rs", {"matchLabels": {"app": "b"}}),
    ]


def _own(pending: list[Obj]) -> None:
    for each in pending:
        if each["metadata"]["labels"]["app"] == "b":
            each["metadata"]["ownerReferences"] = [owned_by("ReplicaSet", "rs")]


def _budget(r: random.Random) -> Obj:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "pdb", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": r.choice("abc")}}, "minAvailable": 1},
        "status": {
            "disruptionsAllowed": r.randint(0, 2),
            "currentHealthy": 3,
            "desiredHealthy": 1,
            "expectedPods": 3,
        },
    }


def _press(r: random.Random, pending: list[Obj]) -> None:
    for each in pending:
        if r.random() < 0.7:
            cpu = r.choice(["500m", "1500m", "2", "3"])
            memory = r.choice(["512Mi", "2Gi", "5Gi"])
            requests = {"cpu": cpu, "memory": memory}
            each["spec"]["containers"][0]["resources"]["requests"] = requests
