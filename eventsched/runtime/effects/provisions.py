"""What open binds of a stream wait for: each change is followed until the cluster has made it, or
refuses to.

    committed ─▶ write ─▶ made, or shown already: WriteSucceeded
                  ╲─▶ no answer ─▶ write again
                   ╲─▶ refused: WriteFailed

Like a bind's intent a committed change is a promise, also of the next leader; it is repeated
without harm. It is dropped where its reservation is given up. One that is still on its way then, or
when history is lost, may land all the same: a volume that is promised to a claim, or a node that is
selected for one, is seen as what it is, and no node is booked by it.
"""

from collections.abc import Iterator, Sequence

from eventsched.cluster.messages import WriteAnswer, WriteObject, Written
from eventsched.domain import records
from eventsched.domain.records import Prepare, Stimulus
from eventsched.domain.records.logged import Logged
from eventsched.domain.records.object_writes import Write
from eventsched.domain.state.scheduler_state import SchedulerState
from eventsched.runtime.effects.tracker import Step


class Provisions:
    """The changes under way; a Tracker (tracker.py) of Prepare effects."""

    outcome_first = False

    def __init__(self, state: SchedulerState) -> None:
        self._state = state
        self._calls: set[WriteObject] = set()

    def follow(self, logged: Sequence[Logged]) -> None:
        """All that matters is in the state."""

    def resume(self) -> Iterator[Step]:
        """Repeats all open changes."""
        for uid, held in list(self._state.reservations.items()):
            for write in held.open_writes():
                yield from self._ask(uid, held.attempt, write)

    def void(self, reason: str) -> Sequence[Step]:
        """They ended with their reservations."""
        return ()

    def committed(self, effect: Prepare) -> list[Step]:
        """The record of a change is durable."""
        return self._ask(effect.uid, effect.attempt, effect.write)

    def answered(self, answer: WriteAnswer) -> list[Step]:
        """The cluster has answered; the object as the answer shows it was observed before."""
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
        """It is asked for again."""
        return request if self.awaits(request) else None

    def awaits(self, request: WriteObject) -> bool:
        """Whether a change is still to be made."""
        is_open = self._is_open(request.uid, request.attempt, request.write)
        if not is_open:
            self._calls.discard(request)
        return is_open and request in self._calls

    def _ask(self, uid: str, attempt: int, write: Write) -> list[Step]:
        if not self._is_open(uid, attempt, write):
            return []
        pod = self._state.pods[uid].pod
        call = WriteObject(uid, pod.namespace, pod.name, attempt, write)
        if call in self._calls:
            return []
        self._calls.add(call)
        return [call]

    def _is_open(self, uid: str, attempt: int, write: Write) -> bool:
        held = self._state.reservations.get(uid)
        return held is not None and held.attempt == attempt and bool(held.asked_by(write))
