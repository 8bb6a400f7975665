"""What a simulation would cost on the leader's loop (docs/adr/0021-one-loop-or-two.md).

Runs a load in the simulation and on a ``Leader`` over the same simulated cluster, in turn, both
with their log in memory. Prints CPU time, records and bytes for each pod. The adapter lacks
volumes, and some of a live cluster's cost: the watch does not show a pod again after its bind, and
no heartbeat wakes the leader. Usage:

    python -m benchmarks.loops SHAPE NODES PODS ROUNDS
"""

import gc
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from statistics import median
from typing import NamedTuple

import msgspec

from benchmarks.runs import Load, generated_load
from eventsched.cluster.in_memory.cluster import InMemoryCluster
from eventsched.cluster.messages import (
    BindPod,
    Bound,
    EvictPod,
    ListCluster,
    Listed,
    Listing,
    NodeSeen,
    ObjectGone,
    ObjectSeen,
    PatchStatus,
    PodGone,
    PodSeen,
    PodShown,
    Reported,
    Seen,
    WriteEvent,
)
from eventsched.domain import records
from eventsched.domain.records import Bind, Effect, Evict, Stimulus
from eventsched.domain.records.log_entry import LogEntry
from eventsched.domain.state.scheduler_state import SchedulerState
from eventsched.eventlog.chain import Term
from eventsched.eventlog.memory import MemoryEventLog
from eventsched.runtime.assembly import Assembly, assemble
from eventsched.runtime.effects.event_drafts import Draft
from eventsched.runtime.effects.event_outbox import EventOutbox
from eventsched.runtime.leader.followed_stream import FollowedStream
from eventsched.runtime.leader.leader import Leader
from eventsched.runtime.leader.leader_messages import (
    Acquire,
    Acquired,
    Append,
    Committed,
    Message,
    Renew,
    Renewed,
    Request,
)
from eventsched.runtime.leader.leader_term import LeaderTerm
from eventsched.runtime.simulation.simulation import Simulation


class Measured(NamedTuple):
    """One run: CPU seconds, records, bytes of records and vectors, and the cluster's effects."""

    seconds: float
    records: int
    size: int
    effects: list[tuple[str, str, int]]


class RecordingCluster(InMemoryCluster):
    """Records its effects: what is done, to which pod, and when (µs)."""

    def __init__(self, load: Load) -> None:
        super().__init__(load.nodes, load.pods, load.bound)
        self.effects: list[tuple[str, str, int]] = []

    def execute(self, effect: Effect, at: int) -> None:
        """Executes and records an effect."""
        name = f"bind to {effect.node}" if isinstance(effect, Bind) else type(effect).__name__
        self.effects.append((name, effect.uid, at))
        super().execute(effect, at)


class MessageCluster:
    """The simulated cluster behind the leader's messages."""

    def __init__(self, cluster: InMemoryCluster, state: SchedulerState) -> None:
        """``state`` is the leader's, which knows each evicted pod."""
        self.cluster = cluster
        self._state = state
        self._version = 1
        self._binds: dict[str, BindPod] = {}
        self._evictions: dict[str, EvictPod] = {}

    def listed(self) -> Listed:
        """The objects of the first instant, as lists."""
        seen: dict[str, list[Seen]] = {"Node": [], "Pod": []}
        for message in self.happen(0):
            match message:
                case NodeSeen():
                    seen["Node"].append(message)
                case PodSeen():
                    seen["Pod"].append(message)
                case ObjectSeen(object=cluster_object):
                    seen.setdefault(type(cluster_object).__name__, []).append(message)
        return Listed([Listing(name, self._version, objects) for name, objects in seen.items()])

    def happen(self, now: int) -> Iterator[Message]:
        """What happens up to ``now`` (µs)."""
        return map(self._message, self.cluster.due_stimuli(now))

    def request(self, request: BindPod | EvictPod, now: int) -> None:
        """Starts a bind or an eviction; its answer comes from ``happen``."""
        if isinstance(request, BindPod):
            self._binds[request.uid] = request
            bind = Bind(
                uid=request.uid, namespace=request.namespace, name=request.name,
                node=request.node, attempt=0, decision=0,
            )  # fmt: skip
            self.cluster.execute(bind, now)
            return
        self._evictions[request.uid] = request
        evict = Evict(
            uid=request.uid, namespace=request.namespace, name=request.name, node="",
            preemptor="", decision=0,
        )  # fmt: skip
        self.cluster.execute(evict, now)

    def _message(self, stimulus: Stimulus) -> Message:
        self._version += 1
        match stimulus:
            case records.PodAdded(pod=pod):
                return PodSeen(pod, self._version)
            case records.PodDeleted(uid=uid):
                return PodGone(uid, self._version)
            case records.NodeAdded(node=node):
                return NodeSeen(node, self._version)
            case records.ObjectChanged(object=cluster_object):
                return ObjectSeen(cluster_object, self._version)
            case records.ObjectDeleted(type=kind, namespace=namespace, name=name):
                return ObjectGone(kind, namespace, name, self._version)
            case records.BindSucceeded(uid=uid):
                return Bound(self._binds.pop(uid))
            case records.EvictionSucceeded(uid=uid):
                pod = msgspec.structs.replace(self._state.pods[uid].pod, deleting=True)
                return PodShown(self._evictions.pop(uid), PodSeen(pod, self._version))
        raise NotImplementedError(type(stimulus).__name__)


