"""Finds the position of a time, and the last records of a kind, without reading the whole log.

Times never decrease within a stream, so a time is found by binary search. Each step reads the first
record of one batch by the primary key.
"""

from collections.abc import Callable

from eventsched.eventlog.port import StoredRecord
from eventsched.eventlog.postgres.reader import Reader

_WINDOW = 4_096
"""Records in the first window of a search from the end; each further window is twice as large."""
_BATCH = """
SELECT first, count, (body -> 0 ->> 0)::bigint AS at FROM eventsched_log.batch
WHERE stream = :s AND first <= :position ORDER BY first DESC LIMIT 1
"""


def position_at(reader: Reader, at: int) -> int:
    """The position of the first record at the time ``at`` (µs) or later; the head's position if
    there is none."""
    low, high, before = 0, reader.head.next, None
    end = high
    while low < high:
        [batch] = reader.rows(_BATCH, position=(low + high) // 2)
        if batch["at"] < at:
            before, low = batch["first"], batch["first"] + batch["count"]
        else:
            high = batch["first"]
    if before is None:
        return 0
    return next((stored.position for stored in reader.read(before) if stored.at >= at), end)


def last(
    reader: Reader, number: int, matches: Callable[[StoredRecord], bool], first: int, end: int
) -> list[StoredRecord]:
    """The last ``number`` records that match, in order, of those from ``first`` to before
    ``end``."""
    matching: list[StoredRecord] = []
    window = _WINDOW
    while len(matching) < number and end > first:
        begin = max(first, end - window)
        in_window = []
        for stored in reader.read(begin):
            if stored.position >= end:
                break
            if matches(stored):
                in_window.append(stored)
        matching, end, window = in_window + matching, begin, window * 2
    return matching[-number:] if number else []
