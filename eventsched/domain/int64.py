"""Go's int64 arithmetic, on numpy columns and on single Python integers.

Upstream computes scores and free resources in int64. A sum or product beyond int64 wraps around; a
division and a conversion from float cut off the fraction (towards zero). numpy's arrays wrap as
well, but their ``//`` rounds down; Python's integers never wrap. Use these functions instead of
operators for upstream's divisions.
"""

import numpy as np
from numpy.typing import NDArray

Int64s = NDArray[np.int64]

INT64_MIN = -(2**63)
INT64_MAX = 2**63 - 1

_BEYOND = float(2**63)
_HUNDRED = np.array(100)
"""With an array, numpy takes half the time that it takes with a number, if there are few rows."""


def wrapped(number: int) -> int:
    """The number wrapped around to int64."""
    if INT64_MIN <= number <= INT64_MAX:
        return number
    return (number + 2**63) % 2**64 - 2**63


def quotients(numbers: Int64s, divisors: Int64s | int) -> Int64s:
    """int64[…]: Go's ``numbers / divisors``. No divisor may be 0."""
    # Rounding down equals cutting off if no number and no divisor has the sign bit.
    is_plain = isinstance(divisors, int) and divisors > 0
    signs = numbers if is_plain else numbers | divisors
    if np.bitwise_or.reduce(signs, axis=None) >= 0:
        return np.asarray(numbers // divisors)
    by = np.asarray(divisors, dtype=np.int64)
    with np.errstate(over="ignore"):  # the smallest by -1 is the smallest again, as in Go
        rounded = numbers // by
        # Rounding down gives one too few if there is a remainder and the signs differ.
        rounded += (rounded * by != numbers) & ((numbers < 0) != (by < 0))
    return np.asarray(rounded)


def quotient(number: int, divisor: int) -> int:
    """Go's ``number / divisor`` of two int64. The divisor may not be 0."""
    if number >= 0 and divisor > 0:
        return number // divisor
    size = abs(number) // abs(divisor)
    return wrapped(size if (number < 0) == (divisor < 0) else -size)


def percents(parts: Int64s, wholes: Int64s | int) -> Int64s:
    """int64[…]: Go's ``parts * 100 / wholes``. ``parts`` is overwritten; no whole may be 0."""
    parts *= _HUNDRED
    return quotients(parts, wholes)


def percent(part: int, whole: int) -> int:
    """Go's ``part * 100 / whole`` of two int64. The whole may not be 0."""
    return quotient(wrapped(part * 100), whole)


def from_floats(numbers: NDArray[np.float64]) -> Int64s:
    """int64[…]: Go's ``int64(numbers)`` on amd64: the fraction is cut off; NaN and numbers beyond
    int64 become the smallest int64. (Go does not define these: arm64 cuts to the bounds.)"""
    if np.maximum.reduce(np.abs(numbers), axis=None, initial=0.0) < _BEYOND:
        return numbers.astype(np.int64)
    fits = (numbers >= -_BEYOND) & (numbers < _BEYOND)
    return np.where(fits, np.where(fits, numbers, 0.0).astype(np.int64), INT64_MIN)


def from_float(number: float) -> int:
    """Go's ``int64(number)`` on amd64; see ``from_floats``."""
    return int(number) if -_BEYOND <= number < _BEYOND else INT64_MIN
