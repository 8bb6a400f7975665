"""A simulation ends, also where pods fail for as long as virtual time goes on."""

from pathlib import Path
from typing import Any

import pytest

from eventsched.cluster.in_memory.cluster import InMemoryCluster
from eventsched.cluster.sources import load
from eventsched.cluster.sources.arrivals import TracePod
from eventsched.domain.objects import Pod
from eventsched.eventlog.memory import MemoryEventLog
from eventsched.plugins import IN_TREE
from eventsched.runtime.assembly import assemble, assemble_loaded
from eventsched.runtime.simulation import simulation as simulating
from eventsched.runtime.simulation.outcome import SimulationOutcome
from eventsched.runtime.simulation.repetition import REPEATS
from eventsched.runtime.simulation.resumption import new_or_resumed
from eventsched.runtime.simulation.simulation import Simulation
from eventsched.scheduling.config import configuration
from eventsched.scheduling.framework import Status
from eventsched.scheduling.framework.wait_results import Awaiting, Preparation
from eventsched.testing import GIB
from tests.builders import SECOND, make_node, make_pod


class Unwilling:
    """Refuses pods named bad as the last one."""

    name = "Unwilling"

    def pre_bind(self, cycle: Any, pod: Any, node: str) -> Status | None:
        return Status.unschedulable("not this one") if pod.name == "bad" else None


CONFIGURATION = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{plugins: {multiPoint: {enabled: [{name: Unwilling}]}}}]
"""


def test_a_run_with_a_pod_that_always_fails_after_it_had_a_node(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is tried again and again; once no others go any more the run is given up, and says why."""
    monkeypatch.setattr(simulating, "MAX_ERRORS_IN_A_ROW", 12)
    known = {**IN_TREE, Unwilling.name: Unwilling}
    read = configuration.load(CONFIGURATION, "test.yaml")
    assembly = assemble_loaded(read, "test.yaml", known, CONFIGURATION)
    others = [TracePod(make_pod(f"p{n}"), arrives_at=n * 60 * SECOND) for n in range(9)]
    pods = [TracePod(make_pod("bad"), arrives_at=0), *others]
    cluster = InMemoryCluster([make_node(cpu=64_000, memory=64 * GIB)], pods)
    log = MemoryEventLog()
    run = Simulation(assembly, cluster, log)
    counters = run.run(until=100_000 * SECOND)
    assert (counters.placed, counters.errors_in_a_row) == (9, 12)
    said = "the last 12 attempts all failed; the last one: not this one"
    assert SimulationOutcome.of(run, log, 1.0).stopped == said


class Absent:
    """Waits at PreBind for what never happens, a minute at most."""

    name = "Absent"

    def pre_bind(self, cycle: Any, pod: Pod, node: str) -> Preparation | Status | None:
        return Preparation((), 60) if pod.name.startswith("stuck") else None

    def prepared(self, cycle: Any, pod: Pod, node: str, nodes: Any) -> Awaiting:
        return Awaiting(frozenset({("PersistentVolumeClaim", pod.namespace, "data")}))


class Fickle(Absent):
    """Gives up with other words each time."""

    name = "Absent"

    def pre_bind(self, cycle: Any, pod: Pod, node: str) -> Preparation | Status | None:
        return Status.unschedulable(f"attempt {cycle.attempt}") if pod.name == "stuck" else None


def run_of(plugin: type, *pods: TracePod, nodes: int = 1) -> tuple[Simulation, MemoryEventLog]:
    """A simulation with that plugin."""
    text = CONFIGURATION.replace("Unwilling", plugin.name)  # type: ignore[attr-defined]
    known = {**IN_TREE, plugin.name: plugin}  # type: ignore[attr-defined]
    assembly = assemble_loaded(configuration.load(text, "test.yaml"), "test.yaml", known, text)
    there = [make_node(f"n{n}", cpu=64_000, memory=64 * GIB) for n in range(nodes)]
    log = MemoryEventLog()
    return Simulation(assembly, InMemoryCluster(there, pods), log), log


