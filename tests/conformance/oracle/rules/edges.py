"""Numbers at the edges of int64, for every plugin that computes: resources of nodes and pods, sizes
of images, weights of terms and of plugins, numbers of taints, skews."""

import random
from collections.abc import Callable
from typing import Any

from tests.conformance.oracle.clusters import HOSTNAME, ZONE, Obj
from tests.conformance.oracle.pods import PREFERRED, REQUIRED
from tests.conformance.oracle.profiles import document
from tests.conformance.oracle.rules.resources import _fit, _strategy
from tests.conformance.oracle.rules.vocabulary import (
    Kind,
    container,
    matching,
    node,
    placed,
    pod,
    where,
    zoned,
)

GPU = "example.com/gpu"
LARGEST, HALF = 2**63 - 1, 2**62
INT32 = 2**31 - 1

# Written in each of the ways in which upstream holds a number: as an int64 and a power of ten, or
# exactly; at and beyond what int64 holds, what a hundredfold of it holds, what a float holds.
_CPU = ["9223372036854775807", "9223372036854775", "9223372036854776", "92233720368547758",
        "9223372036854775807m", "9223372036854775808m", "4611686018427387904m", "8Ei", "4Ei", "1E",
        "10E", "9E", "1e30", "18446744073709551615", "9007199254740993m", "92233720368547759m",
        "92233720368547758m", "46116860184273879050m", "4", "16"]  # fmt: skip
_BYTES = ["9223372036854775807", "9223372036854775808", "18446744073709551615", "8Ei", "7Ei", "4Ei",
          "4611686018427387904", "4611686018427387905", "92233720368547759", "92233720368547758",
          "1E", "9E", "10E", "10000000000000000000", "1e30", "12345678901234567890123",
          "9007199254740993", "1.5Ei", "9.5E", "16Gi", "64Gi"]  # fmt: skip
_COUNTS = ["9223372036854775807", "9223372036854775808", "8Ei", "10E", "2147483648", "110", "1"]


def _room(r: random.Random) -> Obj:
    """What a node offers: often a number at an edge, sometimes an ordinary one."""
    room = {"cpu": r.choice(_CPU), "memory": r.choice(_BYTES), "pods": r.choice([*_COUNTS, "110"])}
    if r.random() < 0.5:
        room["ephemeral-storage"] = r.choice(_BYTES)
    if r.random() < 0.5:
        room[GPU] = r.choice(_COUNTS)
    return room


def _cluster(r: random.Random) -> list[Obj]:
    made = [
        node("ordinary", room={"cpu": "8", "memory": "16Gi", GPU: "4"}),
        node("largest", room={"cpu": "9223372036854775807", "memory": "8Ei"}),
    ]
    made += [node(f"n{index}", room=_room(r)) for index in range(10)]
    for index in range(r.randint(0, 8)):
        rule = _PODS[r.choice(_RESIDENTS)]
        made.append(placed(f"e{index}", r.choice(made[:12])["metadata"]["name"], rule(r)))
    return made


def _asks(**more: Any) -> Obj:
    return pod({"app": "a"}, **more)


def _two(cpu: str, memory: str) -> Obj:
    return _asks(containers=[container("c", cpu, memory), container("d", cpu, memory)])


