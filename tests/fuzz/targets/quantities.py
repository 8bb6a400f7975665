"""Quantities, compared with a slow reading of the grammar in fractions.

The grammar is in the comment of ``Quantity`` in apimachinery, pkg/api/resource/quantity.go.
"""

import re
from fractions import Fraction
from math import ceil, floor

from eventsched.domain.errors import InputError
from eventsched.domain.objects import quantities
from tests.fuzz.choices import Choices
from tests.fuzz.targets import is_choices

LARGEST = 2**63 - 1
_SUFFIXES = (
    "", "m", "k", "M", "G", "T", "P", "E", "u", "n", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "e3",
    "E-3", "e+9", "K", "ki", "mi", "i", "e", "E+", "e1.5", "e9999", "e-9999", "E10000", "e-10001",
)  # fmt: skip
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DIGITS = "0123456789"
_FARTHEST = 20_000
"""No text here has more digits, so that an exponent beyond this one gives the same result."""


def fuzz_one(data: bytes) -> None:
    """``parse`` and ``amount`` agree with the oracle, for text, and for numbers of JSON."""
    text = _built(Choices(data[1:])) if is_choices(data) else data.decode(errors="surrogateescape")
    for scale in (1, 1000):
        expected = _bounded(text, scale)
        assert _read(quantities.parse, text, scale) == expected, (text[:80], scale)
        amount = _read(quantities.amount, text, scale)
        if expected is None or abs(expected) < LARGEST:
            assert amount == expected, (text[:80], scale)
        else:
            assert amount is not None
            assert -(2**63) <= amount <= LARGEST, (text[:80], scale)


def _built(choices: Choices) -> str:
    """A text that is mostly in the grammar."""
    sign = choices.of(("", "", "-", "+"))
    whole = "".join(choices.of(_DIGITS) for _ in range(choices.below(24)))
    point = choices.of(("", "."))
    fraction = "".join(choices.of(_DIGITS) for _ in range(choices.below(24) if point else 0))
    zeros = "0" * choices.of((0, 0, 0, 1, 30, 5_000))
    suffix = choices.of(_SUFFIXES)
    if suffix in ("e", "E+"):
        suffix += choices.of(("9" * 5_000, "0" * 5_000 + "3", "12", "٣", ""))
    return f"{sign}{zeros}{whole}{point}{fraction}{suffix}{choices.text(4)}"


def _read(function: object, text: str, scale: int) -> int | None:
    """The result; None if the text is refused."""
    assert callable(function)
    try:
        number: int = function(text, scale)
    except InputError:
        return None
    return number


def _bounded(text: str, scale: int) -> int | None:
    """The oracle: the number times ``scale``, rounded away from zero and cut to the bounds of
    int64; None for text outside the grammar."""
    parts = re.fullmatch(r"([+-]?)([0-9]*)(\.?)([0-9]*)([^0-9.]?.*)", text, re.ASCII | re.DOTALL)
    if parts is None or not (parts[2] or parts[4]):
        return None
    factor = _factor(parts[5])
    if factor is None:
        return None
    digits = Fraction(_number(parts[2] + parts[4]), 10 ** len(parts[4]))
    exact = digits * factor * scale * (-1 if parts[1] == "-" else 1)
    whole = ceil(exact) if exact > 0 else floor(exact)
    return max(-LARGEST, min(LARGEST, whole))


def _factor(suffix: str) -> Fraction | None:
    if suffix in _DECIMAL:
        return Fraction(10) ** _DECIMAL[suffix]
    if suffix in _BINARY:
        return Fraction(2) ** _BINARY[suffix]
    if re.fullmatch("[eE][+-]?[0-9]+", suffix, re.ASCII):
        exponent = -_number(suffix[2:]) if suffix[1] == "-" else _number(suffix[1:].lstrip("+"))
        return Fraction(10) ** max(-_FARTHEST, min(_FARTHEST, exponent))
    return None


def _number(digits: str) -> int:
    """The value of decimal digits, without Python's limit for conversions."""
    number = 0
    for at in range(0, len(digits), 1_000):
        part = digits[at : at + 1_000]
        number = number * 10 ** len(part) + int(part)
    return number
