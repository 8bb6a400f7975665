"""DefaultPreemption: who may be a victim, on which node, and what saves one."""

import random
from collections.abc import Callable
from functools import partial
from typing import Any

from tests.conformance.oracle.clusters import HOSTNAME, ZONE, Obj
from tests.conformance.oracle.pods import REQUIRED
from tests.conformance.oracle.profiles import document
from tests.conformance.oracle.rules.affinity import apart, near, term
from tests.conformance.oracle.rules.claims import (
    DRIVER,
    bound,
    csi_node,
    mounts,
)
from tests.conformance.oracle.rules.spread import spread
from tests.conformance.oracle.rules.vocabulary import (
    Kind,
    matching,
    named,
    node,
    placed,
    pod,
    terminating,
    where,
)

SMALL = {"cpu": "4", "memory": "8Gi", "pods": "6"}
A, B = matching(app="a"), matching(app="b")


def runs(r: random.Random, name: str, on: str, priority: int | None, **spec: Any) -> Obj:
    """A pod on a node that started at a time no other pod shares, by chance; ``start`` is its time,
    or None for a pod that has not started."""
    moment = f"2026-01-{r.randint(10, 28)}T{r.randint(10, 23)}:{r.randint(10, 59)}:00Z"
    started = spec.pop("start", moment)
    status = {"startTime": started} if started else {}
    spec.setdefault("cpu", "1")
    given: Obj = {} if priority is None else {"priority": priority}
    return placed(name, on, pod(spec.pop("labels", None), status=status, **given, **spec))


def _big(priority: int | None = 100, cpu: str = "3", **spec: Any) -> Obj:
    given: Obj = {} if priority is None else {"priority": priority}
    return pod({"app": "big"}, cpu=cpu, **given, **spec)


# Which node, and who on it


def _ordered(r: random.Random) -> list[Obj]:
    names = [f"n{index}" for index in range(6)]
    made = [node(name, room=SMALL) for name in names]
    made.append(node("tiny", room={"cpu": "1", "memory": "1Gi"}))
    made.append(node("closed", room=SMALL, spec={"unschedulable": True}))
    tie = "2026-01-05T00:00:00Z"
    for on in [*names, "closed"]:
        style = r.choice(["mixed", "equal", "large", "negative", "unset", "late", "tie"])
        if style == "large":
            made.append(runs(r, f"{on}-e0", on, r.choice([0, 50]), cpu="4"))
            continue
        for index in range(4):
            priority: int | None = r.choice([0, 5, 5, 50, 150])
            more: Obj = {}
            if style == "equal":
                priority = 5
            elif style == "negative":
                priority = r.choice([-10, -1, -10])
            elif style == "unset":
                priority = None
            elif style == "late":
                more["start"] = None if index == 3 else f"2026-02-0{index + 1}T00:00:00Z"
            elif style == "tie" and index < 2:
                priority, more["start"] = 5, tie
            memory = r.choice(["64Mi", "1Gi", "2Gi"])
            made.append(runs(r, f"{on}-e{index}", on, priority, memory=memory, **more))
    return made


_ORDER = {
    "dear": lambda r: _big(),
    "dear-memory": lambda r: _big(cpu="500m", memory="7Gi"),
    "dear-memory-and-cpu": lambda r: _big(cpu="2", memory="4Gi"),
    "dearest": lambda r: _big(1000, "4"),
    "cheap": lambda r: _big(0),
    "cheap-but-dearer-than-negative": lambda r: _big(-5, "2"),
    "priority-unset": lambda r: _big(None),
    "just-dearer": lambda r: _big(6, "2"),
    "just-as-dear": lambda r: _big(5, "2"),
    "never": lambda r: _big(preemptionPolicy="Never"),
    "lower-policy": lambda r: _big(preemptionPolicy="PreemptLowerPriority"),
    "too-large": lambda r: _big(cpu="9"),
    "fits-one-node-only": lambda r: _big(nodeSelector={HOSTNAME: "n3"}),
    "fits-closed-only": lambda r: _big(nodeSelector={HOSTNAME: "closed"}),
    "tolerates-closed": lambda r: _big(
        tolerations=[{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}],
        nodeSelector={HOSTNAME: "closed"},
    ),
    "named": lambda r: _big(
        affinity={
            "nodeAffinity": {
                REQUIRED: {
                    "nodeSelectorTerms": [
                        {
                            "matchFields": [
                                {"key": "metadata.name", "operator": "In", "values": ["n1", "n2"]}
                            ]
                        }
                    ]
                }
            }
        }
    ),
    "small": lambda r: _big(cpu="10m"),
}


