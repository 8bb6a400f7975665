"""The positions that ``from`` and ``until`` of a request mean."""

import time

from eventsched.api import parameters as p
from eventsched.api.desk.asked import Asked
from eventsched.cli.output.time_format import read_moment
from eventsched.domain.errors import InputError
from eventsched.domain.units import is_virtual
from eventsched.eventlog.postgres.seeking import position_at
from eventsched.questions.streams import LoggedStream


def position_range(asked: Asked, stream: LoggedStream) -> tuple[int, int | None]:
    """The positions of the times from and until: from the first record on, unless from says
    otherwise."""
    low, high = given_range(asked, stream)
    return low or 0, high


def given_range(asked: Asked, stream: LoggedStream) -> tuple[int | None, int | None]:
    """The positions of the times from and until, None for one that is left out. Raises
    InputError."""
    places: list[int | None] = []
    for name in ("from", "until"):
        text = asked.values[name]
        places.append(None if text is None else _read_position(stream, text, name))
    return places[0], places[1]


def _read_position(stream: LoggedStream, text: str, where: str) -> int:
    if text.isascii() and text.isdigit():
        return min(int(text[:20]), p.MOST)
    head = stream.log.head.next
    if not head:
        return 0
    newest = next(stream.log.batches(head - 1)).records[-1].at
    try:
        at = read_moment(text, time.time_ns() // 1_000, virtual=is_virtual(newest))
    except (ValueError, OverflowError):
        problem = f"{text!r} is neither a position nor a time"
        remedy = "write a number, 2026-11-21T15:00, 15:00, or a length such as 10m"
        raise InputError(where, problem, remedy) from None
    return position_at(stream.log, at)
