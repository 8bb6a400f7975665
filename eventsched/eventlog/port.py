"""What a log is to the rest of the scheduler: batches in, records out, nothing ever changed.

The memory implementation serves tests, what-if and measurement; every implementation passes
tests/contract/test_eventlog.py.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from eventsched.domain import records
from eventsched.domain.records import AnyRecord
from eventsched.domain.verdicts import Detail
from eventsched.scheduling.ledger import Logged


class Stored(NamedTuple):
    """A record as the log keeps it: its place in the stream, its time (µs), the position of the
    first record of its step, kind and version of its shape, and its canonical bytes."""

    position: int
    at: int
    cause: int
    kind: str
    version: int
    body: bytes

    @classmethod
    def of(cls, logged: Logged) -> "Stored":
        """A record's stored form."""
        kind = type(logged.record)
        return cls(
            logged.position,
            logged.at,
            logged.cause,
            kind.__name__,
            kind.version,
            records.encode(logged.record),
        )

    @property
    def record(self) -> AnyRecord:
        """The record itself. Raises msgspec.ValidationError for an unknown kind or shape."""
        return records.decode(self.body)

    @property
    def logged(self) -> Logged:
        """The record as the engine's ``apply`` takes it."""
        return Logged(self.position, self.at, self.cause, self.record)


class Batch(NamedTuple):
    """Consecutive records that are committed together. ``id`` stays the same when the batch is
    offered again after an unknown outcome; ``details`` are by position."""

    id: str
    records: Sequence[Stored]
    details: dict[int, Detail]

    @property
    def first(self) -> int:
        """The position of its first record."""
        return self.records[0].position


class ConflictError(Exception):
    """The log's head is not where the batch begins: somebody else has written."""

    def __init__(self, expected: int, head: int) -> None:
        self.expected = expected
        self.head = head
        super().__init__(f"a batch for position {expected} was offered, but the head is at {head}")


class EventLog(Protocol):
    """An append-only log of one stream."""

    @property
    def head(self) -> int:
        """The position of the next record."""

    def append(self, batch: Batch) -> None:
        """Commits a batch, whole or not at all; it is durable when this returns. A batch that is in
        the log already (by id) is passed over. Raises ConflictError where it does not begin at the
        head, and ValueError for positions with gaps or an empty batch."""

    def read(self, first: int = 0) -> Iterator[Stored]:
        """The records from a position on, in order."""

    def detail(self, position: int) -> Detail | None:
        """The vectors of the decision at a position, whole; None where there are none."""