# What a victim holds besides room


def _holding(r: random.Random) -> list[Obj]:
    names = [f"n{index}" for index in range(5)]
    zones = {name: r.choice(["zone-a", "zone-b"]) for name in names}
    made = [node(name, {ZONE: zones[name]}, room={"cpu": "16"}) for name in names]
    made += [csi_node(name, (DRIVER, 1)) for name in names]
    for index in range(5):
        made += bound(f"c{index}")
    made += bound("once", modes=["ReadWriteOncePod"])
    port = [{"containerPort": 80, "hostPort": 8080}]
    holders: list[tuple[str, Obj]] = []
    for index, on in enumerate(names):
        low = r.choice([0, 5, 200])
        holders += [
            (on, {"labels": {"app": r.choice("ab")}, "priority": low}),
            (on, {"labels": {"app": "a"}, "priority": 0}),
            (on, {"affinity": apart(term(matching(app="big"), r.choice([HOSTNAME, ZONE]))),
                  "priority": r.choice([0, 5])}),
            (on, {"containers": [{"name": "c", "image": "i", "ports": port}], "priority": low}),
            (on, {"volumes": [_claimed(f"c{index}")], "priority": low}),
        ]  # fmt: skip
    holders.append((names[0], {"volumes": [_claimed("once")], "priority": 5}))
    for index, (on, spec) in enumerate(r.sample(holders, 16)):
        each = runs(r, f"e{index}", on, spec.pop("priority"), cpu="100m", **spec)
        made.append(terminating(each) if r.random() < 0.08 else each)
    return made


def _claimed(name: str) -> Obj:
    return {"name": "v", "persistentVolumeClaim": {"claimName": name}}


_HELD = {
    "apart-from-victims": lambda r: _big(affinity=apart(term(A, HOSTNAME))),
    "apart-in-zone": lambda r: _big(affinity=apart(term(where("app", "In", "a", "b")))),
    "near-a-victim": lambda r: _big(affinity=near(term(A, HOSTNAME)), cpu="15950m"),
    "near-nobody": lambda r: _big(affinity=near(term(matching(app="nobody"), HOSTNAME))),
    "unwanted": lambda r: _big(cpu="15950m"),
    "port": lambda r: _port(),
    "port-and-room": lambda r: _port(cpu="15950m"),
    "one-volume-too-many": lambda r: mounts("c0", "c1", priority=100, labels={"app": "x"}),
    "volume": lambda r: mounts(f"c{r.randint(0, 4)}", priority=100, labels={"app": "x"}),
    "once": lambda r: mounts("once", priority=100, labels={"app": "x"}),
    "once-cheap": lambda r: mounts("once", priority=3, labels={"app": "x"}),
    "spread-hosts": lambda r: _big(topologySpreadConstraints=[spread(HOSTNAME)], cpu="15950m"),
    "spread-zones": lambda r: pod(
        {"app": "a"}, priority=100, topologySpreadConstraints=[spread(ZONE)], cpu="100m"
    ),
    "spread-domains": lambda r: pod(
        {"app": "a"}, priority=100, topologySpreadConstraints=[spread(HOSTNAME, minDomains=9)]
    ),
    "no-such-claim": lambda r: mounts("none", priority=100),
    "everything": lambda r: _port(
        cpu="15900m",
        affinity=apart(term(B, HOSTNAME)),
        topologySpreadConstraints=[spread(HOSTNAME, 2)],
    ),
}


