"""The one writer: records become batches, batches are committed, and only then effects leave."""

from collections.abc import Callable, Sequence

from eventsched.domain.records import Bind, BindIntended, Effect, Outcome, PodDecided
from eventsched.domain.state import SchedulerState
from eventsched.eventlog.port import Batch, EventLog, Stored
from eventsched.scheduling.ledger import Logged


class Writer:
    """Collects the engine's records and hands them to the log. Where a batch ends changes no
    decision: the engine does not know of batches."""

    def __init__(
        self,
        log: EventLog | None,
        state: SchedulerState,
        execute: Callable[[Effect, int], None],
        *,
        batch_size: int = 256,
    ) -> None:
        """``execute`` gets each effect and the time (µs) of its decision, after the commit. Without
        a log effects leave at the end of a batch all the same: for measuring what logging costs."""
        self._log = log
        self._state = state
        self._execute = execute
        self._batch_size = batch_size
        self._open: list[Logged] = []
        self._effects: list[tuple[Effect, int]] = []

    def add(self, logged: Sequence[Logged]) -> None:
        """Takes the records of a step; commits when the batch is full."""
        self._open += logged
        for each in logged:
            # Made now, from the state that the record was decided in: a batch's edge changes none.
            effect = self._effect(each)
            if effect is not None:
                self._effects.append((effect, each.at))
        if len(self._open) >= self._batch_size:
            self.commit()

    def commit(self) -> None:
        """Commits what is open, then lets its effects go. Raises what the log raises; the batch
        stays open then and is offered again, unchanged, by the next call."""
        if not self._open:
            return
        if self._log is not None:
            self._log.append(_batch(self._open))
        effects, self._effects = self._effects, []
        self._open = []
        for effect, at in effects:
            self._execute(effect, at)

    def _effect(self, logged: Logged) -> Effect | None:
        """What a record asks of the world, once it is committed."""
        record = logged.record
        if isinstance(record, PodDecided):
            if record.outcome is not Outcome.SCHEDULED:
                return None
        elif not isinstance(record, BindIntended):
            return None
        pod = self._state.pods[record.uid].pod
        return Bind(
            uid=record.uid,
            namespace=pod.namespace,
            name=pod.name,
            node=record.node,
            attempt=record.attempt,
            decision=logged.position,
        )


def _batch(logged: Sequence[Logged]) -> Batch:
    return Batch(
        id=f"{logged[0].position}-{logged[-1].position}",
        records=[Stored.of(each) for each in logged],
        details={each.position: each.detail for each in logged if each.detail is not None},
    )
