"""The queue's order, timers and wake-ups: heaps and wake classes derived from the state.

    PodAdd ─▶ active ─▶ (attempt) ─▶ placed            gated: held by PreEnqueue until an update
                ▲   ╲ refused ─▶ unschedulable ─┐      flush: after 5 minutes in unschedulable
                │   ╲ error ───▶ backoff        │ a plugin's hint (or the flush)
                └── backoff over ◀── backoff ◀──┴─▶ active, if its backoff is already over

Heap entries are never removed. An entry whose order number is not the pod's current one is stale
and is skipped. Upstream: pkg/scheduler/backend/queue.
"""

from collections.abc import Callable, Iterator, Mapping
from heapq import heappop, heappush
from typing import Any

from eventsched.domain.records import Queue
from eventsched.domain.state.parts.reservations import Reservation
from eventsched.domain.state.scheduler_state import PodState, SchedulerState
from eventsched.domain.units import SECOND
from eventsched.scheduling.framework import QueuedPod
from eventsched.scheduling.framework.pod_groups import PodGroups
from eventsched.scheduling.queueing.prebind_waits import PreBindWaitIndex

FLUSH_AFTER = 300 * SECOND
"""Microseconds in the unschedulable queue after which a pod is tried again without an event
(upstream: DefaultPodMaxInUnschedulablePodsDuration)."""

_NONE: Mapping[str, int] = {}
_WAKEABLE = (Queue.UNSCHEDULABLE, Queue.GATED)

WakeClass = tuple[tuple[str, ...], tuple[Any, ...]]
"""The plugins that refused a pod, and what their hints read of it (``EngineStep.signatures``). A
change of the cluster wakes all pods of a class or none, so only one of them is asked about."""


class Backoff:
    """How long a pod waits after a failure: ``initial`` seconds, doubled with each further one, at
    most ``longest`` (upstream: backend/queue/backoff_queue.go calculateBackoffDuration)."""

    def __init__(self, initial: int = 1, longest: int = 10) -> None:
        self.initial = initial * SECOND
        self.longest = longest * SECOND

    def until(self, now: int, failures: int) -> int:
        """The end (µs) of the backoff after a number of failures; 0 if there is none."""
        if not failures or not self.longest:
            return 0
        return now + min(self.longest, self.initial << min(failures - 1, 40))


