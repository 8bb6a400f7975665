"""A state, written as manifests and read by a simulation, is the same nodes, pods and books."""

import json
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from eventsched.cluster.in_memory.cluster import InMemoryCluster
from eventsched.cluster.sources import load
from eventsched.domain.objects import PodSpec
from eventsched.domain.state.scheduler_state import SchedulerState
from eventsched.history.past_state.state_manifests import state_manifests
from eventsched.plugins.node_resources_fit import NodeResourcesFit
from eventsched.plugins.taint_toleration import TaintToleration
from tests.builders import engine_of

from .driving import Driver, engine_operations, node_operations, usage_operations
from .strategies import deterministic, simple_specs


def as_read(state: SchedulerState) -> SchedulerState:
    """The state of a simulation that has begun with the manifests of this one."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "state.json"
        file.write_text(json.dumps({"kind": "List", "items": list(state_manifests(state))}))
        source = load.read(nodes=None, pods=None, objects=[file], generate=None)
    engine = engine_of(NodeResourcesFit(), TaintToleration())
    cluster = InMemoryCluster(source.nodes, source.arrivals, source.bound, objects=source.objects)
    for stimulus in cluster.due_stimuli(0):
        engine.observe(stimulus, 0)
    return engine.state


def nodes_of(state: SchedulerState) -> dict[str, Any]:
    """Nodes by name: the object, what is requested of it, and the pods on it."""
    table = state.nodes
    return {
        name: (
            table.nodes[row],
            {
                resource: table.books[row, 1:, index].tolist()
                for resource, index in table.resource_index.items()
                if any(table.books[row, :, index])
            },
            {key: amount for key, amount in table.unoffered.get(row, {}).items() if amount},
            [pod.name for pod in table.residents[row].values()],
        )
        for name, row in table.rows.items()
    }


@deterministic(60)
@given(
    st.lists(simple_specs, min_size=3, max_size=3),
    st.lists(node_operations, min_size=2, max_size=6),
    st.lists(engine_operations | usage_operations | node_operations, max_size=25),
)
def test_manifests_of_a_state_are_the_state(
    shapes: list[PodSpec], first: list[Any], later: list[Any]
) -> None:
    driver = Driver(engine_of(NodeResourcesFit(), TaintToleration()), shapes)
    for operation in (*first, *later):
        driver.play(operation)
    state = driver.engine.state
    if not state.nodes.rows:
        return  # no simulation is without nodes
    again = as_read(state)

    assert list(nodes_of(again)) == [n.name for n in state.nodes.nodes if n is not None]
    assert nodes_of(again) == nodes_of(state)
    places = {each.pod.name: each.booked_node for each in state.pods.values()}
    assert {each.pod.name: each.booked_node for each in again.pods.values()} == places
    specs = {each.pod.name: each.pod.spec for each in state.pods.values()}
    assert {each.pod.name: each.pod.spec for each in again.pods.values()} == specs
