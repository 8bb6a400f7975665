"""A record and its place in the log."""

from typing import NamedTuple

from eventsched.domain.records.stimuli import Record
from eventsched.domain.records.verdicts import Detail


class Logged(NamedTuple):
    """A record with its place: position in the stream, time (µs), the position of the first record
    of the step that it belongs to, and the vectors that go with a decision."""

    position: int
    at: int
    cause: int
    record: Record
    detail: Detail | None = None
