"""Drafts of Events and of pod status, from the records of a log.

Pure: the same records give the same drafts in every replica, so the next leader repeats those that
may not have been written. The texts are upstream's (pkg/scheduler/schedule_one.go bindingCycle and
handleSchedulingFailure; framework/preemption/executor.go).
"""

from collections.abc import Callable, Iterable
from typing import Any, Literal

import msgspec

from eventsched.cluster.messages import WriteEvent
from eventsched.domain import records
from eventsched.domain.objects import Pod
from eventsched.domain.records import MoveCause, Outcome, Queue
from eventsched.domain.records.log_entry import LogEntry
from eventsched.domain.state.scheduler_state import SchedulerState
from eventsched.runtime.effects.decision_names import OpenDecisions

UNSCHEDULABLE, ERROR = "Unschedulable", "SchedulerError"
"""Reasons of the condition PodScheduled (upstream: api/core/v1 PodReasonUnschedulable,
PodReasonSchedulerError)."""
WORK_BUDGET_EXCEEDED = "WorkBudgetExceeded"
"""A reason of eventsched: the pod was not tried because it needs too much work (ADR 15)."""
MAX_NOTE_BYTES = 1024
"""The longest note of an Event, in bytes (upstream: apis/events/validation NoteLengthLimit)."""
CUT = " ..."
_REASONS: dict[str, str] = {MoveCause.OVER_BUDGET: WORK_BUDGET_EXCEEDED}
"""Cause of a move between queues → the condition's reason, if it is not SchedulerError."""


class DraftedStatus(msgspec.Struct, frozen=True):
    """Changes of a pod's status: the condition PodScheduled with ``reason`` and ``message`` (reason
    "": unchanged), and the nominated node ("": none; None: unchanged). ``at`` is in µs."""

    uid: str
    reason: str
    message: str
    nominated: str | None
    at: int


class Draft(msgspec.Struct, frozen=True):
    """An Event or a status to write. ``position`` is that of the first record of the step that it
    follows from. Each batch's mark says up to which position everything is written."""

    position: int
    event: WriteEvent | None = None
    status: DraftedStatus | None = None


class EventDrafterSnapshot(msgspec.Struct):
    """The drafter's part of a snapshot."""

    victims: dict[str, WriteEvent]


