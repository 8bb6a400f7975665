"""A state's digest: equal for two states that make the same decisions."""

from collections.abc import Callable, Iterator
from hashlib import blake2b
from typing import Any

from eventsched.domain import objects
from eventsched.domain.behaviours import Behaviour
from eventsched.domain.state.pod_blocks import PodSnapshot
from eventsched.domain.state.state_snapshot import ReservationSnapshot, StateSnapshot

_KEYS_AT_ONCE = 1000


class StateDigest:
    """The digest of a snapshot's state, computed part by part. It covers nodes, other objects,
    pods, queues, reservations and plugin memory, with their times. Positions, batches and caches
    are left out: they may differ between a live run and its replay."""

    def __init__(
        self, snapshot: StateSnapshot, canonical: Callable[[Any], bytes] = objects.canonical
    ) -> None:
        """``canonical`` encodes each part; tests pass another one."""
        self._snapshot, self._canonical = snapshot, canonical
        self._hash = blake2b(digest_size=16)

    def parts(self) -> Iterator[int]:
        """Computes the digest. Yields the size in bytes of each part that it has done: a node, a
        pod, another object. Call it once, and take all."""
        for part in self._parts():
            self._hash.update(part)
            yield len(part)

    @property
    def value(self) -> str:
        """32 hex digits, once all parts are done."""
        return self._hash.hexdigest()

    def _parts(self) -> Iterator[bytes]:
        snapshot, canonical = self._snapshot, self._canonical
        for _, node in snapshot.nodes:
            yield canonical(node) + b"\n"
        yield from self._registered()
        nominations, evictions = snapshot.preemptions.nominations, snapshot.preemptions.evictions
        pods = {pod.pod.uid: pod for pod in snapshot.pods}
        for uid in sorted(pods):
            summary = _pod_summary(pods[uid], snapshot.reservations.get(uid))
            nominated, eviction = nominations.get(uid, ""), evictions.get(uid)
            if nominated or eviction:
                summary += [nominated, eviction]
            yield canonical(summary) + b"\n"
        queued = [(pod.order, uid) for uid, pod in pods.items() if pod.queue is not None]
        yield canonical([uid for _, uid in sorted(queued)])
        for part in _optional_parts(snapshot):
            if part:
                yield canonical(part)
        yield from self._memory_use()
        yield from self._memory()

    def _registered(self) -> Iterator[bytes]:
        """The list of all other objects, in the order of their bytes."""
        encoded = []
        for item in self._snapshot.registry:
            encoded.append(self._canonical([type(item).__name__, item]))
            yield b""
        if encoded:
            yield b"[" + b",".join(sorted(encoded)) + b"]\n"

    def _memory(self) -> Iterator[bytes]:
        """The object of all plugins that remember something, by the plugin's name."""
        before = b"{"
        for plugin, memory in sorted(self._snapshot.memory.items()):
            if memory:
                yield before + self._canonical(plugin) + b":"
                yield from self._entries(memory)
                before = b","
        yield b"{}" if before == b"{" else b"}"

    def _memory_use(self) -> Iterator[bytes]:
        """Which entries of the memory are in use, and the others in their order. Nothing while
        there is none, and in streams without the behaviour BOUNDS_MEMORY."""
        for plugin, use in sorted(self._snapshot.memory_use.items()):
            yield self._canonical(["memoryUse", plugin])
            yield from self._entries(use.users)
            unused = list(use.unused.items())
            for first in range(0, len(unused), _KEYS_AT_ONCE):
                yield self._canonical(unused[first : first + _KEYS_AT_ONCE])

    def _entries(self, memory: dict[str, Any]) -> Iterator[bytes]:
        keys, before = sorted(memory), b"{"
        for first in range(0, len(keys), _KEYS_AT_ONCE):
            some = {key: memory[key] for key in keys[first : first + _KEYS_AT_ONCE]}
            yield before + self._canonical(some)[1:-1]
            before = b","
        yield b"}"


def digest_of(
    snapshot: StateSnapshot, canonical: Callable[[Any], bytes] = objects.canonical
) -> str:
    """The digest of a snapshot's state, 32 hex digits; see ``StateDigest``."""
    digest = StateDigest(snapshot, canonical)
    for _ in digest.parts():
        pass
    return digest.value


def _pod_summary(pod: PodSnapshot, reservation: ReservationSnapshot | None) -> list[Any]:
    return [
        pod.pod, pod.row, pod.booking_order, pod.bound, pod.queue, pod.since, pod.entered,
        pod.until, pod.attempts, pod.failures, pod.errors, pod.rejectors, pod.pending,
        reservation and _reservation_summary(reservation),
    ]  # fmt: skip


def _reservation_summary(reservation: ReservationSnapshot) -> list[Any]:
    summary = [
        reservation.node, reservation.attempt, reservation.carry, reservation.waits,
        reservation.intended,
    ]  # fmt: skip
    if reservation.preparing:
        return [*summary, reservation.preparing, reservation.writes]
    return summary


def _optional_parts(snapshot: StateSnapshot) -> list[Any]:
    """Parts that the digest leaves out while they are empty."""
    topologies = {
        name: [report.current, report.is_settled, report.uncovered]
        for name, report in snapshot.topologies.items()
    }
    consultation = snapshot.consultation
    reuses_rows = Behaviour.REUSES_ROWS in snapshot.flags
    return [
        snapshot.next_start,
        consultation and [consultation.asked, consultation.answered],
        snapshot.overruns,
        snapshot.serves,
        snapshot.work_budget and {"workBudget": snapshot.work_budget},
        snapshot.samples,
        topologies and {"topologies": topologies},
        reuses_rows and snapshot.free_rows and {"freeRows": snapshot.free_rows},
        snapshot.shadows and {"shadows": snapshot.shadows},
    ]
