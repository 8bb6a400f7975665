"""NodeResourcesFit and NodeResourcesBalancedAllocation: what a pod asks for, and its weight."""

import random
from typing import Any

from tests.conformance.oracle.clusters import Obj
from tests.conformance.oracle.profiles import BALANCED, document
from tests.conformance.oracle.rules.vocabulary import Kind, container, node, placed, pod

MANY = [f"many.example.com/r{index}" for index in range(70)]
GPU, FPGA, HUGE = "example.com/gpu", "acme.org/fpga", "hugepages-2Mi"


def _asks(**more: Any) -> Obj:
    """A pod of the containers, init containers and the rest that are given."""
    return pod({"app": "a"}, **more)


def _init(name: str, cpu: str, memory: str, stays: bool = False) -> Obj:
    made = container(name, cpu, memory)
    return {**made, "restartPolicy": "Always"} if stays else made


def _level(requests: Obj | None, limits: Obj | None = None) -> Obj:
    made: Obj = {}
    if requests is not None:
        made["requests"] = requests
    if limits is not None:
        made["limits"] = limits
    return {"resources": made}


def _cluster(r: random.Random) -> list[Obj]:
    made = [
        node("n0"),
        node("n1", room={"cpu": "4", "memory": "8Gi", GPU: "4"}),
        node("n2", room={"cpu": "2500m", "memory": "5G", "pods": "3"}),
        node("n3", {"many": "yes"}, room={HUGE: "1Gi", FPGA: "2", **dict.fromkeys(MANY, "4")}),
        node("n4", room={"cpu": "0", "memory": "0"}),
        node("n5", room={"ephemeral-storage": "2Gi", GPU: "1"}),
    ]
    small = node("n6", room={"cpu": "1", "memory": "1Gi"})
    bare = node("n7")
    bare["status"]["allocatable"] = {"cpu": "4"}
    for index in range(r.randint(3, 10)):
        on = f"n{r.randint(0, 6)}"
        each = _RULES[r.choice(_RESIDENTS)](r)
        made.append(placed(f"e{index}", on, each))
    return [*made, small, bare]


_RESIDENTS = ["plain", "nothing", "sidecar-first", "overhead", "pod-level", "huge-pages", "gpu",
              "no-requests-key", "init-larger", "zero"]  # fmt: skip

_RULES = {
    "plain": lambda r: _asks(cpu="1500m", memory="2Gi"),
    "nothing": lambda r: _asks(requests={}),
    "no-requests-key": lambda r: _asks(containers=[{"name": "c", "image": "i"}]),
    "zero": lambda r: _asks(requests={"cpu": "0", "memory": "0", GPU: "0"}),
    "cpu-only": lambda r: _asks(requests={"cpu": "3"}),
    "memory-only": lambda r: _asks(requests={"memory": "5G"}),
    "one-asks-one-does-not": lambda r: _asks(
        containers=[container("c", "1", "1Gi"), container("d", requests={})]
    ),
    "too-much-cpu": lambda r: _asks(cpu="64", memory="1Gi"),
    "too-much-memory": lambda r: _asks(cpu="1", memory="640Gi"),
    "too-much-of-both": lambda r: _asks(cpu="7", memory="15Gi"),
    "storage": lambda r: _asks(requests={"cpu": "1", "ephemeral-storage": "3Gi"}),
    "storage-too-much": lambda r: _asks(requests={"ephemeral-storage": "100Gi"}),
    "gpu": lambda r: _asks(requests={"cpu": "1", GPU: r.choice(["1", "2"])}),
    "gpu-too-many": lambda r: _asks(requests={GPU: "99"}),
    "fpga": lambda r: _asks(requests={FPGA: "1"}),
    "unknown-resource": lambda r: _asks(requests={"example.com/unknown": "1"}),
    "huge-pages": lambda r: _asks(requests={"memory": "64Mi", HUGE: "512Mi"}),
    "huge-pages-too-many": lambda r: _asks(requests={"memory": "64Mi", HUGE: "2Gi"}),
    "attachable-volumes": lambda r: _asks(requests={"attachable-volumes-aws-ebs": "1"}),
    "many": lambda r: _asks(
        requests={"cpu": "1", **dict.fromkeys(MANY, "1")}, nodeSelector={"many": "yes"}
    ),
    "many-and-one-too-many": lambda r: _asks(
        requests={**dict.fromkeys(MANY, "1"), r.choice(MANY): "5"}, nodeSelector={"many": "yes"}
    ),
    "native-unknown": lambda r: _asks(requests={"kubernetes.io/strange": "1"}),
    "limits-only": lambda r: _asks(
        containers=[
            {"name": "c", "image": "i", "resources": {"limits": {"cpu": "3", "memory": "1Gi"}}}
        ]
    ),
    "limits-and-requests": lambda r: _asks(
        containers=[
            {
                "name": "c",
                "image": "i",
                "resources": {
                    "limits": {"cpu": "3", "memory": "2Gi"},
                    "requests": {"cpu": "500m"},
                },
            }
        ]
    ),
    "init-larger": lambda r: _asks(initContainers=[_init("i", "3", "64Mi")], cpu="1"),
    "init-larger-in-one": lambda r: _asks(
        initContainers=[_init("i", "100m", "4Gi"), _init("j", "2", "1Mi")], cpu="1", memory="1Gi"
    ),
    "sidecar-first": lambda r: _asks(
        initContainers=[_init("s", "1", "1Gi", True), _init("i", "2", "1Gi")], cpu="1"
    ),
    "sidecar-last": lambda r: _asks(
        initContainers=[_init("i", "3", "1Gi"), _init("s", "1", "1Gi", True)], cpu="1"
    ),
    "sidecars-between": lambda r: _asks(
        initContainers=[
            _init("s", "500m", "512Mi", True),
            _init("i", "2", "1Gi"),
            _init("t", "1", "1Gi", True),
            _init("j", "1", "3Gi"),
        ],
        cpu="1",
        memory="1Gi",
    ),
    "sidecar-without-requests": lambda r: _asks(
        initContainers=[{"name": "s", "image": "i", "restartPolicy": "Always"}], cpu="1"
    ),
    "overhead": lambda r: _asks(overhead={"cpu": "250m", "memory": "120Mi"}, cpu="2"),
    "overhead-of-nothing": lambda r: _asks(overhead={"cpu": "250m"}, requests={}),
    "overhead-of-gpu": lambda r: _asks(overhead={GPU: "1"}, cpu="1"),
    "pod-level": lambda r: _asks(**_level({"cpu": "2", "memory": "3Gi"}), cpu="1"),
    "pod-level-cpu": lambda r: _asks(**_level({"cpu": "2"}), memory="2Gi"),
    "pod-level-memory": lambda r: _asks(**_level({"memory": "2Gi"}), cpu="2"),
    "pod-level-below-containers": lambda r: _asks(**_level({"cpu": "500m"}), cpu="2"),
    "pod-level-limits": lambda r: _asks(**_level(None, {"cpu": "3", "memory": "3Gi"}), cpu="1"),
    "pod-level-empty": lambda r: _asks(**_level({}), cpu="1"),
    "pod-level-huge-pages": lambda r: _asks(**_level({HUGE: "600Mi", "cpu": "1"}), cpu="1"),
    "pod-level-and-overhead": lambda r: _asks(
        **_level({"cpu": "2", "memory": "1Gi"}), overhead={"cpu": "500m"}, requests={}
    ),
    "pod-level-and-init": lambda r: _asks(
        **_level({"cpu": "1"}), initContainers=[_init("i", "3", "2Gi")], requests={}
    ),
    "pod-level-of-nothing": lambda r: _asks(**_level({"cpu": "1"}), requests={}),
}


