"""The time that a page shows: its place in the log, and the links to earlier and later ones."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from eventsched.domain.units import is_virtual

STEPS = ((-3_600, "−1 h", "1 hour earlier"), (-60, "−1 min", "1 minute earlier"),
         (60, "+1 min", "1 minute later"), (3_600, "+1 h", "1 hour later"))  # fmt: skip
"""Seconds, sign, and words of the links to other times."""
_RECENT = ((300, "5m"), (3_600, "1h"), (86_400, "1d"))
"""Seconds and word of the ranges that end at the time shown."""
_TICKS = 400
"""Steps of the slider from one end to the other."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_DATE = re.compile(r"\d{4}-?\d\d")


class TimeLink(NamedTuple):
    """A link to another time. ``at`` is None for the present; ``is_open`` is False if the log does
    not go so far."""

    sign: str
    words: str
    at: str | None
    is_open: bool


class ShownTime(NamedTuple):
    """``position`` is the API's answer of that name. ``moment`` is the date that was asked for, or
    the time of the last record there (ISO 8601), or None before the first one. The slider goes from
    0 to ``length`` ms after ``begin`` (ms since 1970), the log's first record, in steps of
    ``step``, and is at ``value``."""

    position: Mapping[str, Any]
    moment: str | None
    is_past: bool
    begin: int
    length: int
    value: int
    step: int
    is_virtual: bool
    links: list[TimeLink]
    recent: list[tuple[str, str]]
    """The words of ranges that end at this time, and where each begins, as ``from`` takes it."""


def moves(at: str) -> bool:
    """Whether a word means another time whenever it is read: neither a position nor a date."""
    return not at.isdecimal() and _DATE.match(at) is None


def shown_time(position: Mapping[str, Any], *, is_past: bool, asked: str = "") -> ShownTime | None:
    """What the page shows of a position, which was ``asked`` for; None for a log without
    records."""
    if position["begin_time"] is None:
        return None
    begin, end = (datetime.fromisoformat(position[f"{name}_time"]) for name in ("begin", "head"))
    last = begin if position["time"] is None else datetime.fromisoformat(position["time"])
    date = _date(asked)
    # A step from a date leads to a date, whatever the log's records lie between.
    shown = date if date is not None and last <= date <= end else last
    # Rounded up: the first record is before the one end of the slider, the last before the other.
    first = -((_EPOCH - begin) // _MILLISECOND)
    length = -((_EPOCH - end) // _MILLISECOND) - first
    return ShownTime(
        position=position,
        moment=None if position["time"] is None else shown.isoformat(),
        is_past=is_past,
        begin=first,
        length=max(1, length),
        value=max(0, (shown - _EPOCH) // _MILLISECOND - first),
        step=max(1, length // _TICKS),
        is_virtual=is_virtual(first * 1_000),
        links=[
            _link(shown + timedelta(seconds=seconds), begin, end, sign, words, is_past=is_past)
            for seconds, sign, words in STEPS
        ],
        recent=[
            (word, _beginning(shown, seconds, word, is_past=is_past)) for seconds, word in _RECENT
        ],
    )


def _date(asked: str) -> datetime | None:
    """The date with its time of day and zone that a text is."""
    if _DATE.match(asked) is None:
        return None
    try:
        date = datetime.fromisoformat(asked)
    except ValueError:
        return None
    return date if date.tzinfo is not None else None


def _beginning(shown: datetime, seconds: int, word: str, *, is_past: bool) -> str:
    """Where the last seconds of a time begin. In the present it is a length, which moves with the
    clock; a simulation has none, and lengths count from its beginning."""
    if not is_past and not is_virtual((shown - _EPOCH) // timedelta(microseconds=1)):
        return word
    return max(_EPOCH, shown - timedelta(seconds=seconds)).isoformat()


def _link(
    to: datetime, begin: datetime, end: datetime, sign: str, words: str, *, is_past: bool
) -> TimeLink:
    if to >= end:
        return TimeLink(sign, words, None, is_past)
    if to < begin:  # as far as it goes, unless it is there already
        return TimeLink(sign, words, begin.isoformat(), begin != end)
    return TimeLink(sign, words, to.isoformat(), True)