def _port(cpu: str = "100m", **spec: Any) -> Obj:
    made = pod({"app": "x"}, cpu=cpu, priority=100, **spec)
    made["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 8080}]
    return made


# Budgets


def _budget(name: str, selector: Obj | None, allowed: int, **more: Any) -> Obj:
    spec: Obj = {"minAvailable": 1}
    if selector is not None:
        spec["selector"] = selector
    disrupted = dict.fromkeys(more.pop("disrupted", []), "2026-01-01T00:00:00Z")
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": more.pop("namespace", "default")},
        "spec": spec,
        "status": {
            "disruptionsAllowed": allowed,
            "currentHealthy": 3,
            "desiredHealthy": 1,
            "expectedPods": 3,
            **({"disruptedPods": disrupted} if disrupted else {}),
        },
    }


_BUDGETS = [
    lambda: [_budget("a", A, 0)],
    lambda: [_budget("a", A, 1)],
    lambda: [_budget("a", A, 2), _budget("b", B, 1)],
    lambda: [_budget("a", A, 0, disrupted=["n0-e0", "n1-e1", "n2-e2"])],
    lambda: [_budget("a", A, 1), _budget("a-too", where("app", "In", "a", "b"), 1)],
    lambda: [_budget("everybody", {}, 0)],
    lambda: [_budget("nobody", None, 0)],
    lambda: [_budget("elsewhere", A, 0, namespace="other")],
    lambda: [_budget("malformed", where("app", "In"), 0), _budget("b", B, 0)],
    lambda: [_budget("all", where("app", "Exists"), 0)],
    lambda: [_budget("unlabelled", where("app", "DoesNotExist"), 0)],
]


def _budgeted(budgets: Callable[[], list[Obj]], r: random.Random) -> list[Obj]:
    names = [f"n{index}" for index in range(4)]
    made = [node(name, room=SMALL) for name in names]
    for on in names:
        for index in range(4):
            labels = r.choice([{"app": "a"}, {"app": "a"}, {"app": "b"}, {}])
            each = runs(r, f"{on}-e{index}", on, r.choice([0, 0, 5]), labels=labels)
            made.append(each)
    return [*made, *budgets()]


_SAVED = {
    "one-cpu": lambda r: _big(cpu="1"),
    "two-cpus": lambda r: _big(cpu="2"),
    "three-cpus": lambda r: _big(cpu="3"),
    "all-cpus": lambda r: _big(cpu="4"),
    "cheaper-than-some": lambda r: _big(4, "2"),
    "on-one-node": lambda r: _big(cpu="2", nodeSelector={HOSTNAME: f"n{r.randint(0, 3)}"}),
    "in-another-namespace": lambda r: pod({"app": "a"}, "other", cpu="2", priority=100),
}


# Nominations


def _nominated(r: random.Random) -> list[Obj]:
    names = [f"n{index}" for index in range(5)]
    made = [node(name, room=SMALL) for name in names]
    taint = {"key": "dedicated", "effect": "NoSchedule"}
    made.append(node("nowhere", {ZONE: None}, room=SMALL))
    made.append(node("tainted", {ZONE: "zone-b"}, room=SMALL, spec={"taints": [taint]}))
    reason = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    reasons = [reason, reason | {"status": "False"}, reason | {"reason": "DeletionByTaintManager"}]
    for on in [*names, "nowhere", "tainted"]:
        for index in range(r.randint(2, 4)):
            each = runs(r, f"{on}-e{index}", on, r.choice([0, 5, 150]))
            if r.random() < (0.5 if on in ("n0", "n1") else 0.1):
                terminating(each)
                condition = r.choice([*reasons, None])
                each["status"]["conditions"] = [condition] if condition else []
            made.append(each)
    for index in range(r.randint(3, 7)):
        on = r.choice([*names, "gone", "nowhere", "tainted"])
        priority = r.choice([10, 100, 100, 500])
        labels = {"app": r.choice(["a", "big"])}
        waiting = pod(
            labels,
            r.choice(["default", "default", "other"]),
            cpu=r.choice(["1", "2"]),
            priority=priority,
            status={"nominatedNodeName": on},
        )
        if r.random() < 0.3:
            waiting["spec"]["affinity"] = apart(term(matching(app="big"), HOSTNAME))
        made.append(named(f"waits{index}", waiting))
    return made