class EventDrafter:
    """Follows records that were just applied to a state."""

    def __init__(self, state: SchedulerState, decisions: OpenDecisions) -> None:
        """``decisions`` follows each record after this."""
        self._state = state
        self._decisions = decisions
        self._failed: dict[str, LogEntry] = {}
        """By uid: a failed attempt or reservation; the queue that the pod goes to gives the
        reason."""
        self.victims: dict[str, WriteEvent] = {}
        """By uid: the Event to write once the cluster deletes the pod."""
        self._branches: dict[
            type, Callable[[Any, LogEntry], Iterable[WriteEvent | DraftedStatus | None]]
        ] = {
            records.PodDecided: self._decided,
            records.PodUnreserved: self._unreserved,
            records.PodSkipped: self._skipped,
            records.PodQueued: self._queued,
            records.PodBound: self._bound,
            records.PreemptionDecided: self._preempted,
            records.NominationCleared: self._cleared,
            records.EvictionSucceeded: self._evicted,
            records.EvictionFailed: self._eviction_failed,
            records.PodUpdated: self._updated,
            records.PodDeleted: self._deleted,
        }

    def on_record(self, logged: LogEntry) -> list[Draft]:
        """The drafts that follow from a record."""
        branch = self._branches.get(type(logged.record))
        # The scheduler that asks, or that is followed, writes them.
        if branch is None or self._state.serves or self._state.shadows:
            return []
        return [
            Draft(logged.cause, status=draft)
            if isinstance(draft, DraftedStatus)
            else Draft(logged.cause, event=draft)
            for draft in branch(logged.record, logged)
            if draft is not None
        ]

    def snapshot(self) -> EventDrafterSnapshot:
        """The state after a whole step, for ``restore``."""
        return EventDrafterSnapshot(dict(self.victims))

    def restore(self, snapshot: EventDrafterSnapshot) -> None:
        """Loads a snapshot."""
        self.victims = dict(snapshot.victims)

    # --- attempts -------------------------------------------------------------------------

    def _decided(
        self, decided: records.PodDecided, logged: LogEntry
    ) -> Iterable[WriteEvent | DraftedStatus]:
        if decided.outcome is Outcome.WAITING:
            # Other components may rely on it (upstream: NominatedNodeNameForExpectation).
            yield DraftedStatus(decided.uid, "", "", decided.node, logged.at)
        elif decided.outcome is not Outcome.SCHEDULED:
            pod = self._state.pods[decided.uid].pod
            if pod.deleting:  # in a stream whose version does not skip such pods
                yield self._failure(pod, logged, decided.message)
            else:
                self._failed[decided.uid] = logged

    def _skipped(self, skipped: records.PodSkipped, logged: LogEntry) -> Iterable[WriteEvent]:
        yield self._failure(self._state.pods[skipped.uid].pod, logged, skipped.message)

    def _unreserved(
        self, unreserved: records.PodUnreserved, logged: LogEntry
    ) -> Iterable[DraftedStatus]:
        self._failed[unreserved.uid] = logged
        return ()

    def _queued(
        self, queued: records.PodQueued, logged: LogEntry
    ) -> Iterable[WriteEvent | DraftedStatus]:
        failed = self._failed.pop(queued.uid, None)
        if failed is None:
            return
        ended, pod = failed.record, self._state.pods[queued.uid].pod
        if isinstance(ended, records.PodUnreserved):
            is_refused, message = queued.queue is Queue.UNSCHEDULABLE, ended.message
            is_wrapped, nominated = is_refused, ""
        else:
            assert isinstance(ended, records.PodDecided)
            is_refused, message = ended.outcome is Outcome.UNSCHEDULABLE, ended.message
            # Refused on its node by Reserve or Permit. Otherwise the text is FitError's already.
            is_wrapped = is_refused and ended.node != "" and queued.queue is Queue.UNSCHEDULABLE
            nominated = None
        if is_wrapped:
            message = f"0/1 nodes are available: 1 {message}."
        yield self._failure(pod, failed, message)
        reason = UNSCHEDULABLE if is_refused else _REASONS.get(queued.cause, ERROR)
        yield DraftedStatus(pod.uid, reason, message, nominated, failed.at)

    def _failure(self, pod: Pod, logged: LogEntry, message: str) -> WriteEvent:
        return WriteEvent(
            key=self._decisions.name(logged.position),
            **_about(pod),
            reason="FailedScheduling",
            action="Scheduling",
            type="Warning",
            note=cut(message),
            related=None,
            at=logged.at,
            controller=pod.scheduler_name,
        )

    def _bound(self, bound: records.PodBound, logged: LogEntry) -> Iterable[WriteEvent]:
        pod = self._state.pods[bound.uid].pod
        yield WriteEvent(
            key=self._decisions.intents[bound.uid],
            **_about(pod),
            reason="Scheduled",
            action="Binding",
            type="Normal",
            note=cut(f"Successfully assigned {pod.namespace}/{pod.name} to {bound.node}"),
            related=None,
            at=logged.at,
            controller=pod.scheduler_name,
        )

    # --- preemption -----------------------------------------------------------------------

    def _preempted(
        self, decided: records.PreemptionDecided, logged: LogEntry
    ) -> Iterable[WriteEvent | DraftedStatus]:
        pod = self._state.pods[decided.uid].pod
        note = f"Preempted by pod {pod.uid} on node {decided.node}"
        for uid in decided.evicted:
            self.victims[uid] = self._preemption_event(self._state.pods[uid].pod, pod, note, logged)
        for uid in decided.sent_back:
            victim = self._state.pods[uid].pod
            yield self._preemption_event(victim, pod, f"{note} (in kube-scheduler memory).", logged)
        yield DraftedStatus(pod.uid, "", "", decided.node, logged.at)

    def _preemption_event(
        self, victim: Pod, preemptor: Pod, note: str, logged: LogEntry
    ) -> WriteEvent:
        return WriteEvent(
            key=self._decisions.name(logged.position),
            **_about(victim),
            reason="Preempted",
            action="Preempting",
            type="Normal",
            note=cut(note),
            related=("Pod", preemptor.namespace, preemptor.name, preemptor.uid),
            at=logged.at,
            controller=preemptor.scheduler_name,
        )

    def _cleared(
        self, cleared: records.NominationCleared, logged: LogEntry
    ) -> Iterable[DraftedStatus]:
        yield DraftedStatus(cleared.uid, "", "", "", logged.at)

    def _evicted(
        self, ended: records.EvictionSucceeded | records.PodDeleted, _: LogEntry
    ) -> Iterable[WriteEvent | None]:
        yield self.victims.pop(ended.uid, None)

    def _eviction_failed(self, failed: records.EvictionFailed, _: LogEntry) -> Iterable[WriteEvent]:
        self.victims.pop(failed.uid, None)
        return ()

    def _updated(self, updated: records.PodUpdated, _: LogEntry) -> Iterable[WriteEvent | None]:
        if updated.pod.deleting:
            yield self.victims.pop(updated.pod.uid, None)

    def _deleted(
        self, deleted: records.PodDeleted, logged: LogEntry
    ) -> Iterable[WriteEvent | None]:
        self._failed.pop(deleted.uid, None)
        return self._evicted(deleted, logged)


def _about(pod: Pod) -> dict[Literal["namespace", "name", "uid"], str]:
    return {"namespace": pod.namespace, "name": pod.name, "uid": pod.uid}


def cut(note: str) -> str:
    """The note, shortened to the longest that an Event may have (upstream: schedule_one.go
    truncateMessage)."""
    encoded = note.encode()
    if len(encoded) <= MAX_NOTE_BYTES:
        return note
    return encoded[: MAX_NOTE_BYTES - len(CUT)].decode(errors="ignore") + CUT