class SilentOutbox(EventOutbox):
    """Writes no Events and no status."""

    def on_records(self, logged: Iterable[LogEntry], drafts: Iterable[Draft]) -> None:
        """Ignores the drafts."""


class SilentTerm(LeaderTerm):
    """A term without Events and status."""

    def _new_outbox(self) -> EventOutbox:
        return SilentOutbox(self._state, self._seen.of("Pod"), self._counts)


def simulated(load: Load, assembly: Assembly) -> Measured:
    """A run of the simulation."""
    log = MemoryEventLog()
    cluster = RecordingCluster(load)
    run = Simulation(assembly, cluster, log)
    began = _begin()
    run.run()
    seconds = time.process_time() - began
    usage = log.usage()
    return Measured(seconds, log.head, usage.node_bytes + usage.other_bytes, cluster.effects)


def led(
    load: Load,
    assembly: Assembly,
    leader_term_type: type[LeaderTerm] = LeaderTerm,
    on_committed: Callable[[Sequence[LogEntry]], None] | None = None,
) -> Measured:
    """A run of a leader, until nothing is left to happen. ``on_committed`` gets each record once it
    is committed."""
    opening = Simulation(assembly, InMemoryCluster((), ()), None).started
    leader = Leader(FollowedStream(assembly.engine, "memory"), opening, on_committed=on_committed)
    leader.leader_term_type = leader_term_type
    recording = RecordingCluster(load)
    cluster = MessageCluster(recording, leader.engine.state)
    now = count = size = 0
    began = _begin()
    requests: list[Request] = leader.start()
    while True:
        messages: list[Message] = []
        for request in requests:
            match request:
                case Append(batch=batch):
                    count, size = count + batch.count, size + len(batch.body)
                    size += sum(detail.stored_bytes for detail in batch.details.values())
                    messages.append(Committed())
                case BindPod() | EvictPod():
                    cluster.request(request, now)
                case WriteEvent() | PatchStatus():
                    messages.append(Reported(request))
                case Acquire(known=head):
                    term = Term("memory", 1, bytes(16))
                    messages.append(Acquired(term, head, head, (), ""))
                case ListCluster():
                    messages.append(cluster.listed())
                case Renew():
                    messages.append(Renewed())
        if not messages and not leader.can_attempt:
            due = [recording.next_at, leader.engine.due]
            times = [at for at in due if at is not None]
            if not times:
                break
            if leader.engine.flush_due is not None:
                times.append(leader.engine.flush_due)
            now = max(now, min(times))
            messages = list(cluster.happen(now))
        requests = leader.step(messages, now)
    seconds = time.process_time() - began
    return Measured(seconds, count, size, recording.effects)


def _begin() -> float:
    gc.collect()
    return time.process_time()


def main() -> None:
    """Prints the fastest of interleaved runs, and the ratios to the simulation."""
    shape, nodes, pods, rounds = sys.argv[1], *map(int, sys.argv[2:5])
    load = generated_load(shape, nodes, pods)
    runs = [
        (simulated(load, assemble()), led(load, assemble()), led(load, assemble(), SilentTerm))
        for _ in range(rounds)
    ]
    for simulation, leader, _ in runs:
        if simulation.effects != leader.effects:
            print("the two decide differently")
    print(f"{load.name}, {pods:,} pods, {rounds} rounds; CPU µs, records and bytes for each pod")
    for name, column in zip(
        ("simulation", "leader", "no Events"), zip(*runs, strict=True), strict=True
    ):
        micros = min(run.seconds for run in column) / pods * 1e6
        print(f"{name:12}{micros:8.0f}{column[0].records / pods:8.2f}{column[0].size / pods:8.0f}")
    for name, index in (("leader", 1), ("no Events", 2)):
        fastest = min(run[index].seconds for run in runs) / min(run[0].seconds for run in runs)
        middle = median(run[index].seconds / run[0].seconds for run in runs)
        print(f"{name:12} ratio of the fastest {fastest:.2f}, median ratio {middle:.2f}")


if __name__ == "__main__":
    main()
