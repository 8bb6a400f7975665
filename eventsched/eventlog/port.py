"""What a log is to the rest of the scheduler: batches in, records out, nothing ever changed.

One writer has at most one batch under way: it goes on working while the log commits, and lets
effects leave when ``finish`` has returned. Every implementation passes
tests/contract/test_eventlog.py.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from eventsched.domain import records
from eventsched.domain.records import AnyRecord
from eventsched.domain.records.logged import Logged
from eventsched.domain.records.verdicts import Detail


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
    """Consecutive records that are committed together; ``details`` are by position. ``mark`` is
    JSON text: how far the writer had read its sources by then."""

    records: Sequence[Stored]
    details: Mapping[int, Detail]
    mark: bytes = b"null"

    @property
    def first(self) -> int:
        """The position of its first record."""
        return self.records[0].position


class StoredSnapshot(NamedTuple):
    """State after the records before ``position``; ``hash`` is the stream's head there."""

    position: int
    hash: bytes
    digest: str
    version: str
    body: bytes


class LogSize(NamedTuple):
    """What a log takes on disk. ``nodes`` are the bytes of node inputs, ``pods`` those of all else
    (the empty schema apart), ``scheduled`` the number of decisions that placed a pod."""

    nodes: int
    pods: int
    scheduled: int

    @property
    def bytes_per_pod(self) -> float:
        """Bytes for each scheduled pod, node inputs apart."""
        return self.pods / self.scheduled if self.scheduled else 0.0


class StoredLog(Protocol):
    """What can be read of a stream."""

    def read(self, first: int = 0) -> Iterator[Stored]:
        """The committed records from a position on, in order. Raises CorruptLogError."""

    def detail(self, position: int) -> Detail | None:
        """The vectors of the decision at a position, whole; None where there are none."""


class EventLog(StoredLog, Protocol):
    """An append-only log of one stream, as its one writer sees it."""

    @property
    def head(self) -> int:
        """The position of the next record; a batch that was begun counts."""

    @property
    def head_hash(self) -> bytes:
        """The hash of the last batch; of one that was begun, too."""

    def begin(self, batch: Batch) -> None:
        """Offers a batch and returns before it is known to be committed; at most one can be under
        way. Raises ValueError for positions with gaps or an empty batch, and ConflictError where it
        does not begin at the head."""

    def finish(self) -> None:
        """Waits until the batch under way is durable, whole; nothing where none is. Raises
        FencedError where another writer has taken over and ConflictError where the stored head is
        another one: nothing of the batch is in the log then."""


def whole(position: int, find: Callable[[int], Detail | None]) -> Detail | None:
    """The vectors of a decision with every delta expanded; None where a part is missing."""
    deltas: list[Detail] = []
    at: int | None = position
    while at is not None:
        found = find(at)
        if found is None:
            return None
        deltas.append(found)
        at = found.base
    expanded = deltas.pop()
    while deltas:
        expanded = deltas.pop().expand(expanded)
    return expanded