class QueueIndex:
    """The next pod, the timers that are due, and the pods that a change affects."""

    def __init__(
        self,
        state: SchedulerState,
        sort_key: Callable[[QueuedPod], Any],
        groups: PodGroups | None = None,
    ) -> None:
        self._state = state
        self._sort_key = sort_key
        self._pod_groups = PodGroups(state) if groups is None else groups
        self._active: list[tuple[Any, int, str]] = []
        self._keys: dict[str, Any] = {}
        self._due: list[tuple[int, int, str]] = []
        self._flush: list[tuple[int, int, str]] = []
        self._wake_classes: dict[WakeClass, dict[str, int]] = {}
        self._wake_class_of: dict[str, WakeClass] = {}
        self.lengths: dict[Queue, int] = dict.fromkeys(Queue, 0)
        self._counted: dict[str, Queue] = {}
        self._deadlines: list[tuple[int, str, str]] = []
        self.waiting_at_permit: dict[str, None] = {}
        """The pods that wait at Permit."""
        self.permit_waits: dict[str, dict[str, str]] = {}
        """Plugin → uid of each pod that waits for it → the pod's node."""
        self._waits_for: dict[str, tuple[str, ...]] = {}
        self.waiting_in_pre_bind: dict[str, None] = {}
        """The pods that wait in PreBind."""
        self.prebind_waits = PreBindWaitIndex()

    def note(self, uid: str, signatures: Callable[[PodState], tuple[Any, ...]]) -> None:
        """Updates the indexes with where the pod is now. Called after each record that moves it."""
        reservation = self._state.reservations.get(uid)
        waits = reservation.waits if reservation else _NONE
        if waits or uid in self.waiting_at_permit:
            self._note_waits(uid, self.waiting_at_permit, waits)
            self._note_permit_waits(uid, reservation)
        preparing = reservation.preparing if reservation else _NONE
        if preparing or uid in self.waiting_in_pre_bind:
            self._note_waits(uid, self.waiting_in_pre_bind, preparing)
            self.prebind_waits.note(uid, waits=uid in self.waiting_in_pre_bind)
        pod_state = self._state.pods.get(uid)
        queue = pod_state.queue if pod_state else None
        before = self._counted.pop(uid, None)
        if before is not None:
            self.lengths[before] -= 1
        if (old_class := self._wake_class_of.pop(uid, None)) is not None:
            self._wake_classes.get(old_class, {}).pop(uid, None)
        self._keys.pop(uid, None)
        if pod_state is None or queue is None:
            return
        self._counted[uid] = queue
        self.lengths[queue] += 1
        if queue is Queue.ACTIVE:
            key = self._keys[uid] = self._key(pod_state)
            heappush(self._active, (key, pod_state.order, uid))
        elif queue is Queue.BACKOFF:
            heappush(self._due, (pod_state.until, pod_state.order, uid))
        else:
            if queue is Queue.UNSCHEDULABLE:
                heappush(self._flush, (pod_state.entered + FLUSH_AFTER, pod_state.order, uid))
            wake_class = (pod_state.rejectors, signatures(pod_state))
            self._wake_classes.setdefault(wake_class, {})[uid] = pod_state.order
            self._wake_class_of[uid] = wake_class

    def _note_waits(self, uid: str, among: dict[str, None], waits: Mapping[str, int]) -> None:
        if waits and uid not in among:
            among[uid] = None
            for plugin, deadline in waits.items():
                heappush(self._deadlines, (deadline, uid, plugin))
        elif not waits:
            among.pop(uid, None)

    def _note_permit_waits(self, uid: str, reservation: Reservation | None) -> None:
        before = self._waits_for.pop(uid, ())
        now = tuple(reservation.waits) if reservation is not None else ()
        for plugin in before:
            if plugin not in now:
                del self.permit_waits[plugin][uid]
        if reservation is not None and now:
            self._waits_for[uid] = now
            for plugin in now:
                self.permit_waits.setdefault(plugin, {})[uid] = reservation.node

    def reorder(self, uid: str) -> None:
        """Updates a pod's place in the active queue after its group has changed."""
        if uid in self._keys:
            pod_state = self._state.pods[uid]
            key = self._key(pod_state)
            if key != self._keys[uid]:
                self._keys[uid] = key
                heappush(self._active, (key, pod_state.order, uid))

    def _key(self, pod_state: PodState) -> tuple[int, Any]:
        uid = pod_state.pod.uid
        queued = QueuedPod(
            pod_state.pod, pod_state.since, pod_state.attempts, self._pod_groups.of(uid)
        )
        try:
            return 0, self._sort_key(queued)
        except Exception:  # noqa: BLE001 - third-party QueueSort: such a pod goes last, by age
            return 1, queued.since

    def head(self) -> str | None:
        """The next pod to schedule."""
        while self._active:
            key, order, uid = self._active[0]
            if self._is_current(uid, order, Queue.ACTIVE) and self._keys[uid] == key:
                return uid
            heappop(self._active)
        return None

    def in_order(self) -> list[str]:
        """The pods of the active queue, in the order in which they are tried."""
        pods = self._state.pods
        return [uid for *_, uid in sorted((k, pods[u].order, u) for u, k in self._keys.items())]

    @property
    def has_timers(self) -> bool:
        """Whether there may be a backoff, a flush or a wait to come."""
        return bool(self._due or self._flush or self._deadlines)

    def next_backoff(self) -> int | None:
        """When (µs) the next backoff ends."""
        return self._next(self._due, Queue.BACKOFF)

    def next_flush(self) -> int | None:
        """When (µs) the next pod has been unschedulable for too long."""
        return self._next(self._flush, Queue.UNSCHEDULABLE)

    def next_deadline(self) -> int | None:
        """When (µs) the next wait, at Permit or in PreBind, times out."""
        while self._deadlines:
            deadline, uid, plugin = self._deadlines[0]
            reservation = self._state.reservations.get(uid)
            if reservation and deadline in (
                reservation.waits.get(plugin),
                reservation.preparing.get(plugin),
            ):
                return deadline
            heappop(self._deadlines)
        return None

    def overdue(self, now: int) -> Iterator[tuple[str, str]]:
        """The waits that have timed out, as (uid, plugin), in the order of their deadlines."""
        while (due := self.next_deadline()) is not None and due <= now:
            yield heappop(self._deadlines)[1:]

    def backoff_completed(self, now: int) -> Iterator[str]:
        """The pods whose backoff is over, in the order in which it ended."""
        while (due := self.next_backoff()) is not None and due <= now:
            yield heappop(self._due)[2]

    def flush_due(self, now: int) -> Iterator[str]:
        """The pods that have been unschedulable for too long."""
        while (due := self.next_flush()) is not None and due <= now:
            yield heappop(self._flush)[2]

    def wake_classes(self) -> Iterator[tuple[WakeClass, str]]:
        """The wake classes of the unschedulable and gated pods, each with one of its pods."""
        for wake_class, members in list(self._wake_classes.items()):
            while members:
                uid, order = next(iter(members.items()))
                if self._is_current(uid, order, *_WAKEABLE):
                    yield wake_class, uid
                    break
                del members[uid]
            else:
                del self._wake_classes[wake_class]

    def members(self, wake_class: WakeClass) -> list[str]:
        """All pods of a wake class, in the order of their arrival."""
        members = self._wake_classes.get(wake_class, {})
        return [uid for uid, order in members.items() if self._is_current(uid, order, *_WAKEABLE)]

    def _next(self, heap: list[tuple[int, int, str]], queue: Queue) -> int | None:
        while heap:
            due, order, uid = heap[0]
            if self._is_current(uid, order, queue):
                return due
            heappop(heap)
        return None

    def _is_current(self, uid: str, order: int, *queues: Queue) -> bool:
        pod_state = self._state.pods.get(uid)
        return pod_state is not None and pod_state.order == order and pod_state.queue in queues
