"""Go's int64 arithmetic, on numpy columns and on single Python integers.

Upstream computes scores and free resources in int64: a sum or product that leaves the type wraps
around, a division cuts the fraction off (towards zero), and a float becomes an integer the same
way. numpy's arrays wrap as well, but their ``//`` rounds down, and Python's integers never wrap.
Where upstream divides, these functions are used instead of operators.
"""

import numpy as np
from numpy.typing import NDArray

Int64s = NDArray[np.int64]

SMALLEST = -(2**63)
LARGEST = 2**63 - 1

_BEYOND = float(2**63)


def wrapped(number: int) -> int:
    """The number as an int64 holds it."""
    if SMALLEST <= number <= LARGEST:
        return number
    return (number + 2**63) % 2**64 - 2**63


def quotients(numbers: Int64s, divisors: Int64s | int) -> Int64s:
    """int64[…]: Go's ``numbers / divisors``. No divisor may be 0."""
    if (divisors if isinstance(divisors, int) else _least(divisors)) > 0:
        found = np.asarray(numbers // divisors)
        if _least(found) >= 0:  # rounding down is cutting off
            return found
    below = np.asarray(divisors, dtype=np.int64)
    with np.errstate(over="ignore"):  # the smallest by -1 is the smallest again, in Go too
        found = numbers // below
        # Rounded down; where something was left and the signs differ, that is one too few.
        found += (found * below != numbers) & ((numbers < 0) != (below < 0))
    return np.asarray(found)


def _least(numbers: Int64s) -> int:
    """The smallest of some numbers and 1."""
    least: int = np.minimum.reduce(numbers, axis=None, initial=1)
    return least


def quotient(number: int, divisor: int) -> int:
    """Go's ``number / divisor`` of two int64. The divisor may not be 0."""
    if number >= 0 and divisor > 0:
        return number // divisor
    found = abs(number) // abs(divisor)
    return wrapped(found if (number < 0) == (divisor < 0) else -found)


def percents(parts: Int64s, wholes: Int64s | int) -> Int64s:
    """int64[…]: Go's ``parts * 100 / wholes``. ``parts`` is overwritten; no whole may be 0."""
    parts *= 100
    return quotients(parts, wholes)


def percent(part: int, whole: int) -> int:
    """Go's ``part * 100 / whole`` of two int64. The whole may not be 0."""
    return quotient(wrapped(part * 100), whole)


def from_floats(numbers: NDArray[np.float64]) -> Int64s:
    """int64[…]: Go's ``int64(numbers)`` on amd64: the fraction is cut off; what no int64 holds, NaN
    too, becomes the smallest. (Go leaves that open: on arm64 it stops at the bounds.)"""
    if np.maximum.reduce(np.abs(numbers), axis=None, initial=0.0) < _BEYOND:
        return numbers.astype(np.int64)
    held = (numbers >= -_BEYOND) & (numbers < _BEYOND)
    return np.where(held, np.where(held, numbers, 0.0).astype(np.int64), SMALLEST)


def from_float(number: float) -> int:
    """Go's ``int64(number)`` on amd64; see ``from_floats``."""
    return int(number) if -_BEYOND <= number < _BEYOND else SMALLEST
