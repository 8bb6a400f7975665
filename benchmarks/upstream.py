"""The shapes of upstream's scheduler_perf (test/integration/scheduler_perf), as loads.

Each has nodes of 4 cpu and 32 GiB, pods that are on them from the start, and pods to be scheduled,
whose number a second is the figure. ``FLOORS`` are upstream's own thresholds at 5,000 nodes in its
performance-config.yaml: what kube-scheduler has to reach there, on another machine (none for
preemption, whose
case of 5,000 nodes is switched off). Half of the pods arrive after the others are placed, so that
the cost of a pod with more pods on the nodes can be held against that with fewer.
"""

from collections.abc import Callable, Iterator
from typing import Any

from benchmarks.runs import Load
from eventsched.cluster.sources.arrivals import TracePod
from eventsched.cluster.translate.manifest import pod_uid
from eventsched.domain.objects import (
    CPU,
    MEMORY,
    PODS,
    AffinityTerm,
    Container,
    Node,
    NodeSelectorTerm,
    Pod,
    PodSpec,
    Requirement,
    SpreadConstraint,
    WeightedAffinityTerm,
)

FLOORS = {
    "basic": 270,
    "node-affinity": 220,
    "pod-affinity": 35,
    "pod-anti-affinity": 60,
    "preferred-affinity": 90,
    "preferred-anti-affinity": 90,
    "spread-hard": 85,
    "spread-soft": 125,
    "mixed": 140,
    "unschedulable": 170,
}
SIZES = (1_000, 5_000)

_HOST, _ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
_MIB = 1024**2
FIRST, SECOND = 1_000_000, 1_000_000_000
"""When (µs) the halves of the pods arrive: when all that was there before has been seen."""


def loads(nodes: int, pods: int) -> Iterator[Load]:
    """All shapes for a number of nodes, each with at most ``pods`` pods to be scheduled."""
    for name, shape in _SHAPES.items():
        bound, pending = shape(nodes, pods)
        half = len(pending) // 2
        yield Load(
            f"{name} {nodes:,} nodes",
            [_node(index, 3 if "spread" in name else 1) for index in range(nodes)],
            [TracePod(pod, FIRST if i < half else SECOND) for i, pod in enumerate(pending)],
            bound,
        )


def _node(index: int, zones: int) -> Node:
    name = f"node-{index:05d}"
    labels = {_HOST: name, _ZONE: f"zone-{index % zones + 1}"}
    return Node(
        name=name, labels=labels, allocatable={CPU: 4000, MEMORY: 32 * 1024 * _MIB, PODS: 110}
    )


def _pod(
    name: str, namespace: str, cpu: int, spec: dict[str, Any], color: str = "", **fields: Any
) -> Pod:
    container = Container(
        image="registry.example.com/pause:3", requests={CPU: cpu, MEMORY: 500 * _MIB}
    )
    return Pod(
        uid=pod_uid(namespace, name),
        name=name,
        namespace=namespace,
        labels={"color": color} if color else {},
        spec=PodSpec(containers=(container,), **spec),
        **fields,
    )


def _alike(color: str = "", **spec: Any) -> Callable[[int, int], tuple[list[Pod], list[Pod]]]:
    """Pods of one spec: one on each node from the start (of an anti-affinity on every fifth), the
    others to be scheduled."""
    apart = "required_anti_affinity" in spec

    def make(nodes: int, pods: int) -> tuple[list[Pod], list[Pod]]:
        held = range(0, nodes, 5) if apart else range(nodes)
        room = nodes - len(held) if apart else nodes * 30
        bound = [
            _pod(f"init-{i:06d}", "sched-0", 100, spec, color, node_name=f"node-{i:05d}")
            for i in held
        ]
        pending = [
            _pod(f"pod-{i:06d}", "sched-1", 100, spec, color) for i in range(min(pods, room))
        ]
        return bound, pending

    return make


