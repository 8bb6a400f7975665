"""Integers: those that people write into labels and annotations, and int64 as Go has it."""

import re

_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")
_SMALLEST, _LARGEST = -(2**63), 2**63 - 1


def integer(text: str | None) -> int | None:
    """The integer that a text is; None where it is none (``abc``, ``1e9``, ``1.0``, empty, blanks)
    or takes more than 64 bits. As Go's strconv.ParseInt reads it, but no more than 19 digits."""
    if text is None or not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if _SMALLEST <= number <= _LARGEST else None


def wrapped(number: int) -> int:
    """A number as int64 holds it."""
    return (number + 2**63) % 2**64 - 2**63
