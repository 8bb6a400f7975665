"""Units of time: microseconds in the log, Go's durations in configurations."""

import re
from decimal import Decimal

from eventsched.domain.errors import InputError

SECOND = 1_000_000
"""A second in microseconds, the unit of all times in records and in the state."""
DAY = 86_400 * SECOND
"""A day in microseconds."""

_UNITS = {"ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6}
_UNITS |= {"s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}
_PART = r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h)"


def is_virtual(at: int) -> bool:
    """Whether a time (µs) is one of a simulation, which begins at 0 and not in 1970."""
    return at < 10 * 365 * DAY


def nanoseconds(text: str, where: str = "duration") -> int:
    """A duration in Go's notation ("1m30s") as nanoseconds. Raises InputError at ``where``."""
    unsigned = text[1:] if text[:1] in ("-", "+") else text
    # re.ASCII: Go accepts only the digits 0-9.
    whole = re.fullmatch(rf"({_PART})+|0", unsigned, re.ASCII)
    parts = re.findall(_PART, unsigned, re.ASCII) if whole else ()
    total = sum(int(Decimal(number) * _UNITS[unit]) for number, unit in parts)
    if whole is None or total >= 2**63:
        raise InputError(where, f"{text!r} is not a duration", "write one such as 15s or 1m30s")
    return -total if text.startswith("-") else total


def duration_text(nanoseconds: int) -> str:
    """A duration as Go writes it: ``1m30s``, ``10m0s``, ``999ms``, ``0s``."""
    sign, size = "-" if nanoseconds < 0 else "", abs(nanoseconds)
    if 0 < size < _UNITS["s"]:
        unit = next(unit for unit in ("ms", "µs", "ns") if size >= _UNITS[unit])
        return f"{sign}{_decimal(size, _UNITS[unit])}{unit}"
    minutes, rest = divmod(size, _UNITS["m"])
    hours, minutes = divmod(minutes, 60)
    parts = [f"{hours}h" if hours else "", f"{minutes}m" if hours or minutes else ""]
    return f"{sign}{''.join(parts)}{_decimal(rest, _UNITS['s'])}s"


def _decimal(amount: int, unit: int) -> str:
    whole, rest = divmod(amount, unit)
    digits = str(rest).zfill(len(str(unit)) - 1).rstrip("0")
    return f"{whole}.{digits}" if digits else str(whole)