def _fit(text: str) -> str:
    return f"  - name: NodeResourcesFit\n    args:\n{text}"


def _strategy(kind: str, resources: str, more: str = "") -> str:
    return _fit(f"      scoringStrategy: {{type: {kind}, resources: [{resources}]{more}}}\n")


_SHAPE = ", requestedToCapacityRatio: {shape: [%s]}"
_CONFIGS = (
    "",
    document(arguments=_fit("      ignoredResourceGroups: [example.com]\n")),
    document(
        arguments=_fit("      ignoredResources: [acme.org/fpga, example.com/unknown]\n") + BALANCED
    ),
    document(
        arguments=_strategy(
            "MostAllocated", "{name: cpu, weight: 3}, {name: example.com/gpu, weight: 2}"
        )
    ),
    document(
        arguments=_strategy(
            "LeastAllocated",
            "{name: memory, weight: 1}, {name: ephemeral-storage, weight: 2},"
            " {name: hugepages-2Mi, weight: 1}",
        )
    ),
    document(
        arguments=_strategy(
            "RequestedToCapacityRatio",
            "{name: cpu, weight: 1}, {name: memory, weight: 4}",
            _SHAPE % "{utilization: 0, score: 10}, {utilization: 100, score: 0}",
        )
    ),
    document(
        arguments=_strategy(
            "RequestedToCapacityRatio",
            "{name: cpu, weight: 2}, {name: example.com/gpu, weight: 1}",
            _SHAPE % "{utilization: 10, score: 1}, {utilization: 40, score: 9}, "
            "{utilization: 70, score: 3}",
        )
    ),
)


def _resize(spec: str, status: str, infeasible: bool = False, **more: Any) -> Obj:
    """A running pod whose container was resized: what it asks for now, and what it was given."""
    made = pod({"app": "a"}, cpu=spec, memory="1Gi", **more)
    given = {"cpu": status, "memory": "1Gi"}
    made["status"] = {
        "containerStatuses": [
            {"name": "c", "allocatedResources": given, "resources": {"requests": given}}
        ]
    }
    if infeasible:
        condition = {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}
        made["status"]["conditions"] = [condition]
    return made


def _resized(r: random.Random) -> list[Obj]:
    residents = [
        _resize("1", "3"),
        _resize("3", "1"),
        _resize("3", "1", True),
        _resize("2", "2"),
        _resize("1", "2", initContainers=[_init("i", "2500m", "64Mi")]),
        _resize("1", "2", **_level({"cpu": "3"})),
    ]
    made = [node(f"n{index}", room={"cpu": "4", "memory": "4Gi"}) for index in range(6)]
    for index, each in enumerate(r.sample(residents, len(residents))):
        made.append(placed(f"e{index}", f"n{index}", each))
    return made


_BESIDE = {
    "one-cpu": lambda r: _asks(cpu="1"),
    "two-cpus": lambda r: _asks(cpu="2"),
    "three-cpus": lambda r: _asks(cpu="3"),
    "a-bit": lambda r: _asks(cpu="10m"),
    "memory": lambda r: _asks(cpu="1", memory="2Gi"),
}

KINDS = [
    Kind("resource-requests", _cluster, _RULES, _CONFIGS),
    Kind("resource-resizes", _resized, _BESIDE),
]
