"""Tracks the open evictions of a stream, until each pod is being deleted or is gone.

    committed ─▶ evict ─▶ being deleted: EvictionSucceeded        gone: 404, at any point
                  ╲─▶ no answer ─▶ evict again
                   ╲─▶ refused: EvictionFailed

A committed eviction is a promise that also binds the next leader. It can be repeated safely,
because it names one uid. It is given up if no pod needs the room any more. If history is lost, an
eviction that is still on its way may succeed: it only ends a pod, and the log records that end like
any other.
"""

from collections.abc import Iterator, Sequence

from eventsched.cluster.messages import EvictPod, PodAnswer, PodShown
from eventsched.domain import records
from eventsched.domain.records import Evict
from eventsched.domain.records.log_entry import LogEntry
from eventsched.domain.state.scheduler_state import SchedulerState
from eventsched.runtime.effects.decision_names import OpenDecisions
from eventsched.runtime.effects.tracker import Action

ROOM_NOT_NEEDED = "nobody needs the room any more"
REFUSED = "the cluster did not delete the pod"


class EvictionTracker:
    """The open evictions by the victim's uid; a Tracker (tracker.py) of Evict effects."""

    outcome_first = True

    def __init__(self, state: SchedulerState, decisions: OpenDecisions) -> None:
        self._state = state
        self._decisions = decisions
        self._calls: dict[str, EvictPod] = {}

    def on_records(self, logged: Sequence[LogEntry]) -> None:
        """Takes in the records of a step: an eviction with an outcome is no longer tracked."""
        for entry in logged:
            match entry.record:
                case (
                    records.EvictionSucceeded(uid=uid)
                    | records.EvictionFailed(uid=uid)
                    | records.PodDeleted(uid=uid)
                ):
                    self._calls.pop(uid, None)

    def resume(self) -> Iterator[Action]:
        """Repeats all open evictions."""
        for uid in list(self._state.preemptions.evicting):
            yield from self._evict(uid)

    def void(self, reason: str) -> Iterator[Action]:
        """Gives up all open evictions."""
        for uid in list(self._state.preemptions.evicting):
            yield records.EvictionFailed(uid=uid, message=reason)

    def committed(self, effect: Evict) -> list[Action]:
        """The record of an eviction is durable."""
        return self._evict(effect.uid)

    def answered(self, answer: PodAnswer) -> list[Action]:
        """The cluster has answered. The pod in the answer is observed after this."""
        uid = answer.request.uid
        if self._calls.get(uid) != answer.request:
            return []
        del self._calls[uid]
        if not isinstance(answer, PodShown):
            return []
        if answer.seen.pod.deleting:
            return [records.EvictionSucceeded(uid=uid)]
        return [records.EvictionFailed(uid=uid, message=REFUSED)]

    def unanswered(self, request: EvictPod) -> EvictPod | None:
        """The same request again: an eviction of one uid may be repeated."""
        return request if self.awaits(request) else None

    def awaits(self, request: EvictPod) -> bool:
        """Whether a request is still needed."""
        is_open = request.uid in self._state.preemptions.evicting
        return is_open and self._calls.get(request.uid) == request

    def _evict(self, uid: str) -> list[Action]:
        eviction = self._state.preemptions.evicting.get(uid)
        if eviction is None or uid in self._calls:
            return []
        if not self._state.preemptions.is_eviction_needed(self._state.pods[uid].pod):
            return [records.EvictionFailed(uid=uid, message=ROOM_NOT_NEEDED)]
        pod = self._state.pods[uid].pod
        # A pod needs the room, but perhaps no longer the one that preempted.
        profile = self._state.pods.get(eviction.preemptor, self._state.pods[uid]).pod.scheduler_name
        call = EvictPod(uid, pod.namespace, pod.name, self._decisions.evictions[uid], profile)
        self._calls[uid] = call
        return [call]
