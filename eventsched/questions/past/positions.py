"""Which position of a stream a time means, and the time of a position."""

import msgspec

from eventsched.domain.errors import InputError
from eventsched.output.time_format import iso
from eventsched.questions.past.open_log import OpenLog
from eventsched.questions.streams import LoggedStream
from eventsched.runtime.queries.state_at import dropped_error

_TIME = """
SELECT CAST(b.body -> CAST(:position - b.first AS integer) ->> 0 AS bigint) AS at
FROM eventsched_log.batch b
WHERE b.stream = :s AND b.first <= :position ORDER BY b.first DESC LIMIT 1
"""


class LogPosition(msgspec.Struct, frozen=True, kw_only=True):
    """A position of a stream: between the records before it and the one at it. ``time`` is that of
    the last record before it, null at the beginning. The log has the records from ``begin`` to
    before ``head``, of the times ``begin_time`` to ``head_time``."""

    stream: str
    position: int
    time: str | None
    begin: int
    begin_time: str | None
    head: int
    head_time: str | None


def position_of(stream: LoggedStream, at: str) -> int:
    """The position that a text means: a position, or a time. Raises InputError."""
    position = OpenLog(stream.log, stream.log).position(at, "at")
    head = stream.rows.head
    if position > head:
        raise InputError("at", f"the log ends at position {head}", f"name a position up to {head}")
    return position


def kept_position_of(stream: LoggedStream, at: str) -> int:
    """The same, of which the log still has what came before. Raises InputError, also for a position
    in a part that was dropped."""
    position = position_of(stream, at)
    if position < stream.log.begin:
        raise dropped_error(stream.log, position, "at")
    return position


def log_position(stream: LoggedStream, at: str | None) -> LogPosition:
    """The place of a position or time in the log, by default its end. Raises InputError."""
    head, begin = stream.rows.head, stream.log.begin
    position = head if at is None else position_of(stream, at)
    places = (position - 1, begin, head - 1)
    times = {each: record_time(stream, each) for each in {*places} if begin <= each < head}
    found = [times.get(each) for each in places]
    texts = [None if at is None else iso(at) for at in found]
    return LogPosition(
        stream=stream.name, position=position, time=texts[0], begin=begin, begin_time=texts[1],
        head=head, head_time=texts[2],
    )  # fmt: skip


def record_time(stream: LoggedStream, position: int) -> int | None:
    """The time (µs) of the record at a position; None if it is not there."""
    row = stream.rows.one(_TIME, position=position)
    return None if row is None or row["at"] is None else int(row["at"])
