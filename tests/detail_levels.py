"""Runs of two profiles in which pods displace others, at any level of detail."""

from dataclasses import replace
from typing import Any

import msgspec

from eventsched.cluster.in_memory.cluster import InMemoryCluster
from eventsched.cluster.sources.load import Source
from eventsched.domain.detail_levels import DetailLevels
from eventsched.eventlog.memory import MemoryEventLog
from eventsched.eventlog.port import EventLog
from eventsched.plugins import IN_TREE
from eventsched.runtime.assembly import Assembly, assemble_loaded
from eventsched.runtime.simulation.simulation import Simulation
from eventsched.scheduling.config import configuration
from tests.builders import SECOND, make_node
from tests.displacing import Hesitant, crowded

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins: {multiPoint: {enabled: [{name: Hesitant}]}}
- schedulerName: batch
  plugins: {multiPoint: {enabled: [{name: Hesitant}]}}
"""


def assembly() -> Assembly:
    loaded = configuration.load(CONFIG, "test.yaml")
    return assemble_loaded(loaded, "test.yaml", {**IN_TREE, "Hesitant": Hesitant})


def source() -> Source:
    """Crowded nodes, on which important pods displace others, and tainted ones; every second pod is
    of another profile."""
    found = crowded(3, nodes=20, pods=140)
    arrivals = [
        replace(arrival, pod=msgspec.structs.replace(arrival.pod, scheduler_name="batch"))
        if number % 2
        else arrival
        for number, arrival in enumerate(found.arrivals)
    ]
    small = [make_node(f"small{number}", cpu=100) for number in range(5)]
    return replace(found, nodes=[*found.nodes, *small], arrivals=arrivals)


def run_at(levels: DetailLevels, log: EventLog, **more: Any) -> None:
    """Writes the log of a run at these levels."""
    found = source()
    cluster = InMemoryCluster(found.nodes, found.arrivals, found.bound, objects=found.objects)
    Simulation(assembly(), cluster, log, detail_levels=levels, **more).run(16 * SECOND)


def logged(levels: DetailLevels) -> MemoryEventLog:
    """The log of such a run, in memory."""
    log = MemoryEventLog()
    run_at(levels, log)
    return log
