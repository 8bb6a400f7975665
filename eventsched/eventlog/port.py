"""The interface of a log: batches go in, records come out, and nothing is ever changed.

A writer has at most one batch in flight. It keeps computing while the log commits, and carries out
effects only after ``finish`` has returned. Every implementation passes
tests/contract/test_eventlog.py.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from eventsched.domain import records
from eventsched.domain.records import AnyRecord
from eventsched.domain.records.log_entry import LogEntry
from eventsched.domain.records.verdicts import Detail


class StoredRecord(NamedTuple):
    """A record as the log stores it: its position in the stream, its time (µs), the position of
    the first record of its step (the cause), its kind, the version of its shape, and its canonical
    bytes."""

    position: int
    at: int
    cause: int
    kind: str
    version: int
    body: bytes

    @classmethod
    def of(cls, logged: LogEntry) -> "StoredRecord":
        """The stored form of a record."""
        record_type = type(logged.record)
        return cls(
            logged.position,
            logged.at,
            logged.cause,
            record_type.__name__,
            record_type.version,
            records.encode(logged.record),
        )

    @property
    def record(self) -> AnyRecord:
        """The decoded record. Raises msgspec.ValidationError for an unknown kind or shape."""
        return records.decode(self.body)

    @property
    def logged(self) -> LogEntry:
        """The record as the engine's ``apply`` takes it."""
        return LogEntry(self.position, self.at, self.cause, self.record)


class Batch(NamedTuple):
    """Consecutive records that are committed together. ``details`` maps positions of decisions to
    their vectors. ``mark`` is JSON text: how far the writer had read its sources by then."""

    records: Sequence[StoredRecord]
    details: Mapping[int, Detail]
    mark: bytes = b"null"

    @property
    def first(self) -> int:
        """The position of the first record."""
        return self.records[0].position

    @property
    def size(self) -> int:
        """Bytes of its records and vectors, before they are packed."""
        vectors = sum(detail.stored_bytes for detail in self.details.values())
        return vectors + sum(len(stored.body) for stored in self.records)


class StoredSnapshot(NamedTuple):
    """The state after all records before ``position``; ``hash`` is that of the last batch before
    it."""

    position: int
    hash: bytes
    digest: str
    version: str
    body: bytes


class LogSize(NamedTuple):
    """The size of a log. ``node_bytes``: of node inputs; ``other_bytes``: of everything else,
    without the empty schema; ``scheduled_pods``: the number of decisions that placed a pod."""

    node_bytes: int
    other_bytes: int
    scheduled_pods: int

    @property
    def bytes_per_pod(self) -> float:
        """Bytes per scheduled pod, without node inputs."""
        return self.other_bytes / self.scheduled_pods if self.scheduled_pods else 0.0


class StoredLog(Protocol):
    """The read side of one stream."""

    def read(self, first: int = 0) -> Iterator[StoredRecord]:
        """The committed records from position ``first`` on, in order. Raises CorruptLogError."""

    def detail(self, position: int) -> Detail | None:
        """The vectors of the decision at a position, with deltas expanded; None if there are
        none."""


class EventLog(StoredLog, Protocol):
    """An append-only log of one stream, for its only writer."""

    @property
    def head(self) -> int:
        """The position of the next record, counting a batch in flight."""

    @property
    def head_hash(self) -> bytes:
        """The hash of the last batch, which may be in flight."""

    def begin(self, batch: Batch) -> None:
        """Sends a batch and returns without waiting for the commit. At most one batch can be in
        flight. Raises ValueError for an empty batch or positions with gaps, and ConflictError if
        the batch does not begin at the head."""

    def answered(self) -> bool:
        """Whether ``finish`` would not wait: nothing is in flight, or the outcome of the batch is
        there."""

    def finish(self) -> None:
        """Waits until the batch in flight is durable; returns at once if there is none. Raises
        FencedError if another writer has taken over, and ConflictError if the stored head differs;
        in both cases nothing of the batch is in the log."""


def continues(identity: str, stored: str) -> bool:
    """Whether the database that is ``identity`` now is the one that the log was written on, named
    ``stored`` in its records: then nothing that was committed can be missing. Version 0.1 stored
    ``system identifier/timeline`` without the copy, and nothing if the database hid both."""
    return identity == stored or identity.rpartition("/")[0] == (stored or "hidden")


def expand_deltas(position: int, stored_detail: Callable[[int], Detail | None]) -> Detail | None:
    """The vectors of a decision with all deltas expanded; None if a detail is missing.
    ``stored_detail`` gives the detail of a position as it is stored. Raises ValueError for a delta
    to partial vectors."""
    deltas: list[Detail] = []
    base: int | None = position
    while base is not None:
        detail = stored_detail(base)
        if detail is None:
            return None
        deltas.append(detail)
        base = detail.base
    expanded = deltas.pop().expand()
    while deltas:
        expanded = deltas.pop().expand(expanded)
    return expanded
