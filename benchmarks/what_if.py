"""``python -m benchmarks.what_if``: decisions that a what-if run makes, for each second of CPU.

Histories are made by the simulation and kept in memory, so that reading a database is left out. A
closed loop decides them again by rules that fill nodes instead of spreading pods: its placements
differ from the first pods on. An open loop decides each attempt from history's state.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks import runs
from eventsched.cluster.in_memory.cluster import InMemoryCluster
from eventsched.domain.detail_levels import SUMMARY, DetailLevels
from eventsched.domain.state.scheduler_state import SchedulerState
from eventsched.eventlog.memory import MemoryEventLog
from eventsched.output.terminal.tables import table
from eventsched.runtime.assembly import Assembly, assemble, assemble_text
from eventsched.runtime.queries.state_at import FoldedState, Opening
from eventsched.runtime.queries.what_if.history_run import Stretch, run_closed, run_open
from eventsched.runtime.queries.what_if.rules import OtherRules
from eventsched.runtime.simulation.simulation import Simulation

_FILLING = """
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


def main() -> int:
    """Makes histories, decides them again, and prints a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.what_if", description=__doc__)
    parser.add_argument("only", nargs="?", default="", help="a word of the loads' names")
    parser.add_argument("--pods", type=int, default=10_000, help="of each generated load")
    parser.add_argument("--nodes", type=int, default=1_000, help="of each generated load")
    options = parser.parse_args()
    measured = [
        result
        for load in _loads(options.nodes, options.pods)
        if options.only in load.name
        for result in _measured(load)
    ]
    header = ("load", "loop", "rules", "decisions", "otherwise", "cpu s", "decisions/s")
    rows = [
        [each["load"], each["loop"], each["rules"], each["decisions"], each["otherwise"],
         f"{each['cpu']:.2f}", f"{each['decisions'] / each['cpu']:,.0f}"]
        for each in measured
    ]  # fmt: skip
    print(table(header, rows))
    return 0


def _loads(nodes: int, pods: int) -> Iterator[runs.Load]:
    for shape in ("plain", "mixed", "tight"):
        yield runs.generated_load(shape, nodes, pods)
    folder = os.environ.get("EVENTSCHED_TRACES")
    if folder:
        yield runs.openb_load(Path(folder))
    else:
        print("openb: skipped; set EVENTSCHED_TRACES to the folder of its lists", file=sys.stderr)


def _measured(load: runs.Load) -> Iterator[dict[str, Any]]:
    log = MemoryEventLog()
    cluster = InMemoryCluster(load.nodes, load.pods, load.bound)
    Simulation(assemble(), cluster, log, detail_levels=DetailLevels(SUMMARY)).run()
    other = OtherRules("filling", _recorded, _filling())
    for rules in (OtherRules("recorded", _recorded), other):
        stretch = _whole(log)
        started = time.process_time()
        outcome = run_closed(stretch, rules)
        cpu = time.process_time() - started
        otherwise = sum(fate.differs for fate in outcome.fates)
        yield _row(load, "closed", rules, outcome.after.decisions, otherwise, cpu)
    stretch = _whole(log)
    started = time.process_time()
    loop = run_open(stretch, other)
    cpu = time.process_time() - started
    yield _row(load, "open", other, loop.decisions, len(loop.others), cpu)


def _row(
    load: runs.Load, loop: str, rules: OtherRules, decisions: int, otherwise: int, cpu: float
) -> dict[str, Any]:
    return {
        "load": load.name, "loop": loop, "rules": rules.name, "decisions": decisions,
        "otherwise": otherwise, "cpu": cpu,
    }  # fmt: skip


def _whole(log: MemoryEventLog) -> Stretch:
    return Stretch(log, FoldedState(SchedulerState(), 0, 0, None), log.head)


def _recorded(opening: Opening) -> Assembly:
    return assemble_text(opening.configuration, (), "the log", opening.plugins, opening.flags)


def _filling() -> Assembly:
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(_FILLING)
        file.flush()
        return assemble(Path(file.name))


if __name__ == "__main__":
    raise SystemExit(main())