_RESIDENTS = ["small", "nothing", "half-of-all-twice", "largest-memory", "millions", "largest-gpus"]
_PODS: dict[str, Callable[[random.Random], Obj]] = {
    "small": lambda r: _asks(cpu="100m", memory="64Mi"),
    "nothing": lambda r: _asks(requests={}),
    "cpu-alone": lambda r: _asks(requests={"cpu": "2"}),
    "some-of-all": lambda r: _asks(
        requests={"cpu": "1", "memory": "1Gi", "ephemeral-storage": "1Gi", GPU: "1"}
    ),
    "largest-cpu": lambda r: _asks(cpu="9223372036854775807", memory="64Mi"),
    "largest-milli-cpu": lambda r: _asks(cpu="9223372036854775807m", memory="64Mi"),
    "largest-memory": lambda r: _asks(cpu="1", memory="8Ei"),
    "largest-gpus": lambda r: _asks(requests={"cpu": "1", GPU: "9223372036854775807"}),
    "beyond-memory": lambda r: _asks(cpu="1", memory="9223372036854775808"),
    "wraps-to-nothing": lambda r: _asks(cpu="1", memory="18446744073709551616"),
    "too-short-a-form": lambda r: _asks(cpu="1", memory="10E"),
    "half-of-all": lambda r: _asks(cpu="4611686018427387903m", memory="4Ei"),
    "half-of-all-twice": lambda r: _two("4611686018427387904m", "4Ei"),
    "largest-memory-twice": lambda r: _two("1", "8Ei"),
    "millions": lambda r: _asks(cpu="1000000", memory="1Pi"),
    "beyond-a-float": lambda r: _asks(cpu="4503599627370497m", memory="9007199254740993"),
    "a-hundredth": lambda r: _asks(cpu="92233720368547758m", memory="92233720368547758"),
    "largest-overhead": lambda r: _asks(overhead={"memory": "8Ei"}, cpu="1", memory="1"),
    "any": lambda r: _asks(cpu=r.choice(_CPU), memory=r.choice(_BYTES)),
    "any-storage": lambda r: _asks(requests={"ephemeral-storage": r.choice(_BYTES)}),
}

_SHAPE = ", requestedToCapacityRatio: {shape: [%s]}"
_BALANCED = "  - name: NodeResourcesBalancedAllocation\n    args:\n      resources: [%s]\n"
_THREE = ", ".join(f"{{name: {name}, weight: 1}}" for name in ("cpu", "memory", GPU))
_CONFIGS = (
    "",
    document(arguments=_strategy("MostAllocated", "{name: cpu, weight: 100}, {name: memory}")),
    document(
        arguments=_strategy(
            "RequestedToCapacityRatio",
            "{name: cpu, weight: 1}, {name: memory, weight: 100}",
            _SHAPE % "{utilization: 0, score: 10}, {utilization: 100, score: 0}",
        )
    ),
    document(
        arguments=_strategy(
            "LeastAllocated",
            "{name: memory, weight: 100}, {name: ephemeral-storage, weight: 99},"
            f" {{name: {GPU}, weight: 98}}",
        )
        + _BALANCED % _THREE
    ),
    document(
        arguments=_fit("      ignoredResources: [example.com/gpu]\n")
        + _BALANCED % "{name: ephemeral-storage}, {name: memory}"
    ),
    document(
        arguments=_strategy(
            "RequestedToCapacityRatio",
            f"{{name: cpu, weight: 2}}, {{name: {GPU}, weight: 1}}",
            _SHAPE % "{utilization: 10, score: 1}, {utilization: 70, score: 9}",
        )
    ),
)

# Images

_SIZES = [0, 1, 23 * 2**20, 1000 * 2**20, 2**53 + 1, 2**56, 2**62, 2**62 + 1, LARGEST - 1, LARGEST]


def _holders(r: random.Random) -> list[Obj]:
    made = []
    for index in range(r.choice([1, 3, 7])):
        held = [
            {"names": [f"i{image}:v1"], "sizeBytes": r.choice(_SIZES)}
            for image in range(6)
            if r.random() < 0.7
        ]
        made.append(node(f"n{index}", status={"images": held}))
    return made


def _images(*names: str, **more: Any) -> Obj:
    made = [container(f"c{index}", image=name) for index, name in enumerate(names)]
    return pod({"app": "a"}, containers=made, **more)


_IMAGES = {
    "one": lambda r: _images("i0:v1"),
    "two": lambda r: _images("i0:v1", "i1:v1"),
    "one-twice": lambda r: _images("i2:v1", "i2:v1"),
    "all": lambda r: _images(*(f"i{index}:v1" for index in range(6))),
    "many-of-one": lambda r: _images(*["i3:v1"] * 40),
    "as-init-container": lambda r: _images("i4:v1", initContainers=[container(image="i5:v1")]),
    "as-volume": lambda r: _images(
        "i0:v1", volumes=[{"name": "v", "image": {"reference": "i1:v1"}}]
    ),
}