def test_a_pod_that_waits_for_something_that_never_happens() -> None:
    """The run ends when its rounds only repeat, after all others, and names the pod."""
    others = [TracePod(make_pod(f"p{n}"), arrives_at=n * 600 * SECOND) for n in range(4)]
    run, log = run_of(Absent, TracePod(make_pod("stuck"), arrives_at=0), *others)
    counters = run.run()
    assert counters.placed == 4
    assert counters.errors_in_a_row == REPEATS
    assert counters.now > others[-1].arrives_at  # type: ignore[operator]
    said = SimulationOutcome.of(run, log, 1.0).stopped
    assert said.startswith(
        f"only repetition is left: the last {REPEATS} rounds of default/stuck ended alike"
    )


def test_a_run_goes_on_while_one_pod_with_a_timer_does_not_repeat() -> None:
    """One that came later has had fewer rounds."""
    late = TracePod(make_pod("stuck-2"), arrives_at=500 * SECOND)
    run, log = run_of(Absent, TracePod(make_pod("stuck-1"), arrives_at=0), late)
    run.run()
    assert sorted(each.pod.name for each in run.repeats) == ["stuck-1", "stuck-2"]
    assert all(int(count) >= REPEATS for _, count, _ in run.counters.rounds.values())
    assert (
        "default/stuck-1 and 1 more pod ended alike" in SimulationOutcome.of(run, log, 1.0).stopped
    )


def test_a_run_to_a_given_time_does_not_end_early() -> None:
    run, log = run_of(Absent, TracePod(make_pod("stuck"), arrives_at=0))
    counters = run.run(until=5_000 * SECOND)
    assert counters.now == 5_000 * SECOND
    assert counters.attempts > REPEATS * 3
    assert SimulationOutcome.of(run, log, 1.0).stopped == ""


def test_a_different_message_each_time_is_no_repetition(monkeypatch: pytest.MonkeyPatch) -> None:
    """Something changes, and may come to an end: only the number of errors ends such a run."""
    monkeypatch.setattr(simulating, "MAX_ERRORS_IN_A_ROW", REPEATS * 3)
    run, log = run_of(Fickle, TracePod(make_pod("stuck"), arrives_at=0))
    assert run.run().errors_in_a_row == REPEATS * 3
    assert SimulationOutcome.of(run, log, 1.0).stopped.startswith("the last 30 attempts all failed")


DUMP = """
kind: List
apiVersion: v1
items:
- {apiVersion: v1, kind: Node, metadata: {name: n1},
   status: {allocatable: {cpu: "4", memory: 8Gi, pods: "110"}}}
- {apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: slow},
   provisioner: example.com/slow, volumeBindingMode: WaitForFirstConsumer}
- apiVersion: v1
  kind: PersistentVolumeClaim
  metadata: {name: data, namespace: default, uid: c1,
             annotations: {volume.kubernetes.io/selected-node: n1}}
  spec: {storageClassName: slow, accessModes: [ReadWriteOnce],
         resources: {requests: {storage: 1Gi}}}
  status: {phase: Pending}
- apiVersion: v1
  kind: Pod
  metadata: {name: web, namespace: default, uid: p1}
  spec:
    containers: [{name: a, image: a}]
    volumes: [{name: d, persistentVolumeClaim: {claimName: data}}]
"""


def test_a_claim_that_is_already_promised_to_a_node(tmp_path: Path) -> None:
    """As in the dump of a cluster whose provisioner is down: the message says who should act."""
    dump = tmp_path / "dump.yaml"
    dump.write_text(DUMP)
    log = MemoryEventLog()
    source = load.read(nodes=None, pods=None, objects=[dump], generate=None)
    run = new_or_resumed(assemble(), source, log, "s")
    run.run()
    said = SimulationOutcome.of(run, log, 1.0).stopped
    assert "rounds of default/web ended alike" in said
    assert said.endswith(
        "it waits for a volume of claim default/data, to be made by provisioner example.com/slow "
        "for node n1"
    )
