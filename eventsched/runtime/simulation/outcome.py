"""The outcome of a simulation."""

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
from eventsched.scheduling.queueing.scheduling_queue import PARKED_AFTER
from eventsched.scheduling.rules.volumes.claims import claims_of, class_of, is_bound


class MeasuredLog(Protocol):
    """A log that knows its name, its head and its size."""

    @property
    def stream(self) -> str:
        """The stream's name."""

    @property
    def head_hash(self) -> bytes:
        """The hash of the last batch."""

    def usage(self) -> LogSize:
        """The log's size, in bytes."""


@dataclass(frozen=True)
class SimulationOutcome:
    """A run's outcome.

    - ``nodes``: those at the end; ``nodes_removed``: those that went while it ran;
      ``nodes_changed``: changes of nodes.
    - ``seconds``: real time of the run alone; ``virtual``: the virtual time at the end (µs).
    - ``placed``: pods that were bound at some time; ``pending``: pods that wait at the end.
    - ``reasons``: the last message of waiting pods → their number; ``examples``: → one of them.
    - ``errors``: attempts that failed; ``failures``: the first message of each plugin that failed.
    - ``parked``: waiting pods that were parked because their attempts only failed.
    - ``bytes_per_pod``: the log's size for each scheduled pod; ``node_bytes``: for the nodes.
    - ``log_head``: the hash of the log's last batch.
    - ``stopped``: why the run was given up; "" if it was not.
    - ``resumed``: pods that were placed before this process continued the run.
    """

    nodes: int
    nodes_changed: int
    nodes_removed: int
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
        """The outcome of a run that has ended."""
        state, counters = simulation.engine.state, simulation.counters
        reasons: dict[str, int] = {}
        examples: dict[str, str] = {}
        queued = [(pod.order, uid) for uid, pod in state.pods.items() if pod.queue is not None]
        waiting = [uid for _, uid in sorted(queued)]
        for uid in waiting:
            pod_state = state.pods[uid]
            reason = counters.messages.get(uid)
            if reason is None:
                reason = _untried(pod_state)
            reasons[reason] = reasons.get(reason, 0) + 1
            examples.setdefault(reason, pod_state.pod.full_name)
        usage = log.usage()
        return cls(
            nodes=state.nodes.live,
            nodes_changed=counters.nodes_changed,
            nodes_removed=counters.nodes_removed,
            pods=counters.arrived,
            placed=counters.placed,
            pending=len(waiting) + len(state.reservations),
            attempts=counters.attempts,
            seconds=seconds,
            virtual=counters.now,
            queues={
                queue.value: length for queue, length in simulation.engine.queue_lengths.items()
            },
            reasons=reasons,
            utilization=simulation.utilization.report(),
            state_digest=state.digest(),
            records=simulation.engine.position,
            stream=log.stream,
            log_head=log.head_hash.hex(),
            bytes_per_pod=usage.bytes_per_pod,
            node_bytes=usage.node_bytes,
            resumed=counters.resumed,
            parked=sum(_is_parked(state.pods[uid]) for uid in waiting),
            stopped=_stopped(simulation),
            errors=counters.errors,
            failures=counters.failures,
            examples=examples,
        )

    @property
    def pods_per_second(self) -> float:
        """Pods placed per real second, by this process, or by the process that finished the run if
        it was finished already."""
        return (self.placed - self.resumed) / self.seconds if self.seconds else 0.0

    def as_json(self) -> dict[str, Any]:
        """The machine-readable summary."""
        return {
            "nodes": self.nodes,
            "nodes_changed": self.nodes_changed,
            "nodes_removed": self.nodes_removed,
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
                name: {"mean": round(share.mean, 4), "peak": round(share.peak, 4)}
                for name, share in self.utilization.items()
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


def _is_parked(pod_state: PodState) -> bool:
    """Whether only a change brings the pod back. (A pod that fails after it had a node may have as
    many errors, but is retried.)"""
    return pod_state.errors >= PARKED_AFTER and pod_state.queue is Queue.UNSCHEDULABLE


def _untried(pod_state: PodState) -> str:
    """The reason of a waiting pod that has no message."""
    if pod_state.queue is Queue.GATED:
        return f"waiting for gates: {', '.join(pod_state.pod.gates)}"
    return "not tried"


def _stopped(simulation: Simulation) -> str:
    if repeating := simulation.repeats:
        return _repetition(simulation, repeating)
    if not simulation.only_errors:
        return ""
    last = next(reversed(simulation.counters.messages.values()), "")
    return (
        f"the last {simulation.counters.errors_in_a_row} attempts all failed; the last one: {last}"
    )


def _repetition(simulation: Simulation, repeating: list[PodState]) -> str:
    """Which pods only repeat, and what the first of them waits for."""
    first = min(repeating, key=lambda pod_state: pod_state.pod.full_name)
    others = len(repeating) - 1
    more = f" and {others} more {'pod' if others == 1 else 'pods'}" if others else ""
    message = simulation.counters.messages.get(first.pod.uid, "")
    claims = "; ".join(_unbound(simulation.engine.state.registry, first.pod))
    waits = f"; it waits for {claims}" if claims else ""
    return (
        f"only repetition is left: the last {REPEATS} rounds of {first.pod.full_name}{more} ended "
        f"alike, and nothing else is to come: {message}{waits}"
    )


def _unbound(registry: Registry, pod: Pod) -> Iterator[str]:
    """The pod's claims without a volume, and what should provision it."""
    for name, _ in claims_of(pod):
        claim = registry.get(PersistentVolumeClaim, name, pod.namespace)
        if claim is None or is_bound(claim):
            continue
        storage_class = registry.get(StorageClass, class_of(claim))
        provisioner = storage_class.provisioner if storage_class is not None else ""
        maker = f" by provisioner {provisioner}" if provisioner else ""
        node = f" for node {claim.selected_node}" if claim.selected_node else ""
        yield f"a volume of claim {pod.namespace}/{name}, to be made{maker}{node}"
