"""A database in memory: one stream's head row and batches, with a linear history.

It does the same as the SQL in migrations (epochs, tokens, conditional appends, idempotent by hash),
and it can fail over to a replica without the last batches.
"""

from random import Random

import msgspec

from eventsched.domain import records
from eventsched.eventlog import chain
from eventsched.eventlog.chain import Head, SealedBatch, Term
from eventsched.eventlog.port import StoredRecord, StoredSnapshot
from eventsched.runtime.leader.leader_messages import Acquired, Committed, Deposed, Renewed

from .cluster import STREAM

_rows = msgspec.json.Decoder(list[tuple[int, int, int, msgspec.Raw]])


def stored_of(batch: SealedBatch) -> list[StoredRecord]:
    """A batch's records, read back from its bytes."""
    stored = []
    for position, (at, cause, version, raw) in enumerate(_rows.decode(batch.body), batch.first):
        body = bytes(raw)
        kind = type(records.decode(body)).__name__
        stored.append(StoredRecord(position, at, cause, kind, version, body))
    return stored


class Database:
    """The stream as it is stored. Calls take effect one after the other."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self.epoch = 0
        self.token = b""
        self.timeline = 1
        self.is_hidden = False
        self.batches: list[SealedBatch] = []
        self.records: list[StoredRecord] = []
        self.stored_snapshots: list[StoredSnapshot] = []

    @property
    def head(self) -> Head:
        """Where the stream ends."""
        return self.batches[-1].head if self.batches else Head(0, chain.genesis(STREAM))

    def acquire(self, known: Head) -> Acquired:
        """Begins an epoch, and reads the records after ``known``, or all if the log lacks it."""
        self.epoch += 1
        self.token = self._rng.randbytes(16)
        since = known if known in self.heads else self.heads[0]
        return Acquired(
            term=Term(STREAM, self.epoch, self.token),
            since=since,
            head=self.head,
            records=tuple(self.records[since.next :]),
            timeline=self.history,
            mark=self.batches[-1].mark if self.batches else b"null",
        )

    @property
    def history(self) -> str:
        """The timeline that the database reports; "" if it hides it."""
        return "" if self.is_hidden else f"timeline {self.timeline}"

    @property
    def heads(self) -> list[Head]:
        """The heads after each batch, and that of an empty log."""
        return [Head(0, chain.genesis(STREAM)), *(batch.head for batch in self.batches)]

    def store_snapshot(self, term: Term, snapshot: StoredSnapshot) -> None:
        """Stores a snapshot."""
        if self.is_current(term):
            self.stored_snapshots.append(snapshot)

    def snapshots(self) -> list[StoredSnapshot]:
        """The snapshots whose position and hash are in the log."""
        return [s for s in self.stored_snapshots if Head(s.position, s.hash) in self.heads]

    def append(self, batch: SealedBatch) -> Committed | Deposed:
        """The conditional append. An existing batch counts as committed."""
        if any(stored.hash == batch.hash for stored in self.batches):
            return Committed()
        if not self.is_current(batch.term):
            return Deposed("fenced")
        if (batch.first, batch.previous) != self.head:
            return Deposed("conflict")
        self.store(batch)
        return Committed()

    def store(self, batch: SealedBatch) -> None:
        """Appends a batch unconditionally."""
        self.batches.append(batch)
        self.records += stored_of(batch)

    def renew(self, term: Term) -> Renewed | Deposed:
        """The heartbeat."""
        return Renewed() if self.is_current(term) else Deposed("fenced")

    def is_current(self, term: Term) -> bool:
        """Whether a term is the newest on this history."""
        return (term.epoch, term.token) == (self.epoch, self.token)

    def fail_over(self, count: int) -> None:
        """Fails over to a replica without the last batches. Terms of the old history are void, and
        its epoch numbers are reused. The first batch is never lost."""
        del self.batches[max(1, len(self.batches) - count) :]
        del self.records[self.head.next :]
        self.epoch = self.batches[-1].term.epoch
        self.token = b""
        self.timeline += 1
