"""Kubernetes quantities ("100m", "1.5Gi", "2e3") as integers.

The grammar is that of apimachinery's pkg/api/resource/quantity.go; like its Value() and
MilliValue(), a fraction is rounded up (away from zero). ``parse`` compares as upstream's Cmp()
does, up to the bounds of int64; ``amount`` is what Value() and MilliValue() make of a quantity,
also beyond int64.
"""

import re
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from functools import lru_cache
from typing import NamedTuple

from eventsched.domain.errors import InputError
from eventsched.domain.int64 import INT64_MAX, wrapped

_PATTERN = re.compile(
    r"(?P<number>[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))"
    r"(?P<suffix>[KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?",
    re.ASCII,
)
_DECIMAL = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
_FACTORS = 18
"""Most digits of a number that upstream multiplies as an int64 (math.go maxInt64Factors)."""
_BINARY_FACTORS = 15
_WRAPPING = (0, 1, 2, 3, 6, 9)
"""Powers of ten that upstream multiplies by in one step, so that the product wraps around. For
other powers it multiplies step by step, and a step beyond int64 makes the result 0 (math.go
positiveScaleInt64)."""
_MAX_REMEMBERED_LENGTH = 64
"""A longer text is not remembered: an object of a custom resource may have a quantity of a
megabyte."""
_LARGEST_EXPONENT = 9_999
"""An exponent that exceeds the digits of its number by more gives the same result."""
_KEPT_DIGITS = 64
"""Last digits of a number beyond int64 that are kept: they determine it modulo 2**64. Conversions
of long texts to integers take quadratic time."""
_KEPT = Decimal(10**_KEPT_DIGITS)
_EXACT = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN)
"""Python's default rounds products to 28 digits."""


def parse(text: str | int | float, scale: int = 1) -> int:
    """The quantity times ``scale``, as an integer within int64.

    ``scale`` 1 gives bytes or counts, 1000 gives millicores. Larger numbers than int64 holds are
    cut to its bounds. Raises InputError for text outside the grammar.
    """
    return (_parse if len(str(text)) > _MAX_REMEMBERED_LENGTH else _remembered_parse)(text, scale)


def amount(text: str | int | float, scale: int = 1) -> int:
    """The quantity times ``scale`` as upstream's Value() (1) and MilliValue() (1000) have it.

    Beyond int64 the number wraps around or becomes 0, depending on how it is written: 8Ei is
    2**63 - 1 bytes, 10E is 0 and 10000000000000000000 is 10**19 - 2**64 bytes. Raises InputError
    for text outside the grammar.
    """
    return (_amount if len(str(text)) > _MAX_REMEMBERED_LENGTH else _remembered_amount)(text, scale)


def _parse(text: str | int | float, scale: int) -> int:
    whole = _rounded(_exact(_parts(text)), scale)
    return max(-INT64_MAX, min(INT64_MAX, whole))


def _amount(text: str | int | float, scale: int) -> int:
    parts = _parts(text)
    exact = _exact(parts)
    whole = _rounded(exact, scale)
    if -INT64_MAX <= whole <= INT64_MAX:
        return whole
    power = _power(parts)
    if power is not None and power + (3 if scale == 1000 else 0) not in _WRAPPING:
        return 0
    if parts.suffix in _BINARY and exact.copy_abs() > INT64_MAX:
        whole = INT64_MAX * scale if exact > 0 else -INT64_MAX * scale
    return wrapped(whole)


_remembered_parse = lru_cache(maxsize=4096, typed=True)(_parse)
_remembered_amount = lru_cache(maxsize=4096, typed=True)(_amount)


class _Parts(NamedTuple):
    number: str
    suffix: str


def _parts(text: str | int | float) -> _Parts:
    written = str(text)
    match = _PATTERN.fullmatch(written)
    if match is None or isinstance(text, bool):
        raise InputError(
            f"quantity {written!r}",
            "is not a Kubernetes quantity",
            "write a number with an optional suffix such as m, k, M, G, Ki, Mi, Gi or e3",
        )
    return _Parts(match["number"], match["suffix"] or "")


def _exact(parts: _Parts) -> Decimal:
    number, suffix = Decimal(parts.number), parts.suffix
    if suffix in _BINARY:
        return _EXACT.multiply(number, 1024 ** _BINARY[suffix])
    if suffix in _DECIMAL:
        return number.scaleb(_DECIMAL[suffix], _EXACT)
    if suffix:
        return number.scaleb(_exponent(parts), _EXACT)
    return number


def _exponent(parts: _Parts) -> int:
    """The exponent after ``e``, within bounds that do not change the result."""
    most = _LARGEST_EXPONENT + len(parts.number)
    return int(max(Decimal(-most), min(Decimal(most), Decimal(parts.suffix[1:]))))


def _rounded(exact: Decimal, scale: int) -> int:
    """``exact`` times ``scale`` as an integer; far beyond int64, one that is also beyond it and
    equal modulo 2**64."""
    number = _EXACT.multiply(exact, scale)
    number = number.to_integral_value(ROUND_CEILING if number > 0 else ROUND_FLOOR, _EXACT)
    if number and number.adjusted() > _KEPT_DIGITS:
        number = _EXACT.add(_EXACT.remainder(number, _KEPT), _KEPT.copy_sign(number))
    return int(number)


def _power(parts: _Parts) -> int | None:
    """The power of ten of a number that upstream holds as an int64 with a power (int64Amount); None
    for a number that it holds exactly, which always wraps around (scale_int.go)."""
    whole, _, fraction = parts.number.lstrip("+-").lstrip("0").partition(".")
    digits = len(whole or "0")
    if parts.suffix in _BINARY:
        exponent = _BINARY[parts.suffix] * 10
        return 0 if not fraction and digits + exponent * 3 // 10 < _BINARY_FACTORS else None
    if digits + len(fraction) > _FACTORS:
        return None
    if parts.suffix in _DECIMAL:
        return _DECIMAL[parts.suffix] - len(fraction)
    return (_exponent(parts) if parts.suffix else 0) - len(fraction)
