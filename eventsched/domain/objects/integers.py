"""Integers in labels and annotations."""

import re

from eventsched.domain.int64 import INT64_MAX, INT64_MIN

_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")


def integer(text: str | None) -> int | None:
    """The text as an integer, as Go's strconv.ParseInt reads it; None if it is not an integer
    (``abc``, ``1e9``, ``1.0``, empty, blanks), has more than 19 digits or exceeds 64 bits."""
    if text is None or not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if INT64_MIN <= number <= INT64_MAX else None
