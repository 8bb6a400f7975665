"""From the engine's records to batches: what a batch holds, and which effects wait for it.

Pure; ``Committer`` and the leader do the waiting. Where a batch ends changes no decision: the
engine does not know of batches. A step's records are never parted: what follows from a record is
not decided again after a restart.
"""

import sys
from collections.abc import Sequence
from typing import NamedTuple

from eventsched.domain.records import (
    Bind,
    BindIntended,
    BindRetried,
    Consult,
    Effect,
    Evict,
    ExtenderAsked,
    Outcome,
    PodDecided,
    PreemptionDecided,
    PreparationIntended,
    Prepare,
)
from eventsched.domain.records.logged import Logged
from eventsched.domain.records.record_catalogue import CATALOGUE
from eventsched.domain.records.verdicts import Detail
from eventsched.domain.state.scheduler_state import SchedulerState
from eventsched.eventlog.port import Batch, Stored

_INTENTS = frozenset(row.record for row in CATALOGUE if row.is_intent)
_NEWS = frozenset(row.record for row in CATALOGUE if row.is_news)
"""For the commit of these alone nobody waits."""


class Pending(NamedTuple):
    """A closed batch, and the effects (each with the time, µs, of its decision) that may leave once
    it is committed."""

    batch: Batch
    effects: Sequence[tuple[Effect, int]]


class Writer:
    """Collects the engine's records until a batch is closed."""

    def __init__(
        self,
        state: SchedulerState,
        *,
        batch_size: int = 256,
        batch_bytes: int | None = None,
        linger: int = 0,
    ) -> None:
        """A batch is full with so many records, or so many bytes of records and vectors. One that
        has nothing but news may wait for more, for ``linger`` (µs)."""
        self._state = state
        self._batch_size = batch_size
        self._batch_bytes = batch_bytes
        self._open: list[Stored] = []
        self._details: dict[int, Detail] = {}
        self._effects: list[tuple[int, Effect, int]] = []
        self._sizes: list[int] = []
        """Bytes that each open record and its vectors take; counted only where that is limited."""
        self._bytes = 0
        self._linger = linger
        self._close_at = 0

    def __len__(self) -> int:
        return len(self._open)

    def add(self, logged: Sequence[Logged]) -> None:
        """Takes the records of a step."""
        if not self._open and logged:
            self._close_at = logged[0].at + self._linger
        for each in logged:
            stored, detail = Stored.of(each), each.detail
            self._open.append(stored)
            if detail is not None:
                self._details[each.position] = detail
            if self._batch_bytes is not None:
                size = len(stored.body) + (0 if detail is None else detail.stored_bytes)
                self._sizes.append(size)
                self._bytes += size
            if type(each.record) not in _NEWS:
                self._close_at = 0
            # Made now, from the state that the record was decided in: a batch's edge changes none.
            if type(each.record) in _INTENTS:
                found = self.effects(each)
                self._effects += [(each.position, effect, each.at) for effect in found]

    @property
    def has_effects(self) -> bool:
        """Whether something in the open batch asks anything of the world."""
        return bool(self._effects)

    @property
    def due(self) -> int | None:
        """When (µs) the open batch is to be closed; None where nothing is in it."""
        if not self._open:
            return None
        return 0 if self.full else self._close_at

    @property
    def full(self) -> bool:
        """Whether the open batch should be closed."""
        if self._batch_bytes is not None and self._bytes >= self._batch_bytes:
            return True
        return len(self._open) >= self._batch_size

    def close(self, mark: bytes = b"null", *, whole: bool = True) -> Pending | None:
        """Closes the open batch; None where nothing is in it. ``mark`` is JSON text that says how
        far the sources were read. Unless it is to be ``whole``, a batch takes only as many steps as
        fill it, at least one, and the others stay."""
        if not self._open:
            return None
        count = len(self._open) if whole else self._filling()
        taken, self._open = self._open[:count], self._open[count:]
        self._close_at = 0  # what is left has waited
        end = taken[-1].position
        details = {at: detail for at, detail in self._details.items() if at <= end}
        effects = [(effect, at) for position, effect, at in self._effects if position <= end]
        self._bytes -= sum(self._sizes[:count])
        del self._sizes[:count]
        self._details = {at: detail for at, detail in self._details.items() if at > end}
        self._effects = self._effects[len(effects) :]
        return Pending(Batch(taken, details, mark), effects)

    def effects(self, logged: Logged) -> Sequence[Effect]:
        """What a record that was just applied asks of the world, once it is committed."""
        record = logged.record
        if isinstance(record, PreemptionDecided):
            return [self._evict(uid, record, logged.position) for uid in record.evicted]
        if isinstance(record, ExtenderAsked):
            return [Consult(uid=record.uid, attempt=record.attempt, decision=logged.position)]
        if isinstance(record, PreparationIntended):
            asked = [write for writes in record.writes.values() for write in writes]
            return [
                Prepare(
                    uid=record.uid, attempt=record.attempt, decision=logged.position, write=write
                )
                for write in dict.fromkeys(asked)
            ]
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

    def _filling(self) -> int:
        """How many of the open records make a batch: whole steps, until it is full."""
        if not self.full:
            return len(self._open)
        size = 0
        for number, each in enumerate(self._open):
            full = number >= self._batch_size or size >= (self._batch_bytes or sys.maxsize)
            if full and each.cause == each.position:
                return number
            size += self._sizes[number] if self._sizes else 0
        return len(self._open)

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