def _mixed(nodes: int, pods: int) -> tuple[list[Pod], list[Pod]]:
    """MixedSchedulingBasePod: pods of every kind are there; those that come ask for nothing."""
    bound = []
    kinds = [_ALIKE[name] for name in ("", "near", "apart", "rather-near", "rather-apart")]
    for i in range(nodes):
        color, spec = kinds[i % len(kinds)]
        bound.append(_pod(f"init-{i:06d}", "sched-0", 100, spec, color, node_name=f"node-{i:05d}"))
    return bound, [_pod(f"pod-{i:06d}", "sched-1", 100, {}) for i in range(min(pods, nodes * 30))]


def _preemption(nodes: int, pods: int) -> tuple[list[Pod], list[Pod]]:
    """PreemptionBasic: four pods of 900m on every node; each that comes needs the room of three."""
    bound = [
        _pod(f"low-{i:06d}", "sched-0", 900, {}, node_name=f"node-{i % nodes:05d}", started_at=i)
        for i in range(4 * nodes)
    ]
    return bound, [
        _pod(f"high-{i:06d}", "sched-1", 3000, {}, priority=10) for i in range(min(pods, nodes))
    ]


def _unschedulable(nodes: int, pods: int) -> tuple[list[Pod], list[Pod]]:
    """Unschedulable: among the pods that come every fiftieth is more important than the others, and
    larger than any node."""
    bound = [
        _pod(f"init-{i:06d}", "sched-0", 100, {}, node_name=f"node-{i:05d}") for i in range(nodes)
    ]
    pending = []
    for i in range(min(pods, nodes * 30)):
        if i % 50 == 0:
            pending.append(_pod(f"large-{i:06d}", "sched-1", 9000, {}, priority=10))
        pending.append(_pod(f"pod-{i:06d}", "sched-1", 100, {}))
    return bound, pending


def _term(color: str, key: str) -> AffinityTerm:
    selector = (Requirement(key="color", operator="In", values=(color,)),)
    return AffinityTerm(topology_key=key, selector=selector, namespaces=("sched-1", "sched-0"))


def _spread(how: str) -> SpreadConstraint:
    selector = (Requirement(key="color", operator="In", values=("blue",)),)
    return SpreadConstraint(
        max_skew=5, topology_key=_ZONE, when_unsatisfiable=how, selector=selector
    )


_ALIKE: dict[str, tuple[str, dict[str, Any]]] = {
    "": ("", {}),
    "near": ("blue", {"required_affinity": (_term("blue", _ZONE),)}),
    "apart": ("green", {"required_anti_affinity": (_term("green", _HOST),)}),
    "rather-near": (
        "red", {"preferred_affinity": (WeightedAffinityTerm(weight=1, term=_term("red", _HOST)),)},
    ),
    "rather-apart": (
        "yellow",
        {"preferred_anti_affinity": (
            WeightedAffinityTerm(weight=1, term=_term("yellow", _HOST)),
        )},
    ),
}  # fmt: skip
_EXPECTED = Requirement(key=_ZONE, operator="In", values=("zone-1", "zone-2"))
_SHAPES: dict[str, Callable[[int, int], tuple[list[Pod], list[Pod]]]] = {
    "basic": _alike(),
    "node-affinity": _alike(required_node_terms=(NodeSelectorTerm(expressions=(_EXPECTED,)),)),
    "pod-affinity": _alike(_ALIKE["near"][0], **_ALIKE["near"][1]),
    "pod-anti-affinity": _alike(_ALIKE["apart"][0], **_ALIKE["apart"][1]),
    "preferred-affinity": _alike(_ALIKE["rather-near"][0], **_ALIKE["rather-near"][1]),
    "preferred-anti-affinity": _alike(_ALIKE["rather-apart"][0], **_ALIKE["rather-apart"][1]),
    "spread-hard": _alike("blue", spread=(_spread("DoNotSchedule"),)),
    "spread-soft": _alike("blue", spread=(_spread("ScheduleAnyway"),)),
    "mixed": _mixed,
    "preemption": _preemption,
    "unschedulable": _unschedulable,
}
