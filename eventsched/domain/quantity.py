"""Kubernetes quantities ("100m", "1.5Gi", "2e3") as integers.

The grammar is that of apimachinery's pkg/api/resource/quantity.go; like its Value() and
MilliValue(), a fraction is rounded up (away from zero).
"""

import re
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from functools import lru_cache

from eventsched.domain.errors import InputError

_PATTERN = re.compile(
    r"(?P<number>[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))"
    r"(?P<suffix>[KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?",
    re.ASCII,
)
_DECIMAL = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
_LARGEST = 2**63 - 1
_LARGEST_EXPONENT = Decimal(9_999)
_EXACT = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN)
"""Python's default rounds products to 28 digits."""


@lru_cache(maxsize=4096)
def parse(text: str | int | float, scale: int = 1) -> int:
    """The quantity times ``scale``, as an integer within int64.

    ``scale`` 1 gives bytes or counts, 1000 gives millicores. Larger numbers than int64 holds are
    cut to its bounds, as upstream does. Raises InputError for text outside the grammar.
    """
    written = str(text)
    found = _PATTERN.fullmatch(written)
    if found is None or isinstance(text, bool):
        raise InputError(
            f"quantity {written!r}",
            "is not a Kubernetes quantity",
            "write a number with an optional suffix such as m, k, M, G, Ki, Mi, Gi or e3",
        )
    number = Decimal(found["number"])
    suffix = found["suffix"] or ""
    if suffix in _BINARY:
        number = _EXACT.multiply(number, 1024 ** _BINARY[suffix])
    elif suffix in _DECIMAL:
        number = number.scaleb(_DECIMAL[suffix], _EXACT)
    elif suffix:
        exponent = max(-_LARGEST_EXPONENT, min(_LARGEST_EXPONENT, Decimal(suffix[1:])))
        number = number.scaleb(int(exponent), _EXACT)
    number = _EXACT.multiply(number, scale)
    whole = number.to_integral_value(ROUND_CEILING if number > 0 else ROUND_FLOOR)
    return max(-_LARGEST, min(_LARGEST, int(whole)))
