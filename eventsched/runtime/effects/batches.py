"""From the engine's records to batches: what a batch holds, and which effects wait for it.

Pure; the leader does the waiting. The end of a batch changes no decision: the
engine does not know about batches. The records of a step are never split between batches, so a
restart does not decide again what follows from a record.
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
from eventsched.domain.records.log_entry import LogEntry
from eventsched.domain.records.record_catalogue import CATALOGUE
from eventsched.domain.records.verdicts import Detail
from eventsched.domain.state.scheduler_state import SchedulerState
from eventsched.eventlog.port import Batch, StoredRecord

_INTENTS = frozenset(row.record for row in CATALOGUE if row.is_intent)
_MAY_LINGER = frozenset(row.record for row in CATALOGUE if row.may_linger)
"""Changes of the cluster. A batch of these alone is not urgent: nothing waits for its commit."""


class BatchWithEffects(NamedTuple):
    """A closed batch, and the effects (each with the time, µs, of its decision) that may be
    requested once it is committed."""

    batch: Batch
    effects: Sequence[tuple[Effect, int]]


class BatchBuilder:
    """Collects the engine's records until a batch is closed."""

    def __init__(
        self,
        state: SchedulerState,
        *,
        batch_size: int = 256,
        batch_bytes: int | None = None,
        linger: int = 0,
    ) -> None:
        """A batch is full with ``batch_size`` records, or ``batch_bytes`` bytes of records and
        vectors (None: no limit). A batch with only changes of the cluster may
        wait ``linger`` (µs) for more."""
        self._state = state
        self._batch_size = batch_size
        self._batch_bytes = batch_bytes
        self._open: list[StoredRecord] = []
        self._details: dict[int, Detail] = {}
        self._effects: list[tuple[int, Effect, int]] = []
        self._sizes: list[int] = []
        """Bytes of each open record and its vectors; counted only if they are limited."""
        self._bytes = 0
        self._linger = linger
        self._close_at = 0

    def __len__(self) -> int:
        return len(self._open)

    def add(self, logged: Sequence[LogEntry]) -> None:
        """Takes the records of a step."""
        if not self._open and logged:
            self._close_at = logged[0].at + self._linger
        for entry in logged:
            stored, detail = StoredRecord.of(entry), entry.detail
            self._open.append(stored)
            if detail is not None:
                self._details[entry.position] = detail
            if self._batch_bytes is not None:
                size = len(stored.body) + (0 if detail is None else detail.stored_bytes)
                self._sizes.append(size)
                self._bytes += size
            if type(entry.record) not in _MAY_LINGER:
                self._close_at = 0
            # Made now, from the state of the decision: it does not depend on when the batch ends.
            if type(entry.record) in _INTENTS:
                effects = self.effects(entry)
                self._effects += [(entry.position, effect, entry.at) for effect in effects]

    def take_effects(self) -> list[tuple[Effect, int]]:
        """The effects of the open batch, each with the time (µs) of its decision; the batch then
        has none. Only for a cluster that ends with this process (docs/adr/0026)."""
        taken = [(effect, at) for _, effect, at in self._effects]
        self._effects.clear()
        return taken

    @property
    def due(self) -> int | None:
        """When (µs) the open batch is to be closed; None if it is empty."""
        if not self._open:
            return None
        return 0 if self.full else self._close_at

    def is_due(self, now: int) -> bool:
        """Whether there is an open batch that is to be closed now."""
        due = self.due
        return due is not None and due <= now

    @property
    def full(self) -> bool:
        """Whether the open batch should be closed."""
        if self._batch_bytes is not None and self._bytes >= self._batch_bytes:
            return True
        return len(self._open) >= self._batch_size

    def close(self, mark: bytes = b"null", *, whole: bool = True) -> BatchWithEffects | None:
        """Closes the open batch; None if it is empty. ``mark`` is JSON text that says how far the
        sources were read. With ``whole`` the batch takes all open records. Otherwise it takes as
        many steps as fill it, at least one, and the others stay open."""
        if not self._open:
            return None
        count = len(self._open) if whole else self._filling()
        taken, self._open = self._open[:count], self._open[count:]
        self._close_at = 0  # the other records have waited
        end = taken[-1].position
        details = {at: detail for at, detail in self._details.items() if at <= end}
        effects = [(effect, at) for position, effect, at in self._effects if position <= end]
        self._bytes -= sum(self._sizes[:count])
        del self._sizes[:count]
        self._details = {at: detail for at, detail in self._details.items() if at > end}
        self._effects = self._effects[len(effects) :]
        return BatchWithEffects(Batch(taken, details, mark), effects)

    def effects(self, logged: LogEntry) -> Sequence[Effect]:
        """The effects of a record that was just applied. A shadow only asks extenders."""
        record = logged.record
        if isinstance(record, ExtenderAsked):
            return [Consult(uid=record.uid, attempt=record.attempt, decision=logged.position)]
        if self._state.shadows:
            return ()
        if isinstance(record, PreemptionDecided):
            return [self._evict(uid, record, logged.position) for uid in record.evicted]
        if isinstance(record, PreparationIntended):
            writes = [write for group in record.writes.values() for write in group]
            return [
                Prepare(
                    uid=record.uid, attempt=record.attempt, decision=logged.position, write=write
                )
                for write in dict.fromkeys(writes)
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
        """The number of open records that fill a batch, in whole steps."""
        if not self.full:
            return len(self._open)
        size = 0
        for number, stored in enumerate(self._open):
            is_full = number >= self._batch_size or size >= (self._batch_bytes or sys.maxsize)
            if is_full and stored.cause == stored.position:
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
