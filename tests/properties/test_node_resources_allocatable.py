"""NodeResourcesAllocatable's columns against Go's arithmetic, node by node."""

from hypothesis import given
from hypothesis import strategies as st

from eventsched.plugins.gallery.node_resources_allocatable import (
    NodeResourcesAllocatable,
    NodeResourcesAllocatableArgs,
    WeightedResource,
)
from tests.builders import added, engine_of, make_node, make_pod, observed
from tests.properties.strategies import deterministic

GPU = "example.com/gpu"
RESOURCES = ("cpu", "memory", GPU)
AMOUNTS = st.integers(0, 20) | st.sampled_from([2**31, 2**42, 2**53])
WEIGHTS = st.integers(1, 7) | st.sampled_from([2**20, 2**30, 2**62])


def wrapped(number: int) -> int:
    """As int64 holds it."""
    return (number + 2**63) % 2**64 - 2**63


def truncated(number: int, divisor: int) -> int:
    """Go's quotient."""
    return number // divisor if number >= 0 else -(-number // divisor)


def expected(weights: dict[str, int], mode: str, sizes: list[tuple[int, ...]]) -> list[int]:
    """The scores of nodes of these sizes."""
    raw = []
    for size in sizes:
        amounts = dict(zip(RESOURCES, size, strict=True))
        sign = 1 if mode == "Most" else -1
        total = sum(wrapped(sign * amounts[name] * weight) for name, weight in weights.items())
        raw.append(truncated(wrapped(total), sum(weights.values())))
    low, high = min(raw), max(raw)
    return [(each - low) * 100 // (high - low) if high > low else 0 for each in raw]


@deterministic(100)
@given(
    st.dictionaries(st.sampled_from(RESOURCES), WEIGHTS, min_size=1),
    st.sampled_from(["Least", "Most"]),
    st.lists(st.tuples(AMOUNTS, AMOUNTS, AMOUNTS), min_size=1, max_size=6),
)
def test_columns_are_what_go_computes(
    weights: dict[str, int], mode: str, sizes: list[tuple[int, ...]]
) -> None:
    """Sums that leave int64 wrap; quotients are cut off towards 0."""
    if sum(weights.values()) >= 2**63:
        weights = {name: weight // 4 + 1 for name, weight in weights.items()}
    resources = tuple(WeightedResource(name, weight) for name, weight in weights.items())
    engine = engine_of(
        NodeResourcesAllocatable(NodeResourcesAllocatableArgs(mode, resources)),
    )
    nodes = [
        make_node(f"n{n}", cpu=cpu, memory=memory, extra={GPU: gpus})
        for n, (cpu, memory, gpus) in enumerate(sizes)
    ]
    observed(engine, *added(*nodes))
    judged = engine.judge(make_pod(cpu=0, memory=0))
    assert [int(total) for total in judged.totals] == expected(weights, mode, sizes)
