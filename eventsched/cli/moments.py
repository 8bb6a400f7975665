"""Times in the log, for people and for programs."""

from datetime import UTC, datetime, timedelta

_BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)
_VIRTUAL = 10 * 365 * 86_400 * 1_000_000
"""Times before this are a simulation's, which begins at 0."""


def iso(at: int) -> str:
    """ISO 8601 with offset: ``2026-11-21T15:17:19.240922+00:00``."""
    return (_BEGINNING + timedelta(microseconds=at)).isoformat()


def moment(at: int) -> str:
    """A date and a time of day in UTC, or for a simulation days and time since its beginning; to
    the millisecond: ``2026-11-21 15:17:19.240``, ``149d 08:12:33.001``, ``00:03:05.000``."""
    moved = _BEGINNING + timedelta(microseconds=at)
    clock = f"{moved:%H:%M:%S}.{moved.microsecond // 1000:03}"
    if at >= _VIRTUAL:
        return f"{moved:%Y-%m-%d} {clock}"
    days = (moved - _BEGINNING).days
    return f"{days}d {clock}" if days else clock
