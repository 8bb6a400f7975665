"""Simulations of many kinds in memory, whole or cut off and resumed.

The log is in memory: batches are kept as they are committed, and a cut is a log that holds only
the first of them. With batches of one record there is a cut after every step.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import msgspec

from eventsched.cluster.in_memory.cluster import InMemoryCluster
from eventsched.cluster.sources import generated
from eventsched.cluster.sources.arrivals import TracePod
from eventsched.cluster.sources.load import Source
from eventsched.domain.objects import Pod
from eventsched.eventlog.chain import Head
from eventsched.eventlog.memory import MemoryEventLog
from eventsched.eventlog.port import Batch, StoredRecord, StoredSnapshot
from eventsched.plugins import IN_TREE
from eventsched.runtime.assembly import Assembly, assemble_loaded
from eventsched.runtime.simulation.outcome import SimulationOutcome
from eventsched.runtime.simulation.resumption import resume
from eventsched.runtime.simulation.simulation import Simulation
from eventsched.scheduling.config import configuration
from eventsched.scheduling.framework import Wait
from eventsched.scheduling.framework.wait_results import Awaiting, Preparation
from tests import volumes
from tests.builders import SECOND, make_node, make_pod
from tests.displacing import Hesitant, crowded

REAL = {"seconds", "pods_per_second"}
FORMS = {"log_head", "bytes_per_pod"}
"""What depends on where batches end, and on where vectors begin again."""


class Kept(MemoryEventLog):
    """A log that remembers its batches."""

    def __init__(self) -> None:
        super().__init__("run")
        self.batches: list[Batch] = []
        self.hashes: list[bytes] = []

    def begin(self, batch: Batch) -> None:
        super().begin(batch)
        self.batches.append(batch)
        self.hashes.append(self.head_hash)

    def cut(self, number: int) -> "Kept":
        """A log of the first ``number`` batches."""
        log = Kept()
        for batch in self.batches[:number]:
            log.begin(batch)
        return log


class Reader:
    """A kept log as a Reader shows it, with a snapshot or none."""

    def __init__(self, log: Kept, snapshot: StoredSnapshot | None = None) -> None:
        self.stream = log.stream
        self._log, self._snapshot = log, snapshot
        self.begin = 0

    @property
    def head(self) -> Head:
        return Head(self._log.head, self._log.head_hash)

    def read(self, first: int = 0) -> Iterator[StoredRecord]:
        return self._log.read(first)

    def last_batch(self) -> Batch | None:
        return self._log.batches[-1] if self._log.batches else None

    def hash_before(self, position: int) -> bytes | None:
        for batch, found in zip(self._log.batches, self._log.hashes, strict=True):
            if batch.first + len(batch.records) == position:
                return found
        return None

    def snapshot(self, before: int = 2**62) -> StoredSnapshot | None:
        found = self._snapshot
        return found if found is not None and found.position < before else None


class Gang:
    """Pods wait for each other in threes; every fifth waits without success, every seventh is let
    go late. Who goes first depends on the order in which they wait."""

    name = "Gang"

    def permit(self, cycle: Any, pod: Any, node: str) -> Wait | None:
        number = int(pod.name.rpartition("-")[2])
        if number % 5 == 4:
            return Wait(2)
        waiting = list(cycle.waiting)
        if number % 7 == 6:
            for uid in waiting[:1]:
                cycle.reject(uid, "sent back")
        if len(waiting) < 2:
            cycle.data["waited"] = [pod.name]
            return Wait(3.5)
        for uid in waiting:
            cycle.allow(uid)
        return None

    def post_bind(self, cycle: Any, pod: Any, node: str) -> None:
        if "waited" in cycle.data:
            cycle.remember(pod.full_name, {"node": node, "with": cycle.data["waited"]})


class Broken:
    """Raises for every third pod."""

    name = "Broken"

    def filter_node(self, pod: Any, node: Any) -> None:
        if pod.name.startswith("p") and int(pod.name.rpartition("-")[2]) % 3 == 0:
            raise RuntimeError(f"no {pod.name}")


class Parking:
    """Refuses pods named parked; nothing wakes them but the flush."""

    name = "Parking"
    wakes_on = ()

    def filter_node(self, pod: Any, node: Any) -> str | None:
        return "parked" if pod.name.startswith("parked") else None


@dataclass(frozen=True)
class Case:
    """A run: what it schedules with what."""

    source: Source
    assembly: Assembly
    until: int | None = None


def assembly_of(*plugins: type[Any], text: str = "") -> Assembly:
    enabled = ", ".join(f"{{name: {each.name}}}" for each in plugins)
    text = text or (
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        f"profiles: [{{plugins: {{multiPoint: {{enabled: [{enabled}]}}}}}}]\n"
    )
    known = {**IN_TREE, **{each.name: each for each in plugins}}
    return assemble_loaded(configuration.load(text, "test.yaml"), "test.yaml", known, text)


def load(text: str) -> Source:
    found = generated.parse(text)
    digests = {"generate": str(found)}
    return Source(
        found.nodes(), found.pods(), churn=found.node_churn(), rollouts=found.pod_rollouts(),
        digests=digests,
    )  # fmt: skip


def without_backoff(assembly: Assembly) -> Assembly:
    changed = msgspec.structs.replace(
        assembly.configuration, pod_initial_backoff_seconds=0, pod_max_backoff_seconds=0
    )
    return replace(assembly, configuration=changed)


def at_the_flush() -> Source:
    """The last thing that happens, a pod's end, comes in the instant of a flush."""
    return Source(
        [make_node(), make_node("n2")],
        [
            TracePod(make_pod("parked-1"), 0),
            TracePod(make_pod("p1"), 0, 300 * SECOND - 1_000),
            TracePod(make_pod("parked-2"), 0),
        ],
    )


