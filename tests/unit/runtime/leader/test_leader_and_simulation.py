"""The leader's loop and the simulation decide alike on the same cluster (ADR 21)."""

from collections import Counter

import pytest

from benchmarks.loops import led, simulated
from benchmarks.runs import Load, generated_load
from eventsched.cluster.sources.arrivals import TracePod
from eventsched.runtime.assembly import assemble
from tests.builders import SECOND, make_node, make_pod


@pytest.mark.parametrize("shape", ["plain", "mixed", "tight"])
def test_both_bind_and_evict_the_same_pods_at_the_same_time(shape: str) -> None:
    load = generated_load(shape, nodes=12, pods=80)
    simulation, leader = simulated(load, assemble()), led(load, assemble())
    assert len(simulation.effects) > 40
    assert leader.effects == simulation.effects


def test_both_evict_the_same_pods() -> None:
    nodes = [make_node(f"n{number}", cpu=4000, pods=10) for number in range(3)]
    low = [TracePod(make_pod(f"low{number}", cpu=2000, priority=1)) for number in range(6)]
    high = [
        TracePod(make_pod(f"high{number}", cpu=3000, priority=9), 60 * SECOND)
        for number in range(3)
    ]
    load = Load("preemption", nodes, [*low, *high])
    simulation, leader = simulated(load, assemble()), led(load, assemble())
    assert Counter(name for name, _, _ in simulation.effects)["Evict"] == 6
    assert leader.effects == simulation.effects
