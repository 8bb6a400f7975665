"""A simulation ends, also where pods fail for as long as virtual time goes on."""

from typing import Any

import pytest

from eventsched.cluster.arrivals import TracePod
from eventsched.cluster.simulated import SimulatedCluster
from eventsched.eventlog.memory import MemoryEventLog
from eventsched.plugins import IN_TREE
from eventsched.runtime import simulation as simulating
from eventsched.runtime.assembly import assembled
from eventsched.runtime.report import Report
from eventsched.runtime.simulation import Simulation
from eventsched.scheduling.config import configuration
from eventsched.scheduling.framework import Status
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


def test_a_pod_that_is_refused_after_it_had_a_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is tried again and again; once no others go any more the run is given up, and says why."""
    monkeypatch.setattr(simulating, "HOPELESS_AFTER", 12)
    known = {**IN_TREE, Unwilling.name: Unwilling}
    read = configuration.load(CONFIGURATION, "test.yaml")
    assembly = assembled(read, "test.yaml", known, CONFIGURATION)
    others = [TracePod(make_pod(f"p{n}"), arrives_at=n * 60 * SECOND) for n in range(9)]
    pods = [TracePod(make_pod("bad"), arrives_at=0), *others]
    cluster = SimulatedCluster([make_node(cpu=64_000, memory=64 * GIB)], pods)
    log = MemoryEventLog()
    run = Simulation(assembly, cluster, log)
    tally = run.run(until=100_000 * SECOND)
    assert (tally.placed, tally.errors_in_a_row) == (9, 12)
    said = "the last 12 attempts all failed; the last one: not this one"
    assert Report.of(run, log, 1.0).stopped == said
