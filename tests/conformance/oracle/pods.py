"""Pods of the generated clusters, and the terms by which they choose nodes and each other."""

import random
from collections.abc import Sequence
from typing import Any

from tests.conformance.oracle.clusters import HOSTNAME, IMAGES, ZONE, ZONES, Obj

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
EFFECTS = ["NoSchedule", "NoExecute", "PreferNoSchedule"]
LABELS = {
    "disk": ["ssd", "hdd"],
    "accel": ["a100", "t4"],
    ZONE: ZONES,
    "kubernetes.io/arch": ["amd64", "arm64"],
}


def _quantity(r: random.Random, resource: str) -> str:
    if resource == "cpu":
        return r.choice(["100m", "250m", "500m", "1", "1500m", "2", "3", "0.3", "4"])
    if resource == "memory":
        sizes = ["64Mi", "128Mi", "256Mi", "512Mi", "1Gi", "2Gi", "3G", "700M", "4Gi", "1500Mi"]
        return r.choice(sizes)
    if resource == "ephemeral-storage":
        return r.choice(["1Gi", "5Gi", "500Mi"])
    return str(r.choice([1, 1, 2, 4]))


def container(r: random.Random, name: str, rich: bool) -> Obj:
    """A container that asks for something, most of the time."""
    requests = {}
    if r.random() < 0.9:
        requests["cpu"] = _quantity(r, "cpu")
    if r.random() < 0.85:
        requests["memory"] = _quantity(r, "memory")
    if rich and r.random() < 0.15:
        requests["ephemeral-storage"] = _quantity(r, "ephemeral-storage")
    if rich and r.random() < 0.2:
        requests["example.com/gpu"] = _quantity(r, "gpu")
    image = r.choice(IMAGES)[0]
    made: Obj = {"name": name, "image": image, "resources": {"requests": requests}}
    if "example.com/gpu" in requests:
        made["resources"]["limits"] = {"example.com/gpu": requests["example.com/gpu"]}
    return made


def selector(r: random.Random) -> Obj:
    """A label selector over the pods' labels."""
    if r.random() < 0.6:
        return {"matchLabels": {"app": r.choice("abc")}}
    operator = r.choice(["In", "NotIn", "Exists", "DoesNotExist"])
    expression: Obj = {"key": r.choice(["app", "tier"]), "operator": operator}
    if operator in ("In", "NotIn"):
        expression["values"] = r.sample(["a", "b", "c", "x", "y"], 2)
    return {"matchExpressions": [expression]}


def node_expression(r: random.Random) -> Obj:
    """A requirement of a node selector term."""
    operator = r.choice(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"])
    if operator in ("Gt", "Lt"):
        return {"key": "gen", "operator": operator, "values": [str(r.randint(1, 9))]}
    key = r.choice(list(LABELS))
    made: Obj = {"key": key, "operator": operator}
    if operator in ("In", "NotIn"):
        made["values"] = r.sample(LABELS[key], r.randint(1, 2))
    return made


def pod_term(r: random.Random) -> Obj:
    """A pod affinity term."""
    made = {"topologyKey": r.choice([ZONE, HOSTNAME, "disk"]), "labelSelector": selector(r)}
    where = r.random()
    if where < 0.2:
        made["namespaces"] = ["other"]
    elif where < 0.35:
        made["namespaceSelector"] = {"matchLabels": {"team": r.choice(["red", "blue"])}}
    elif where < 0.42:
        made["namespaceSelector"] = {}
    if r.random() < 0.1:
        made["matchLabelKeys"] = ["tier"]
    return made


def pod(
    r: random.Random,
    name: str,
    features: list[str],
    pending: bool,
    nodes: list[Obj],
    claims: Sequence[str] = (),
) -> Obj:
    """A pod to judge, or one that is on a node already."""
    labels = {"app": r.choice("abc")}
    if r.random() < 0.5:
        labels["tier"] = r.choice("xy")
    rich = "rich" in features
    count = r.choice([1, 1, 2])
    spec: Obj = {
        "schedulerName": "default-scheduler",
        "containers": [container(r, f"c{index}", rich) for index in range(count)],
    }
    if rich:
        _enrich(r, spec)
    if "port" in features and r.random() < 0.7:
        _open_port(r, spec)
    _affinity(r, spec, features, pending, nodes)
    if "spread" in features and pending and r.random() < 0.85:
        _spread(r, spec)
    if "nodename" in features and pending and r.random() < 0.5:
        spec["nodeName"] = r.choice(nodes)["metadata"]["name"]
    _mount(r, spec, features, pending, claims)
    made: Obj = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}", "labels": labels},
        "spec": spec,
    }
    if not pending:
        _place(r, made, nodes)
    if "preempt" in features:
        _rank(r, made, pending)
    return made


