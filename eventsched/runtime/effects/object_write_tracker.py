"""Tracks the object changes that open binds wait for (PreBind), until the cluster has made or
refused each.

    committed ─▶ write ─▶ made, or there already: WriteSucceeded
                  ╲─▶ no answer ─▶ write again
                   ╲─▶ refused: WriteFailed

A committed change is a promise that also binds the next leader; it can be repeated safely. It is
dropped with its reservation. A change that is still on its way then, or when history is lost, may
succeed: a claim then has a volume or a selected node, which the watch shows, and no room on a node
is taken by it.
"""

from collections.abc import Iterator, Sequence

from eventsched.cluster.messages import WriteAnswer, WriteObject, Written
from eventsched.domain import records
from eventsched.domain.records import Prepare, Stimulus
from eventsched.domain.records.log_entry import LogEntry
from eventsched.domain.records.object_writes import Write
from eventsched.domain.state.scheduler_state import SchedulerState
from eventsched.runtime.effects.tracker import Action


class ObjectWriteTracker:
    """The changes under way; a Tracker (tracker.py) of Prepare effects."""

    outcome_first = False

    def __init__(self, state: SchedulerState) -> None:
        self._state = state
        self._calls: set[WriteObject] = set()

    def on_records(self, logged: Sequence[LogEntry]) -> None:
        """Does nothing: the state has everything that is needed."""

    def resume(self) -> Iterator[Action]:
        """Repeats all open changes."""
        for uid, reservation in list(self._state.reservations.items()):
            for write in reservation.open_writes():
                yield from self._request(uid, reservation.attempt, write)

    def void(self, reason: str) -> Sequence[Action]:
        """Nothing to do: the changes ended with their reservations."""
        return ()

    def committed(self, effect: Prepare) -> list[Action]:
        """The record of a change is durable."""
        return self._request(effect.uid, effect.attempt, effect.write)

    def answered(self, answer: WriteAnswer) -> list[Action]:
        """The cluster has answered. The object in the answer was observed before."""
        request = answer.request
        if request not in self._calls:
            return []
        self._calls.remove(request)
        uid, attempt, write = request.uid, request.attempt, request.write
        if not self._is_open(uid, attempt, write):
            return []
        outcome: Stimulus
        if isinstance(answer, Written):
            outcome = records.WriteSucceeded(uid=uid, attempt=attempt, write=write)
        else:
            outcome = records.WriteFailed(
                uid=uid, attempt=attempt, write=write, message=answer.message
            )
        return [outcome]

    def unanswered(self, request: WriteObject) -> WriteObject | None:
        """The same request again."""
        return request if self.awaits(request) else None

    def awaits(self, request: WriteObject) -> bool:
        """Whether a change is still needed."""
        is_open = self._is_open(request.uid, request.attempt, request.write)
        if not is_open:
            self._calls.discard(request)
        return is_open and request in self._calls

    def _request(self, uid: str, attempt: int, write: Write) -> list[Action]:
        if not self._is_open(uid, attempt, write):
            return []
        pod = self._state.pods[uid].pod
        call = WriteObject(uid, pod.namespace, pod.name, attempt, write)
        if call in self._calls:
            return []
        self._calls.add(call)
        return [call]

    def _is_open(self, uid: str, attempt: int, write: Write) -> bool:
        reservation = self._state.reservations.get(uid)
        return (
            reservation is not None
            and reservation.attempt == attempt
            and bool(reservation.asked_by(write))
        )
