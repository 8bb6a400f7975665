"""The positions that ``from`` and ``until`` of a request mean."""

from eventsched.api import parameters as p
from eventsched.api.desk.asked import Asked
from eventsched.domain.errors import InputError
from eventsched.questions.past.open_log import first_position
from eventsched.questions.streams import LoggedStream
from eventsched.runtime.queries.state_at import dropped_error

_LONGEST = 100
"""Characters that are read: more make neither a position nor a time."""


def position_range(asked: Asked, stream: LoggedStream) -> tuple[int, int | None]:
    """The positions of the times from and until: from the first record on, unless from says
    otherwise."""
    low, high = given_range(asked, stream)
    return low or 0, high


def given_range(asked: Asked, stream: LoggedStream) -> tuple[int | None, int | None]:
    """The positions of the times from and until, None for one that is left out. Raises
    InputError, also if from is after until, or if all records of the range were dropped."""
    places: list[int | None] = []
    for name in ("from", "until"):
        text = asked.values[name]
        places.append(None if text is None else _position(stream, text, name))
    low, high = places
    if low is not None and high is not None and low > high:
        since, end = (asked.values[name][:_LONGEST] for name in ("from", "until"))
        raise InputError(
            "from", f"{since!r} is after the end of the range ({end!r})", "exchange them"
        )
    if high is not None and high < stream.log.begin:
        raise dropped_error(stream.log, high, "until")
    return low, high


def _position(stream: LoggedStream, text: str, where: str) -> int:
    return min(first_position(stream.log, text[:_LONGEST], where, or_position=True), p.MOST)
