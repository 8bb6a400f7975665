"""A state's digest: whether two of them would decide alike, in a line."""

from collections.abc import Callable
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from eventsched.domain import objects

if TYPE_CHECKING:
    from eventsched.domain.state.scheduler_state import SchedulerState


def digest_of(
    state: "SchedulerState", canonical: Callable[[Any], bytes] = objects.canonical
) -> str:
    """32 hex digits over nodes, pods, queues, reservations and plugin memory with their times; not
    over positions, batches or caches, which may differ between a live run and its replay.
    ``canonical`` writes what it is over."""
    digest = blake2b(digest_size=16)
    for node in state.nodes.nodes:
        digest.update(canonical(node) + b"\n")
    others = [[type(each).__name__, each] for each in state.registry.everything()]
    if others:
        digest.update(canonical(sorted(others, key=canonical)) + b"\n")
    for uid in sorted(state.pods):
        digest.update(canonical(_pod_summary(state, uid)) + b"\n")
    queued = [(s.order, uid) for uid, s in state.pods.items() if s.queue is not None]
    digest.update(canonical([uid for _, uid in sorted(queued)]))
    if state.next_start:
        digest.update(canonical(state.next_start))
    if state.consultation is not None:
        digest.update(canonical(state.consultation.summary()))
    if state.overruns:
        digest.update(canonical(state.overruns))
    if state.serves:
        digest.update(canonical(state.serves))
    if state.work_budget:
        digest.update(canonical({"workBudget": state.work_budget}))
    if samples := state.nodes.samples.held():
        digest.update(canonical(samples))
    if topologies := state.topologies.summary():
        digest.update(canonical({"topologies": topologies}))
    digest.update(canonical({name: kept for name, kept in state.memory.items() if kept}))
    return digest.hexdigest()


def _pod_summary(state: "SchedulerState", uid: str) -> list[Any]:
    pod, held = state.pods[uid], state.reservations.get(uid)
    return [
        pod.pod, pod.row, pod.came, pod.bound, pod.queue, pod.since, pod.entered, pod.until,
        pod.attempts, pod.failures, pod.errors, pod.rejectors, pod.pending,
        held and held.summary(),
        *_preemption_summary(state, uid),
    ]  # fmt: skip


def _preemption_summary(state: "SchedulerState", uid: str) -> list[Any]:
    nominated, eviction = state.preemptions.node(uid), state.preemptions.evicting.get(uid)
    return [nominated, eviction] if nominated or eviction else []
