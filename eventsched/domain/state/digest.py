"""A state's digest: equal for two states that make the same decisions."""

from collections.abc import Callable
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from eventsched.domain import objects
from eventsched.domain.behaviours import Behaviour

if TYPE_CHECKING:
    from eventsched.domain.state.scheduler_state import SchedulerState


def digest_of(
    state: "SchedulerState", canonical: Callable[[Any], bytes] = objects.canonical
) -> str:
    """32 hex digits over nodes, other objects, pods, queues, reservations and plugin memory, with
    their times. Positions, batches and caches are left out: they may differ between a live run and
    its replay. ``canonical`` encodes each part; tests pass another one."""
    digest = blake2b(digest_size=16)
    for node in state.nodes.nodes:
        digest.update(canonical(node) + b"\n")
    registered = [[type(item).__name__, item] for item in state.registry.everything()]
    if registered:
        digest.update(canonical(sorted(registered, key=canonical)) + b"\n")
    for uid in sorted(state.pods):
        digest.update(canonical(_pod_summary(state, uid)) + b"\n")
    queued = [(pod.order, uid) for uid, pod in state.pods.items() if pod.queue is not None]
    digest.update(canonical([uid for _, uid in sorted(queued)]))
    for part in _optional_parts(state):
        if part:
            digest.update(canonical(part))
    digest.update(canonical({plugin: memory for plugin, memory in state.memory.items() if memory}))
    return digest.hexdigest()


def _optional_parts(state: "SchedulerState") -> list[Any]:
    """Parts that the digest leaves out while they are empty."""
    topologies = state.topologies.summary()
    reuses_rows = Behaviour.REUSES_ROWS in state.flags
    return [
        state.next_start,
        state.consultation and state.consultation.summary(),
        state.overruns,
        state.serves,
        state.work_budget and {"workBudget": state.work_budget},
        state.nodes.samples.held(),
        topologies and {"topologies": topologies},
        reuses_rows and state.nodes.free_rows and {"freeRows": list(state.nodes.free_rows.items())},
    ]


def _pod_summary(state: "SchedulerState", uid: str) -> list[Any]:
    pod, reservation = state.pods[uid], state.reservations.get(uid)
    return [
        pod.pod, pod.row, pod.booking_order, pod.bound, pod.queue, pod.since, pod.entered,
        pod.until, pod.attempts, pod.failures, pod.errors, pod.rejectors, pod.pending,
        reservation and reservation.summary(),
        *_preemption_summary(state, uid),
    ]  # fmt: skip


def _preemption_summary(state: "SchedulerState", uid: str) -> list[Any]:
    nominated, eviction = state.preemptions.node(uid), state.preemptions.evicting.get(uid)
    return [nominated, eviction] if nominated or eviction else []
