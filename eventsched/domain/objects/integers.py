"""Integers that people write into labels and annotations."""

import re

from eventsched.domain.int64 import LARGEST, SMALLEST

_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")


def integer(text: str | None) -> int | None:
    """The integer that a text is; None where it is none (``abc``, ``1e9``, ``1.0``, empty, blanks)
    or takes more than 64 bits. As Go's strconv.ParseInt reads it, but no more than 19 digits."""
    if text is None or not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if SMALLEST <= number <= LARGEST else None
