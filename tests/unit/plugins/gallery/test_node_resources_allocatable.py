"""NodeResourcesAllocatable. The inputs of most cases are those of scheduler-plugins,
pkg/noderesources/allocatable_test.go; what comes of them is worked out from its rule."""

import pytest

from eventsched.domain.objects import Node
from eventsched.plugins.gallery.node_resources_allocatable import (
    NodeResourcesAllocatable,
    NodeResourcesAllocatableArgs,
    WeightedResource,
)
from tests.builders import added, engine_of, make_node, make_pod, observed

MIB, GIB = 2**20, 2**30
DEFAULT: tuple[WeightedResource, ...] = ()
CPU = (WeightedResource("cpu", GIB), WeightedResource("memory", 1))


def node(number: int, cpu: int, memory: int) -> Node:
    """A node with this much allocatable CPU (millicores) and memory (bytes)."""
    return make_node(f"machine{number}", cpu=cpu, memory=memory)


def scores(args: NodeResourcesAllocatableArgs, *nodes: Node) -> list[int]:
    """What the nodes come to for a pod that asks for nothing, in their order."""
    engine = engine_of(NodeResourcesAllocatable(args))
    observed(engine, *added(*nodes))
    judged = engine.judge(make_pod(cpu=0, memory=0))
    return [int(total) for total in judged.totals]


@pytest.mark.parametrize(
    ("mode", "resources", "sizes", "expected"),
    [
        ("Least", DEFAULT, [(4000, 10000), (4000, 10000)], [0, 0]),
        ("Least", DEFAULT, [(4000, 10000), (6000, 10000)], [100, 0]),
        ("Most", DEFAULT, [(4000, 10000), (6000, 10000)], [0, 100]),
        ("Least", DEFAULT, [(10000, 20000), (10000, 20000)], [0, 0]),
        ("Least", DEFAULT, [(4000, 1000), (5000, 1000)], [100, 0]),
        ("Most", DEFAULT, [(4000, 1000), (5000, 1000)], [0, 100]),
        ("Least", CPU, [(1000, 2000), (1005, 1000)], [100, 0]),
        ("Most", CPU, [(1000, 2000), (1005, 1000)], [0, 100]),
        ("Least", DEFAULT, [(n * 1000, n * 1000 * MIB) for n in (1, 2, 3)], [100, 50, 0]),
        ("Most", DEFAULT, [(n * 1000, n * 1000 * MIB) for n in (1, 2, 3)], [0, 50, 100]),
        ("", DEFAULT, [(4000, 10000), (6000, 10000)], [100, 0]),
        # (7 - 1) * 100 / 9, cut off.
        ("Most", (WeightedResource("cpu", 1),), [(1, 0), (7, 0), (10, 0)], [0, 66, 100]),
        # Means of -3/2 and -1/2, cut off towards 0: -1 and 0.
        (
            "Least", (WeightedResource("cpu", 1), WeightedResource("memory", 1)),
            [(1, 2), (1, 0), (2, 2)], [50, 100, 0],
        ),
    ],
)  # fmt: skip
def test_sizes_and_scores(
    mode: str,
    resources: tuple[WeightedResource, ...],
    sizes: list[tuple[int, int]],
    expected: list[int],
) -> None:
    """By mode and weights."""
    nodes = [node(number, cpu, memory) for number, (cpu, memory) in enumerate(sizes)]
    assert scores(NodeResourcesAllocatableArgs(mode, resources), *nodes) == expected


def test_extended_resources_count_and_the_number_of_pods_does_not() -> None:
    """Of what no node offers all have 0; of a resource named twice the last weight counts."""
    nodes = [
        make_node("a", pods=10, extra={"example.com/gpu": 4}),
        make_node("b", pods=500, extra={"example.com/gpu": 1}),
        make_node("c", pods=20),
    ]
    gpu = WeightedResource("example.com/gpu", 3)
    assert scores(NodeResourcesAllocatableArgs("Most", (gpu,)), *nodes) == [100, 25, 0]
    others = (WeightedResource("pods", 1), WeightedResource("example.com/none", 1))
    assert scores(NodeResourcesAllocatableArgs("Most", others), *nodes) == [0, 0, 0]
    assert scores(NodeResourcesAllocatableArgs("Most", (gpu, *others)), *nodes) == [100, 0, 0]
    twice = (WeightedResource("cpu", 2**40), WeightedResource("cpu", 1), gpu)
    small = make_node("d", cpu=1, extra={"example.com/gpu": 4})
    large = make_node("e", cpu=20, extra={"example.com/gpu": 4})
    assert scores(NodeResourcesAllocatableArgs("Most", twice), small, large) == [0, 100]
