"""Times in the log, for people and for programs."""

import re
from datetime import UTC, datetime, timedelta

from eventsched.domain.units import is_virtual

_BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)


def iso(at: int) -> str:
    """ISO 8601 with offset: ``2026-11-21T15:17:19.240922+00:00``."""
    return (_BEGINNING + timedelta(microseconds=at)).isoformat()


def moment(at: int) -> str:
    """A date and a time of day in UTC, or for a simulation days and time since its beginning; to
    the millisecond: ``2026-11-21 15:17:19.240``, ``149d 08:12:33.001``, ``00:03:05.000``."""
    moved = _BEGINNING + timedelta(microseconds=at)
    clock = f"{moved:%H:%M:%S}.{moved.microsecond // 1000:03}"
    if not is_virtual(at):
        return f"{moved:%Y-%m-%d} {clock}"
    days = (moved - _BEGINNING).days
    return f"{days}d {clock}" if days else clock


def zone(at: int) -> str:
    """The zone that ``moment`` shows that time in: "UTC", "" for a simulation's."""
    return "" if is_virtual(at) else "UTC"


def with_distance(at: int, now: int) -> str:
    """A time with its zone and how far it is from ``now`` (µs): ``2026-11-21 15:17:19 UTC (3h04m
    ago)``, ``… UTC (in 4m10s)``; of a simulation, which has no present, the time alone."""
    if is_virtual(at):
        return moment(at)
    distance = rough(abs(now - at))
    relative = f"{distance} ago" if at <= now else f"in {distance}"
    return f"{moment(at).partition('.')[0]} UTC ({relative})"


_UNITS = (86_400, 3600, 60, 1)
_NUMBER = r"(\d+(?:\.\d*)?|\.\d+)"
_LENGTH = re.compile("".join(f"(?:{_NUMBER}{unit})?" for unit in "dhms"), re.ASCII)
_CLOCK = re.compile(r"(?:(\d{1,5})d )?(\d{1,2}):([0-5]\d)(?::([0-5]\d)(?:\.(\d{1,6}))?)?")
_DAY = 86_400_000_000
_FROM_START = " from start"


def read_moment(text: str, now: int, *, virtual: bool) -> int:
    """The time (µs) that a word of the command line means: ISO 8601 (UTC unless it says), as
    ``moment`` writes it, a time of day (the last such time until ``now``), or a length before
    ``now``, such as ``10m``, or ``4m10s`` as ``rough`` writes it; the last two in a simulation
    (``virtual``) after its beginning. With ``ago`` a length is one before ``now`` there, too;
    ``from start`` says that it is not. Raises ValueError."""
    words = text.strip().removesuffix(" UTC")
    if virtual and words.endswith(_FROM_START):
        words = words.removesuffix(_FROM_START).rstrip()
    text = words.removesuffix(" ago").rstrip()
    if clock := _CLOCK.fullmatch(text):
        return _read_clock(clock, now, virtual=virtual)
    if (parts := _LENGTH.fullmatch(text)) and text:
        seconds = sum(
            float(part or 0) * unit for part, unit in zip(parts.groups(), _UNITS, strict=True)
        )
        length = round(seconds * 1_000_000)
        return length if virtual and text == words else now - length
    moved = datetime.fromisoformat(text)
    moved = moved if moved.tzinfo is not None else moved.replace(tzinfo=UTC)
    return round((moved - _BEGINNING) / timedelta(microseconds=1))


def _read_clock(clock: re.Match[str], now: int, *, virtual: bool) -> int:
    days, hours, minutes, seconds, fraction = clock.groups(default="0")
    length = int(hours) * 3600 + int(minutes) * 60 + int(seconds)
    at = length * 1_000_000 + int(fraction.ljust(6, "0"))
    if virtual:
        return int(days) * _DAY + at
    if int(hours) > 23 or clock[1] is not None:
        raise ValueError("is not a time of day")
    at += now // _DAY * _DAY
    return at if at <= now else at - _DAY


def rough(microseconds: int) -> str:
    """A length of time, to two units: ``12s``, ``4m10s``, ``3h04m``, ``12d07h``."""
    seconds = microseconds // 1_000_000
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86_400
    if not minutes:
        return f"{seconds}s"
    if not hours:
        return f"{minutes}m{seconds % 60:02}s"
    return f"{days}d{hours % 24:02}h" if days else f"{hours}h{minutes % 60:02}m"