def _enrich(r: random.Random, spec: Obj) -> None:
    if r.random() < 0.25:
        spec["initContainers"] = [container(r, "init", True)]
    if r.random() < 0.15:
        sidecar = container(r, "sidecar", False)
        sidecar["restartPolicy"] = "Always"
        present = spec.setdefault("initContainers", [])
        present.insert(r.choice([0, len(present)]), sidecar)
    if r.random() < 0.15:
        spec["overhead"] = {"cpu": "120m", "memory": "96Mi"}
    if r.random() < 0.1:
        spec["resources"] = {"requests": {"cpu": "5", "memory": "9Gi"}}


def _open_port(r: random.Random, spec: Obj) -> None:
    port: Obj = {"containerPort": 80, "hostPort": r.choice([80, 8080, 9090])}
    if r.random() < 0.4:
        port["hostIP"] = r.choice(["127.0.0.1", "10.0.0.1", "0.0.0.0"])
    if r.random() < 0.3:
        port["protocol"] = r.choice(["UDP", "TCP", "SCTP"])
    spec["containers"][0]["ports"] = [port]


def _affinity(
    r: random.Random, spec: Obj, features: list[str], pending: bool, nodes: list[Obj]
) -> None:
    affinity: Obj = {}
    if "nodeaffinity" in features and pending:
        if wanted := _node_affinity(r, nodes):
            affinity["nodeAffinity"] = wanted
        if r.random() < 0.3:
            spec["nodeSelector"] = {"disk": r.choice(["ssd", "hdd"])}
    if "taint" in features and r.random() < 0.6:
        count = r.randint(1, 2)
        spec["tolerations"] = [_toleration(r) for _ in range(count)]
    if "podaffinity" in features and r.random() < (0.85 if pending else 0.4):
        if r.random() < 0.5 and (wanted := _pod_terms(r, [1, 1, 2])):
            affinity["podAffinity"] = wanted
        if r.random() < 0.6 and (wanted := _pod_terms(r, [])):
            affinity["podAntiAffinity"] = wanted
    if affinity:
        spec["affinity"] = affinity


def _node_affinity(r: random.Random, nodes: list[Obj]) -> Obj:
    made: Obj = {}
    if r.random() < 0.5:
        count = r.randint(1, 2)
        made[REQUIRED] = {"nodeSelectorTerms": [_node_term(r, nodes) for _ in range(count)]}
    if r.random() < 0.6:
        made[PREFERRED] = [
            {
                "weight": r.randint(1, 100),
                "preference": {"matchExpressions": [node_expression(r)]},
            }
            for _ in range(r.randint(1, 3))
        ]
    return made


def _node_term(r: random.Random, nodes: list[Obj]) -> Obj:
    if r.random() < 0.85:
        return {"matchExpressions": [node_expression(r) for _ in range(r.randint(1, 2))]}
    operator = r.choice(["In", "NotIn"])
    values = [r.choice(nodes)["metadata"]["name"]]
    return {"matchFields": [{"key": "metadata.name", "operator": operator, "values": values}]}