def odd() -> Source:
    """Pods of others, on nodes that are there and on one that is not; gates; ports; an extended
    resource that only pods name."""
    pods = [
        make_pod(f"p-{number}", ports=(80,) if number % 2 else (), gates=("g",) * (number == 3))
        for number in range(9)
    ]
    return Source(
        [make_node("n1", extra={"example.com/b": 1}), make_node("n2", extra={"example.com/a": 1})],
        [
            TracePod(each, number % 4 * SECOND, (number + 1) * SECOND)
            for number, each in enumerate(pods)
        ],
        [make_pod("b1", node_name="n1"), make_pod("b2", node_name="away")],
    )


class Absent:
    """Waits before the bind for what never happens."""

    name = "Absent"

    def pre_bind(self, cycle: Any, pod: Pod, node: str) -> Preparation | None:
        return Preparation((), 60) if pod.name.startswith("stuck") else None

    def prepared(self, cycle: Any, pod: Pod, node: str, nodes: Any) -> Awaiting:
        return Awaiting(frozenset())


def stuck() -> list[TracePod]:
    """Two pods that come to nothing, and one that is placed."""
    return [TracePod(make_pod(name, cpu=100)) for name in ("stuck-1", "stuck-2", "p-1")]


CASES: dict[str, Callable[[], Case]] = {
    "tight": lambda: Case(load("nodes=2,pods=14,shape=tight,seed=2"), assembly_of()),
    "mixed": lambda: Case(
        load("nodes=4,pods=24,shape=mixed,seed=3,rate=20,runtime=2"), assembly_of()
    ),
    "until": lambda: Case(
        load("nodes=2,pods=14,shape=tight,seed=4"), assembly_of(), until=150 * SECOND
    ),
    "sticky": lambda: Case(
        load("nodes=3,pods=11,shape=tight,seed=5"),
        assembly_of(IN_TREE["FirstScheduledNode"]),
    ),
    "gang": lambda: Case(
        load("nodes=3,pods=24,shape=mixed,seed=1,rate=4,runtime=5"), assembly_of(Gang)
    ),
    "broken": lambda: Case(load("nodes=2,pods=9,shape=tight,seed=1"), assembly_of(Broken)),
    "broken without backoff": lambda: Case(
        load("nodes=2,pods=9,shape=mixed,rate=4,runtime=2"), without_backoff(assembly_of(Broken))
    ),
    "tight without backoff": lambda: Case(
        load("nodes=2,pods=14,shape=tight,seed=2"), without_backoff(assembly_of())
    ),
    "flush": lambda: Case(at_the_flush(), assembly_of(Parking), until=1_000 * SECOND),
    "odd": lambda: Case(odd(), assembly_of()),
    "preemption": lambda: Case(crowded(11, nodes=3, pods=18), assembly_of(), until=20 * SECOND),
    "preemption at permit": lambda: Case(
        crowded(3, nodes=2, pods=14), assembly_of(Hesitant), until=12 * SECOND
    ),
    "repetition": lambda: Case(Source([make_node()], stuck()), assembly_of(Absent)),
    "volumes": lambda: Case(volumes.load(), assembly_of(), until=20 * SECOND),
    "churn": lambda: Case(
        load("nodes=3,pods=20,shape=mixed,seed=1,rate=0.01,runtime=900,node-life=1500,churn=400"),
        assembly_of(),
    ),
    "rollouts": lambda: Case(
        load(
            "nodes=3,pods=20,shape=mixed,seed=1,rate=0.01,runtime=900,node-life=1500,flaps=300,"
            "rollouts=400,waves=700"
        ),
        assembly_of(),
    ),
}


