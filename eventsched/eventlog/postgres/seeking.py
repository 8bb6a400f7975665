"""From a time to a position, and the last records of a kind, without reading the whole log.

Times of records never fall within a stream, so a time is looked up by halving: each step reads the
beginning of one batch, found by the primary key.
"""

from collections.abc import Callable

from eventsched.eventlog.port import Stored
from eventsched.eventlog.postgres.reader import Reader

_WINDOW = 4_096
"""Records that are looked at first for the last of a kind; then twice as many, and so on."""
_BATCH = """
SELECT first, count, (body -> 0 ->> 0)::bigint AS at FROM eventsched_log.batch
WHERE stream = :s AND first <= :position ORDER BY first DESC LIMIT 1
"""


def position_at(reader: Reader, at: int) -> int:
    """The position of the first record at a time (µs) or later; the head's, if there is none."""
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
    return next((each.position for each in reader.read(before) if each.at >= at), end)


def last(
    reader: Reader, number: int, wanted: Callable[[Stored], bool], first: int, end: int
) -> list[Stored]:
    """The last so many records that are wanted, in order, of those from ``first`` up to ``end``."""
    found: list[Stored] = []
    window = _WINDOW
    while len(found) < number and end > first:
        begin = max(first, end - window)
        part = []
        for stored in reader.read(begin):
            if stored.position >= end:
                break
            if wanted(stored):
                part.append(stored)
        found, end, window = part + found, begin, window * 2
    return found[-number:] if number else []
