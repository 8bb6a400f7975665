"""Simulated histories in memory, and runs over them under other rules."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from eventsched.cluster.in_memory.cluster import InMemoryCluster
from eventsched.cluster.sources.arrivals import TracePod
from eventsched.domain.detail_levels import SUMMARY, DetailLevels
from eventsched.domain.objects import Node
from eventsched.domain.state.scheduler_state import SchedulerState
from eventsched.eventlog.memory import MemoryEventLog
from eventsched.runtime.assembly import Assembly, assemble, assemble_text
from eventsched.runtime.queries.state_at import FoldedState, Opening, is_opening
from eventsched.runtime.queries.what_if.history_run import Stretch
from eventsched.runtime.queries.what_if.pod_fates import PodFate
from eventsched.runtime.queries.what_if.rules import OtherRules
from eventsched.runtime.simulation.simulation import Simulation

MOST_ALLOCATED = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- pluginConfig:
  - name: NodeResourcesFit
    args:
      scoringStrategy:
        type: MostAllocated
        resources: [{name: cpu, weight: 1}, {name: memory, weight: 1}]
  plugins: {score: {disabled: [{name: NodeResourcesBalancedAllocation}]}}
"""
NO_PREEMPTION = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins: {postFilter: {disabled: [{name: DefaultPreemption}]}}
"""


def simulated(
    nodes: Sequence[Node], arrivals: Iterable[TracePod], assembly: Assembly | None = None
) -> tuple[Simulation, MemoryEventLog]:
    """A simulation that has run to its end, and its log."""
    log = MemoryEventLog()
    cluster = InMemoryCluster(nodes, arrivals)
    made = assembly or assemble()
    simulation = Simulation(made, cluster, log, detail_levels=DetailLevels(SUMMARY))
    simulation.run()
    return simulation, log


def configured(text: str, folder: Path) -> Assembly:
    """The assembly of a configuration."""
    (folder / "config.yaml").write_text(text)
    return assemble(folder / "config.yaml")


def whole(log: MemoryEventLog, first: int = 0, end: int | None = None) -> Stretch:
    """A log from a position on."""
    state, opening = SchedulerState(), None
    for stored in log.read():
        if stored.position >= first:
            break
        record = stored.record
        state.apply(record, stored.at)
        if is_opening(record):
            opening = record
    return Stretch(log, FoldedState(state, first, 0, opening), log.head if end is None else end)


def recorded(opening: Opening) -> Assembly:
    """The rules that a record puts in force."""
    return assemble_text(opening.configuration, (), "the log", opening.plugins, opening.flags)


SAME = OtherRules("recorded", recorded)


def rules(chosen: Assembly) -> OtherRules:
    """Other rules."""
    return OtherRules("config.yaml", recorded, chosen)


def moved(fates: Iterable[PodFate]) -> list[tuple[str, str, str]]:
    """The pods that differ: name, node before, node after."""
    return [(fate.name, fate.before.node, fate.after.node) for fate in fates if fate.differs]