def _toleration(r: random.Random) -> Obj:
    dedicated: Obj = {"key": "dedicated", "operator": "Equal", "value": r.choice(["ml", "db"])}
    dedicated["effect"] = r.choice(EFFECTS)
    unschedulable = "node.kubernetes.io/unschedulable"
    return r.choice(
        [
            dedicated,
            {"key": "dedicated", "operator": "Exists"},
            {"key": "spot", "operator": "Exists"},
            {"operator": "Exists", "effect": "NoSchedule"},
            {"operator": "Exists"},
            {"key": unschedulable, "operator": "Exists", "effect": "NoSchedule"},
            {"key": "spot", "value": ""},
        ]
    )


def _pod_terms(r: random.Random, counts: list[int]) -> Obj:
    """Required terms, as many as one of ``counts`` (always one, without a draw, if empty), and
    preferred ones."""
    made: Obj = {}
    if r.random() < 0.5:
        made[REQUIRED] = [pod_term(r) for _ in range(r.choice(counts) if counts else 1)]
    if r.random() < 0.6:
        made[PREFERRED] = [
            {"weight": r.randint(1, 100), "podAffinityTerm": pod_term(r)}
            for _ in range(r.randint(1, 2))
        ]
    return made


def _spread(r: random.Random, spec: Obj) -> None:
    made: list[Obj] = []
    for _ in range(r.choice([1, 1, 2])):
        each = _constraint(r)
        taken = {(other["topologyKey"], other["whenUnsatisfiable"]) for other in made}
        if (each["topologyKey"], each["whenUnsatisfiable"]) not in taken:
            made.append(each)
    spec["topologySpreadConstraints"] = made


def _constraint(r: random.Random) -> Obj:
    made: dict[str, Any] = {
        "maxSkew": r.randint(1, 3),
        "topologyKey": r.choice([ZONE, HOSTNAME, "disk"]),
        "whenUnsatisfiable": r.choice(["DoNotSchedule", "ScheduleAnyway"]),
        "labelSelector": selector(r),
    }
    if r.random() < 0.2 and made["whenUnsatisfiable"] == "DoNotSchedule":
        made["minDomains"] = r.randint(1, 5)
    if r.random() < 0.25:
        made["nodeAffinityPolicy"] = r.choice(["Honor", "Ignore"])
    if r.random() < 0.25:
        made["nodeTaintsPolicy"] = r.choice(["Honor", "Ignore"])
    if r.random() < 0.15:
        made["matchLabelKeys"] = ["tier"]
    return made


def _mount(
    r: random.Random, spec: Obj, features: list[str], pending: bool, claims: Sequence[str]
) -> None:
    if claims and r.random() < (0.9 if pending else 0.3):
        chosen = r.sample(list(claims), min(len(claims), r.choice([1, 1, 2])))
        spec["volumes"] = [
            {"name": f"v{index}", "persistentVolumeClaim": {"claimName": claim}}
            for index, claim in enumerate(chosen)
        ]
    if "volume" in features and pending and r.random() < 0.05:
        missing = {"name": "missing", "persistentVolumeClaim": {"claimName": "no-such-claim"}}
        spec.setdefault("volumes", []).append(missing)


def _place(r: random.Random, made: Obj, nodes: list[Obj]) -> None:
    made["spec"]["nodeName"] = r.choice(nodes)["metadata"]["name"]
    made["status"] = {"phase": "Running"}
    if r.random() < 0.15:
        made["metadata"]["namespace"] = r.choice(["other", "third"])
    if r.random() < 0.05:
        made["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        made["metadata"]["finalizers"] = ["example.com/hold"]


def _rank(r: random.Random, made: Obj, pending: bool) -> None:
    if pending:
        made["spec"]["priority"] = r.choice([0, 10, 100, 1000])
        if r.random() < 0.1:
            made["spec"]["preemptionPolicy"] = "Never"
        return
    made["spec"]["priority"] = r.choice([0, 0, 5, 10])
    day, second = r.randint(1, 9), r.randint(10, 59)
    made["status"]["startTime"] = f"2026-01-0{day}T00:00:{second}Z"