@cache
def case_of(name: str) -> Case:
    return CASES[name]()


@dataclass
class Run:
    """A run that has ended."""

    simulation: Simulation
    log: Kept
    snapshots: list[StoredSnapshot]

    @property
    def outcome(self) -> dict[str, Any]:
        """Everything that may not depend on how often it was cut off."""
        report = SimulationOutcome.of(self.simulation, self.log, 1.0).as_json()
        tally = self.simulation.counters.snapshot()
        del tally["resumed"]
        return {
            "records": list(self.log.read()),
            "report": {k: v for k, v in report.items() if k not in REAL | FORMS},
            "tally": tally,
            "queues": dict(self.simulation.engine.queue_lengths),
            "due": (self.simulation.engine.due, self.simulation.engine.flush_due),
            "next": self.simulation.cluster.next_at,
        }


def simulation_of(case: Case, log: Kept, batch_size: int, keep: Any, every: int) -> Simulation:
    cluster = InMemoryCluster(
        case.source.nodes, case.source.arrivals, case.source.bound, objects=case.source.objects,
        churn=case.source.churn, rollouts=case.source.rollouts,
    )  # fmt: skip
    return Simulation(
        case.assembly, cluster, log, inputs=case.source.digests, batch_size=batch_size,
        store_snapshot=keep, snapshot_every=every,
    )  # fmt: skip


@cache
def whole(name: str, batch_size: int) -> Run:
    """A run that was never cut off, with a snapshot at every possible moment."""
    log = Kept()
    snapshots: list[StoredSnapshot] = []
    simulation = simulation_of(case_of(name), log, batch_size, snapshots.append, 1)
    simulation.run(case_of(name).until)
    return Run(simulation, log, snapshots)


def resumed(
    name: str, batch_size: int, number: int, snapshot: StoredSnapshot | None = None
) -> tuple[Run, bool]:
    """The run again, from its first batches."""
    case = case_of(name)
    log = whole(name, batch_size).log.cut(number)
    snapshots: list[StoredSnapshot] = []
    simulation = simulation_of(case, log, batch_size, snapshots.append, 10_000)
    helped = resume(simulation, Reader(log, snapshot))  # type: ignore[arg-type]
    simulation.run(case.until)
    return Run(simulation, log, snapshots), helped


def cuts(name: str, batch_size: int, at_most: int) -> Sequence[int]:
    """Numbers of batches to cut after: all, or a random choice if there are too many, always
    with those at the ends."""
    count = len(whole(name, batch_size).log.batches)
    numbers = range(1, count + 1)
    if count <= at_most:
        return numbers
    chosen = random.Random(f"{name} {batch_size}").sample(numbers, at_most - 4)
    return sorted({1, 2, count - 1, count, *chosen})
