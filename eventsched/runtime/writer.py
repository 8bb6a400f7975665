"""From the engine's records to batches: what a batch holds, and which effects wait for it.

Pure; ``Committer`` and the leader do the waiting. Where a batch ends changes no decision: the
engine does not know of batches.
"""

from collections.abc import Sequence
from typing import NamedTuple

from eventsched.domain.records import (
    Bind,
    BindIntended,
    BindRetried,
    Effect,
    Evict,
    Outcome,
    PodDecided,
    PreemptionDecided,
)
from eventsched.domain.state import SchedulerState
from eventsched.eventlog.port import Batch, Stored
from eventsched.scheduling.ledger import Logged

_INTENTS = frozenset({PodDecided, BindIntended, BindRetried, PreemptionDecided})
"""The kinds of records that may ask something of the world."""


class Pending(NamedTuple):
    """A closed batch, and the effects (each with the time, µs, of its decision) that may leave once
    it is committed."""

    batch: Batch
    effects: Sequence[tuple[Effect, int]]


class Writer:
    """Collects the engine's records until a batch is closed."""

    def __init__(self, state: SchedulerState, *, batch_size: int = 256) -> None:
        self._state = state
        self._batch_size = batch_size
        self._open: list[Logged] = []
        self._effects: list[tuple[Effect, int]] = []

    def add(self, logged: Sequence[Logged]) -> None:
        """Takes the records of a step."""
        self._open += logged
        for each in logged:
            # Made now, from the state that the record was decided in: a batch's edge changes none.
            if type(each.record) in _INTENTS:
                self._effects += [(effect, each.at) for effect in self.effects(each)]

    @property
    def has_effects(self) -> bool:
        """Whether something in the open batch asks anything of the world."""
        return bool(self._effects)

    @property
    def full(self) -> bool:
        """Whether the open batch should be closed."""
        return len(self._open) >= self._batch_size

    def close(self, mark: bytes = b"null") -> Pending | None:
        """Closes the open batch; None where nothing is in it. ``mark`` is JSON text that says how
        far the sources were read."""
        if not self._open:
            return None
        logged, self._open = self._open, []
        effects, self._effects = self._effects, []
        batch = Batch(
            records=[Stored.of(each) for each in logged],
            details={each.position: each.detail for each in logged if each.detail is not None},
            mark=mark,
        )
        return Pending(batch, effects)

    def effects(self, logged: Logged) -> Sequence[Effect]:
        """What a record that was just applied asks of the world, once it is committed."""
        record = logged.record
        if isinstance(record, PreemptionDecided):
            return [self._evict(uid, record, logged.position) for uid in record.evicted]
        if isinstance(record, PodDecided):
            if record.outcome is not Outcome.SCHEDULED:
                return ()
        elif not isinstance(record, BindIntended | BindRetried):
            return ()
        pod = self._state.pods[record.uid].pod
        bind = Bind(
            uid=record.uid,
            namespace=pod.namespace,
            name=pod.name,
            node=record.node,
            attempt=record.attempt,
            decision=logged.position,
        )
        return (bind,)

    def _evict(self, uid: str, decided: PreemptionDecided, position: int) -> Evict:
        pod = self._state.pods[uid].pod
        return Evict(
            uid=uid,
            namespace=pod.namespace,
            name=pod.name,
            node=decided.node,
            preemptor=decided.uid,
            decision=position,
        )