# Weights, counts, skews


def _prefers(*weights: int) -> Obj:
    labels = [where(ZONE, "In", "zone-a"), where("disk", "In", "ssd"), where(HOSTNAME, "Exists")]
    terms = [{"weight": w, "preference": labels[i % 3]} for i, w in enumerate(weights)]
    return pod({"app": "a"}, affinity={"nodeAffinity": {PREFERRED: terms}})


def _near(weight: int, kind: str = "podAffinity", key: str = ZONE) -> Obj:
    term = {"topologyKey": key, "labelSelector": matching(app="a")}
    return pod(
        {"app": "a"}, affinity={kind: {PREFERRED: [{"weight": weight, "podAffinityTerm": term}]}}
    )


def _spreads(*skews: int, key: str = ZONE) -> Obj:
    soft = [
        {
            "maxSkew": skew,
            "topologyKey": key,
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": matching(app="a"),
        }
        for skew in skews
    ]
    return pod({"app": "a"}, topologySpreadConstraints=soft)


def _weighed(r: random.Random) -> list[Obj]:
    made = zoned(r, r.choice([2, 4, 7]))
    for each in made:
        count = r.choice([0, 0, 1, 3, 200])
        each["spec"]["taints"] = [
            {"key": f"k{index}", "effect": "PreferNoSchedule"} for index in range(count)
        ]
    names = [each["metadata"]["name"] for each in made]
    rules = [_near(100), _near(100, "podAntiAffinity"), _near(1), pod({"app": "a"})]
    required = {"topologyKey": ZONE, "labelSelector": matching(app="a")}
    rules.append(pod({"app": "a"}, affinity={"podAffinity": {REQUIRED: [required]}}))
    for index in range(r.randint(1, 12)):
        made.append(placed(f"e{index}", r.choice(names), _copy(r.choice(rules))))
    return made


def _copy(made: Obj) -> Obj:
    return {**made, "metadata": dict(made["metadata"]), "spec": dict(made["spec"])}


_WEIGHTS = {
    "plain": lambda r: pod({"app": "a"}),
    "largest-term": lambda r: _prefers(100),
    "largest-terms": lambda r: _prefers(*[100] * 50),
    "large-and-small": lambda r: _prefers(100, 1, 1, 99),
    "near": lambda r: _near(100),
    "away": lambda r: _near(100, "podAntiAffinity"),
    "near-by-host": lambda r: _near(100, key=HOSTNAME),
    "largest-skew": lambda r: _spreads(INT32),
    "largest-skews": lambda r: _spreads(INT32, INT32, INT32 - 1),
    "skew-of-one": lambda r: _spreads(1),
    "skew-by-host": lambda r: _spreads(INT32, 7, key=HOSTNAME),
    "tolerates-some": lambda r: pod(
        {"app": "a"},
        tolerations=[{"key": f"k{index}", "operator": "Exists"} for index in range(99)],
    ),
}

_LARGEST_WEIGHTS = """\
    score:
      disabled: [{name: '*'}]
      enabled: [%s]
"""
_ALL = ("NodeResourcesFit", "ImageLocality", "TaintToleration", "NodeAffinity", "InterPodAffinity",
        "PodTopologySpread", "NodeResourcesBalancedAllocation")  # fmt: skip
_WEIGHT_CONFIGS = (
    "",
    document(
        _LARGEST_WEIGHTS % ", ".join(f"{{name: {name}, weight: {INT32}}}" for name in _ALL),
        "  - name: InterPodAffinity\n    args: {hardPodAffinityWeight: 100}\n",
    ),
)

KINDS = [
    Kind("edges-resources", _cluster, _PODS, _CONFIGS),
    Kind("edges-images", _holders, _IMAGES),
    Kind("edges-weights", _weighed, _WEIGHTS, _WEIGHT_CONFIGS),
]
