"""Times in the log, for people and for programs."""

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


_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def read_moment(text: str, now: int, *, virtual: bool) -> int:
    """The time (µs) that a word of the command line means: ISO 8601 (UTC unless it says), or a
    length such as ``10m`` before ``now``, or in a simulation (``virtual``) after its
    beginning. Raises ValueError."""
    number, unit = text[:-1], text[-1:]
    if unit in _UNITS and number.replace(".", "", 1).isdecimal():
        length = round(float(number) * _UNITS[unit] * 1_000_000)
        return length if virtual else now - length
    moved = datetime.fromisoformat(text)
    moved = moved if moved.tzinfo is not None else moved.replace(tzinfo=UTC)
    return round((moved - _BEGINNING) / timedelta(microseconds=1))


def rough(microseconds: int) -> str:
    """A length of time, to two units: ``12s``, ``4m10s``, ``3h04m``, ``12d07h``."""
    seconds = microseconds // 1_000_000
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86_400
    if not minutes:
        return f"{seconds}s"
    if not hours:
        return f"{minutes}m{seconds % 60:02}s"
    return f"{days}d{hours % 24:02}h" if days else f"{hours}h{minutes % 60:02}m"
