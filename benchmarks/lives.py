"""What a month of an autoscaled cluster does to the engine (docs/adr/0024-rows-are-reused.md).

Runs a simulation without a log in which each of 1,000 nodes is replaced once a day and 1,000 pods
arrive a day, each for half a day: with rows that are reused, and with a new row for every node, as
before. Prints CPU time an attempt, rows, memory and the size of a snapshot on some days, and the
ratio of the last day to the first. Usage:

    python -m benchmarks.lives [DAYS]
"""

import multiprocessing
import resource
import sys
import time
from unittest.mock import patch

from eventsched.cluster.in_memory.cluster import InMemoryCluster
from eventsched.cluster.sources import generated
from eventsched.domain.units import SECOND
from eventsched.runtime.assembly import assemble
from eventsched.runtime.simulation.simulation import Simulation
from eventsched.scheduling import seen_stimuli

DAY = 86_400 * SECOND
PODS_A_DAY = 1_000
LOAD = "nodes=1000,pods={},shape=mixed,rate=0.0115740,runtime=43200,node-life=1d"


def main(days: int) -> None:
    """Both variants, each in a process of its own: peak memory is one of a process."""
    print("rows       day   rows  µs/attempt  MB  snapshot kB")
    for variant, rest in (("reused", seen_stimuli.ROW_REST), ("always new", 2**62)):
        process = multiprocessing.get_context("spawn").Process(
            target=live, args=(variant, rest, days)
        )
        process.start()
        process.join()


def live(variant: str, rest: int, days: int) -> None:
    """One variant: ``rest`` is how long (µs) a row stays free."""
    load = generated.parse(LOAD.format(days * PODS_A_DAY))
    cluster = InMemoryCluster(load.nodes(), load.pods(), churn=load.node_churn())
    costs: list[float] = []
    with patch.object(seen_stimuli, "ROW_REST", rest):
        simulation = Simulation(assemble(), cluster, None)
        attempts, used = 0, time.process_time()
        for day in range(1, days + 1):
            simulation.run(day * DAY)
            now, made = time.process_time(), simulation.counters.attempts
            costs.append((now - used) * 1e6 / max(1, made - attempts))
            if day in (1, 2, 5, 10, 15, 20, 25, days):
                _print(variant, day, simulation, costs[-1])
            attempts, used = made, time.process_time()
    print(f"{variant}: the last day costs {costs[-1] / costs[0]:.2f} times the first")


def _print(variant: str, day: int, simulation: Simulation, cost: float) -> None:
    rows = simulation.engine.state.nodes.size
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    size = len(simulation.engine.snapshot()) // 1000
    print(f"{variant:10} {day:3} {rows:6} {cost:11.0f} {memory:4} {size:12}", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 33)
