"""What is measured: a load, scheduled once, with or without a log, with or without phase timers."""

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import Any

from eventsched.cluster.in_memory.cluster import InMemoryCluster
from eventsched.cluster.sources import generated, openb
from eventsched.cluster.sources.arrivals import TracePod
from eventsched.domain.objects import Node, Pod
from eventsched.domain.objects.pod_requests import of as requests_of
from eventsched.eventlog.memory import MemoryEventLog
from eventsched.eventlog.postgres.writer import PostgresEventLog
from eventsched.runtime.assembly import assemble
from eventsched.runtime.effects import batches, committer
from eventsched.runtime.simulation.simulation import Simulation
from eventsched.scheduling import engine
from eventsched.scheduling import scheduling_cycle as attempts
from eventsched.scheduling.cycle import judgement_recording


@dataclass(frozen=True)
class Load:
    """A named load; its nodes and pods are made once and used for all of its runs."""

    name: str
    nodes: list[Node]
    pods: list[TracePod]
    bound: list[Pod] = field(default_factory=list)
    """Pods that are on nodes from the start; a run's time does not include seeing them."""


@dataclass(frozen=True)
class Result:
    """One run. ``phases`` are microseconds for each attempt, by phase."""

    placed: int
    attempts: int
    seconds: float
    bytes_per_pod: float
    digest: str
    phases: dict[str, float]
    halves: tuple[float, float] = (0.0, 0.0)
    """Seconds of the run up to a point in virtual time, and from there on."""

    @property
    def pods_per_second(self) -> float:
        """Pods placed for each second of the run."""
        return self.placed / self.seconds


def generated_load(shape: str, nodes: int, pods: int, rate: int = 0) -> Load:
    """The generator's load of that shape, seed 1. ``rate`` is in pods a (virtual) second; with 0
    all pods arrive at once, and all binds are reported at once."""
    arrivals = f",rate={rate}" if rate else ""
    load = generated.parse(f"nodes={nodes},pods={pods},shape={shape},seed=1{arrivals}")
    name = f"{shape} {nodes:,} nodes" + (f" {rate:,} pods/s" if rate else "")
    return Load(name, load.nodes(), list(load.pods()))


def openb_load(folder: Path) -> Load:
    """The openb trace at its own times."""
    nodes = openb.read_nodes(folder / "openb_node_list_all_node.csv.gz")
    pods = openb.read_pods(folder / "openb_pod_list_default.csv.gz")
    return Load("openb 1,523 nodes", nodes, pods)


def run(
    load: Load,
    *,
    logged: bool = True,
    timed: bool = False,
    log: MemoryEventLog | PostgresEventLog | None = None,
    half: int | None = None,
) -> Result:
    """Schedules a load, into a log in memory if none is given. The time is that of the run
    alone, from the first stimulus to the end; ``half`` is where (virtual µs) it is divided."""
    cluster = InMemoryCluster(load.nodes, load.pods, load.bound)
    if logged and log is None:
        log = MemoryEventLog()
    simulation = Simulation(assemble(), cluster, log)
    if load.bound:
        simulation.run(until=0)
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 50, 100)
    phases: dict[str, float] = {}
    with timed_phases(phases) if timed else _nothing():
        started = time.perf_counter()
        if half is not None:
            simulation.run(until=half)
        middle = time.perf_counter()
        simulation.run()
        ended = time.perf_counter()
        seconds = ended - started
    gc.unfreeze()
    tally = simulation.counters
    per = {name: total / tally.attempts * 1e6 for name, total in phases.items()}
    per["the rest"] = seconds / tally.attempts * 1e6 - sum(per.values())
    return Result(
        placed=tally.placed,
        attempts=tally.attempts,
        seconds=seconds,
        bytes_per_pod=log.usage().bytes_per_pod if log else 0.0,
        digest=simulation.engine.state.digest(),
        phases=per if timed else {},
        halves=(middle - started, ended - middle),
    )


def per_node_microseconds(load: Load) -> float:
    """The reference: resources filter and LeastAllocated for one pod, node by node in plain Python,
    over the load's nodes; what columns are held against."""
    request = requests_of(load.pods[0].pod.spec).scored
    nodes = [(dict(node.allocatable), dict.fromkeys(request, 0)) for node in load.nodes]
    wanted = [(name, request[name]) for name in ("cpu", "memory")]
    best = float("inf")
    for _ in range(5):
        started = time.perf_counter()
        scores = []
        for allocatable, used in nodes:
            score = 0
            for name, amount in wanted:
                free = allocatable[name] - used[name] - amount
                if free < 0:
                    break
                score += free * 100 // allocatable[name]
            else:
                scores.append(score // 2)
        max(scores, default=0)
        best = min(best, time.perf_counter() - started)
    return best * 1e6


@contextmanager
def _nothing() -> Iterator[None]:
    yield


@contextmanager
def timed_phases(phases: dict[str, float]) -> Iterator[None]:
    """Times the phases of a run from outside; nested phases are taken out of the outer one."""
    points: list[tuple[Any, str, str]] = [
        (engine.Engine, "observe", "observe"),
        (attempts, "judge", "verdicts and scores"),
        (judgement_recording, "record", "vectors and digest"),
        (attempts, "choose", "choice"),
        (batches.BatchBuilder, "close", "encoding"),
        (committer.Committer, "begin", "hashing and sending"),
        (committer.Committer, "wait", "waiting for commits"),
    ]
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in points]
    stack: list[float] = []
    for owner, name, phase in points:
        setattr(owner, name, _timed(getattr(owner, name), phase, phases, stack))
    try:
        yield
    finally:
        for owner, name, function in before:
            setattr(owner, name, function)


def _timed(
    function: Callable[..., Any], phase: str, phases: dict[str, float], stack: list[float]
) -> Callable[..., Any]:
    @wraps(function)
    def timed(*arguments: Any, **named: Any) -> Any:
        stack.append(0.0)
        started = time.perf_counter()
        try:
            return function(*arguments, **named)
        finally:
            elapsed = time.perf_counter() - started
            inner = stack.pop()
            phases[phase] = phases.get(phase, 0.0) + elapsed - inner
            if stack:
                stack[-1] += elapsed

    return timed
