"""Finds the position of a time, and the last records of a kind, without reading the whole log.

Times never decrease within a stream, so a time is found by binary search. Each step reads the first
record of one batch, in Postgres by the primary key.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

from eventsched.eventlog.chain import Head
from eventsched.eventlog.port import StoredRecord
from eventsched.eventlog.postgres.reader import Reader
from eventsched.eventlog.postgres.stored_batch import StoredBatch

_WINDOW = 4_096
"""Records in the first window of a search from the end; each further window is twice as large."""
_BATCH = """
SELECT first, count, (body -> 0 ->> 0)::bigint AS at FROM eventsched_log.batch
WHERE stream = :s AND first <= :position ORDER BY first DESC LIMIT 1
"""


class PositionedLog(Protocol):
    """A log that can be read from any position."""

    @property
    def head(self) -> Head:
        """The end of the log."""

    def batches(self, first: int = 0) -> Iterator[StoredBatch]:
        """The batch that holds position ``first`` and all later ones, in order."""

    def read(self, first: int = 0) -> Iterator[StoredRecord]:
        """The records from position ``first`` on, in order."""


def position_at(log: PositionedLog, at: int) -> int:
    """The position of the first record at the time ``at`` (µs) or later; the head's position if
    there is none."""
    begin = log.begin if isinstance(log, Reader) else 0
    low, high, before = begin, log.head.next, None
    end = high
    while low < high:
        batch = _batch_with(log, (low + high) // 2)
        if batch.at < at:
            before, low = batch.first, batch.end
        else:
            high = batch.first
    if before is None:
        return begin
    return next((stored.position for stored in log.read(before) if stored.at >= at), end)


class _Begin(NamedTuple):
    """The positions of a batch, and the time of its first record."""

    first: int
    end: int
    at: int


def _batch_with(log: PositionedLog, position: int) -> _Begin:
    if isinstance(log, Reader):
        [row] = log.rows(_BATCH, position=position)
        return _Begin(row["first"], row["first"] + row["count"], row["at"])
    batch = next(log.batches(position))
    return _Begin(batch.first, batch.first + batch.count, batch.records[0].at)


def last(
    log: PositionedLog, number: int, matches: Callable[[StoredRecord], bool], first: int, end: int
) -> list[StoredRecord]:
    """The last ``number`` records that match, in order, of those from ``first`` to before
    ``end``."""
    matching: list[StoredRecord] = []
    window = _WINDOW
    while len(matching) < number and end > first:
        begin = max(first, end - window)
        in_window = []
        for stored in log.read(begin):
            if stored.position >= end:
                break
            if matches(stored):
                in_window.append(stored)
        matching, end, window = in_window + matching, begin, window * 2
    return matching[-number:] if number else []