def _on(name: str) -> Obj:
    return {"status": {"nominatedNodeName": name}}


_NOMINATIONS = {
    "one-cpu": lambda r: _big(cpu="1"),
    "two-cpus": lambda r: _big(cpu="2"),
    "three-cpus": lambda r: _big(cpu="3"),
    "cheaper": lambda r: _big(50, "2"),
    "dearest": lambda r: _big(1000, "3"),
    "cheapest": lambda r: _big(1, "1"),
    "nominated-itself": lambda r: _big(cpu="4", **_on("n0")),
    "nominated-itself-again": lambda r: _big(cpu="4", **_on("n1")),
    "nominated-to-a-node-that-is-gone": lambda r: _big(cpu="4", **_on("gone")),
    "nominated-where-it-may-not-go": lambda r: _big(
        cpu="4", nodeSelector={HOSTNAME: "n2"}, **_on("n3")
    ),
    "near-a-nominated-one": lambda r: _big(affinity=near(term(A, HOSTNAME)), cpu="1"),
    "apart-from-a-nominated-one": lambda r: _big(affinity=apart(term(A, HOSTNAME)), cpu="1"),
    "spread-over-nominated-ones": lambda r: _big(
        cpu="1", topologySpreadConstraints=[spread(HOSTNAME)]
    ),
    "spread-over-zones": lambda r: _big(cpu="1", topologySpreadConstraints=[spread(ZONE)]),
    "spread-over-untainted-ones": lambda r: _big(
        cpu="1",
        topologySpreadConstraints=[spread(HOSTNAME, nodeTaintsPolicy="Honor")],
        tolerations=r.choice([[], [{"key": "dedicated", "operator": "Exists"}]]),
    ),
    "spread-over-some": lambda r: _big(
        cpu="1",
        topologySpreadConstraints=[spread(HOSTNAME)],
        affinity={
            "nodeAffinity": {
                REQUIRED: {"nodeSelectorTerms": [where(HOSTNAME, "In", "n0", "n1", "tainted")]}
            }
        },
    ),
}


def _arguments(text: str) -> str:
    return document(arguments=f"  - name: DefaultPreemption\n    args: {{{text}}}\n")


_ALL_OF_THEM = _arguments("minCandidateNodesPercentage: 100, minCandidateNodesAbsolute: 0")
_NO_FILTERS = document(
    "    filter:\n      disabled: [{name: PodTopologySpread}, {name: NodeVolumeLimits}]\n"
)
_NO_PREEMPTION = document("    postFilter:\n      disabled: [{name: DefaultPreemption}]\n")
_NO_CLAIMS = document("    multiPoint:\n      disabled: [{name: DynamicResources}]\n")

KINDS = [
    Kind(
        "preemption-order",
        _ordered,
        _ORDER,
        ("", _ALL_OF_THEM, _NO_CLAIMS, "", _NO_PREEMPTION),
        preempt=True,
    ),
    Kind("preemption-held", _holding, _HELD, ("", "", _NO_FILTERS), preempt=True),
    Kind(
        "preemption-budgets",
        [partial(_budgeted, budgets) for budgets in _BUDGETS],
        _SAVED,
        preempt=True,
    ),
    Kind("preemption-nominated", _nominated, _NOMINATIONS, preempt=True),
]
