"""A record and its place in the log."""

from typing import NamedTuple

from eventsched.domain.records.record import Record
from eventsched.domain.records.verdicts import Detail


class LogEntry(NamedTuple):
    """A record, its position in the stream, its time (µs), the position of the first record of its
    step (``cause``), and the vectors of a decision (``detail``)."""

    position: int
    at: int
    cause: int
    record: Record
    detail: Detail | None = None
