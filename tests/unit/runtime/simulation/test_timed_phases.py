"""The benchmark of the engine times methods by their names: each of them exists and is called."""

from benchmarks.runs import generated_load, timed_phases
from eventsched.cluster.in_memory.cluster import InMemoryCluster
from eventsched.eventlog.memory import MemoryEventLog
from eventsched.runtime.assembly import assemble
from eventsched.runtime.simulation.simulation import Simulation


def test_every_phase_is_timed() -> None:
    load, phases = generated_load("plain", 5, 20), dict[str, float]()
    cluster = InMemoryCluster(load.nodes, load.pods, load.bound)
    with timed_phases(phases):
        Simulation(assemble(), cluster, MemoryEventLog()).run()
    assert set(phases) == {
        "observe", "verdicts and scores", "vectors and digest", "choice", "encoding",
        "hashing and sending", "waiting for commits",
    }  # fmt: skip
    assert min(phases.values()) > 0
