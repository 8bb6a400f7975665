"""What a simulation came to."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from eventsched.domain.objects import Pod
from eventsched.domain.objects.registry import PersistentVolumeClaim, Registry, StorageClass
from eventsched.domain.records import Queue
from eventsched.domain.state.scheduler_state import PodState
from eventsched.eventlog.port import LogSize
from eventsched.runtime.simulation.repetition import REPEATS
from eventsched.runtime.simulation.simulation import Simulation
from eventsched.runtime.simulation.utilization import Utilization
from eventsched.scheduling.queueing.requeueing import PARKED_AFTER
from eventsched.scheduling.rules.volumes.claims import claims_of, class_of, is_bound


class MeasuredLog(Protocol):
    """A log that tells its name, its head and what it takes."""

    @property
    def stream(self) -> str:
        """The stream's name."""

    @property
    def head_hash(self) -> bytes:
        """The hash of the last batch."""

    def usage(self) -> LogSize:
        """Bytes."""


@dataclass(frozen=True)
class SimulationOutcome:
    """A run's outcome.

    ``seconds`` are real ones, of the run alone; ``virtual`` is the virtual time at the end (µs).
    ``placed`` counts pods that were bound at some time, ``pending`` those that wait at the end.
    ``reasons`` maps the last message of waiting pods to their number, ``examples`` to one of them.
    ``errors`` are attempts that failed, ``failures`` the first message of each plugin that did it.
    ``parked`` are the waiting pods whose attempts did nothing but fail.
    ``bytes_per_pod`` is what the log takes for each scheduled pod, ``node_bytes`` what it takes for
    the nodes; ``log_head`` is the hash of its last batch. ``stopped`` says why a run was given up,
    "" for one that went to its end.
    """

    nodes: int
    pods: int
    placed: int
    pending: int
    attempts: int
    seconds: float
    virtual: int
    queues: dict[str, int]
    reasons: dict[str, int]
    utilization: dict[str, Utilization]
    state_digest: str
    records: int
    stream: str
    log_head: str
    bytes_per_pod: float
    node_bytes: int
    stopped: str
    errors: int
    failures: dict[str, str]
    examples: dict[str, str]
    resumed: int
    parked: int

    @classmethod
    def of(cls, simulation: Simulation, log: "MeasuredLog", seconds: float) -> "SimulationOutcome":
        """The report of a run that has ended."""
        state, tally = simulation.engine.state, simulation.tally
        reasons: dict[str, int] = {}
        examples: dict[str, str] = {}
        waiting = [(s.order, uid) for uid, s in state.pods.items() if s.queue is not None]
        for _, uid in sorted(waiting):
            queued = state.pods[uid]
            said = tally.messages.get(uid)
            if said is None:
                gates = queued.queue is Queue.GATED
                said = f"waiting for gates: {', '.join(queued.pod.gates)}" if gates else "not tried"
            reasons[said] = reasons.get(said, 0) + 1
            examples.setdefault(said, queued.pod.full_name)
        usage = log.usage()
        return cls(
            nodes=state.nodes.live,
            pods=tally.arrived,
            placed=tally.placed,
            pending=len(waiting) + len(state.reservations),
            attempts=tally.attempts,
            seconds=seconds,
            virtual=tally.now,
            queues={queue.value: n for queue, n in simulation.engine.queue_lengths.items()},
            reasons=reasons,
            utilization=simulation.meter.report(),
            state_digest=state.digest(),
            records=simulation.engine.position,
            stream=log.stream,
            log_head=log.head_hash.hex(),
            bytes_per_pod=usage.bytes_per_pod,
            node_bytes=usage.nodes,
            resumed=tally.resumed,
            parked=sum(_is_parked(state.pods[uid]) for _, uid in waiting),
            stopped=_stopped(simulation),
            errors=tally.errors,
            failures=tally.failures,
            examples=examples,
        )

    @property
    def pods_per_second(self) -> float:
        """Pods placed for each real second, by this process or, where it found the run finished,
        by the one that finished it."""
        return (self.placed - self.resumed) / self.seconds if self.seconds else 0.0

    def as_json(self) -> dict[str, Any]:
        """The machine-readable summary."""
        return {
            "nodes": self.nodes,
            "pods": self.pods,
            "placed": self.placed,
            "pending": self.pending,
            "attempts": self.attempts,
            "pods_per_second": round(self.pods_per_second, 1),
            "seconds": round(self.seconds, 3),
            "virtual_seconds": self.virtual / 1_000_000,
            "queues": self.queues,
            "pending_reasons": self.reasons,
            "utilization": {
                name: {"mean": round(used.mean, 4), "peak": round(used.peak, 4)}
                for name, used in self.utilization.items()
            },
            "records": self.records,
            "bytes_per_pod": round(self.bytes_per_pod, 1),
            "node_bytes": self.node_bytes,
            "stream": self.stream,
            "log_head": self.log_head,
            "errors": self.errors,
            "parked": self.parked,
            "stopped": self.stopped,
            "state_digest": self.state_digest,
        }


def _is_parked(state: PodState) -> bool:
    """Whether only a change brings the pod back. One that is refused after it had a node fails as
    often, and is tried again and again."""
    return state.errors >= PARKED_AFTER and state.queue is Queue.UNSCHEDULABLE


def _stopped(simulation: Simulation) -> str:
    if found := simulation.repeats:
        return _repetition(simulation, found)
    if not simulation.hopeless:
        return ""
    last = next(reversed(simulation.tally.messages.values()), "")
    return f"the last {simulation.tally.errors_in_a_row} attempts all failed; the last one: {last}"


def _repetition(simulation: Simulation, found: list[PodState]) -> str:
    """Which pods only come to the same end again, and what the first of them waits for."""
    first = min(found, key=lambda each: each.pod.full_name)
    others = len(found) - 1
    more = f" and {others} more {'pod' if others == 1 else 'pods'}" if others else ""
    said = simulation.tally.messages.get(first.pod.uid, "")
    waits = "; ".join(_unbound(simulation.engine.state.registry, first.pod))
    waits = f"; it waits for {waits}" if waits else ""
    return (
        f"only repetition is left: the last {REPEATS} rounds of {first.pod.full_name}{more} ended "
        f"alike, and nothing else is to come: {said}{waits}"
    )


def _unbound(registry: Registry, pod: Pod) -> Iterator[str]:
    """The pod's claims that have no volume, and who should make it."""
    for name, _ in claims_of(pod):
        claim = registry.get(PersistentVolumeClaim, name, pod.namespace)
        if claim is None or is_bound(claim):
            continue
        kind = registry.get(StorageClass, class_of(claim))
        maker = f" by provisioner {kind.provisioner}" if kind and kind.provisioner else ""
        node = f" for node {claim.selected_node}" if claim.selected_node else ""
        yield f"a volume of claim {pod.namespace}/{name}, to be made{maker}{node}"
