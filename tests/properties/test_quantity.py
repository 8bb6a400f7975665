"""Quantities against an oracle over exact fractions, and text that is none."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventsched.domain.errors import InputError
from eventsched.domain.int64 import wrapped
from eventsched.domain.objects import quantities
from eventsched.domain.objects.quantities import amount, parse

from .strategies import deterministic

LARGEST = 2**63 - 1
SUFFIXES = {
    "": Fraction(1), "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000),
    "k": Fraction(10**3), "M": Fraction(10**6), "G": Fraction(10**9), "T": Fraction(10**12),
    "P": Fraction(10**15), "E": Fraction(10**18),
    "Ki": Fraction(2**10), "Mi": Fraction(2**20), "Gi": Fraction(2**30), "Ti": Fraction(2**40),
    "Pi": Fraction(2**50), "Ei": Fraction(2**60),
}  # fmt: skip

digits = st.text("0123456789", min_size=1, max_size=30)
plain = st.one_of(
    digits,
    digits.map(lambda d: f"{d}."),
    digits.map(lambda d: f".{d}"),
    st.tuples(digits, digits).map(".".join),
    st.integers(0, 10**6).map(str),
)
signs = st.sampled_from(["", "", "+", "-"])
exponents = st.tuples(st.sampled_from("eE"), signs, st.integers(0, 30)).map(
    lambda parts: f"{parts[0]}{parts[1]}{parts[2]}"
)


def rounded(exact: Fraction) -> int:
    """Away from zero, within int64, as upstream's Value and MilliValue."""
    whole = -(-abs(exact.numerator) // exact.denominator)
    return max(-LARGEST, min(LARGEST, whole if exact > 0 else -whole))


@deterministic(400)
@given(signs, plain, st.sampled_from(sorted(SUFFIXES)), st.sampled_from([1, 1000]))
def test_suffixes(sign: str, number: str, suffix: str, scale: int) -> None:
    exact = (
        Fraction(f"{sign}0{number}0") * SUFFIXES[suffix]
        if "." in number
        else (Fraction(f"{sign}{number}") * SUFFIXES[suffix])
    )
    assert parse(f"{sign}{number}{suffix}", scale) == rounded(exact * scale)


@deterministic(300)
@given(signs, plain, exponents, st.sampled_from([1, 1000]))
def test_exponents(sign: str, number: str, exponent: str, scale: int) -> None:
    base = Fraction(f"0{number}0") if "." in number else Fraction(number)
    exact = base * Fraction(10) ** int(exponent[1:]) * (-1 if sign == "-" else 1)
    assert parse(f"{sign}{number}{exponent}", scale) == rounded(exact * scale)


@deterministic(300)
@given(st.text("0123456789+-. eEkKmMiGgPTnuQx_\n", max_size=8))
def test_any_text_is_a_quantity_or_bad_input(text: str) -> None:
    try:
        found = parse(text)
    except InputError:
        return
    assert -LARGEST <= found <= LARGEST
    assert text == text.strip()


@pytest.mark.parametrize("text", [
    "12Q", "", "1 Gi", "--1", "1e", "0x10", " 1", "1 ", "1\n", ".", "+", "-", "1K", "1ki", "1mi",
    "1MiB", "1e1.5", "1ee3", "1e+", "1m1", "1_000", "1,5", "NaN", "Inf", "infinity", "١", "1Gi1",
    "+-1", "1..2", "m", "Ki", "e3", "1kk", "1eK", "1i",
])  # fmt: skip
@pytest.mark.parametrize("scale", [1, 1000])
def test_bad_text_is_refused(text: str, scale: int) -> None:
    with pytest.raises(InputError, match="is not a Kubernetes quantity"):
        parse(text, scale)


@pytest.mark.parametrize(("text", "expected"), [
    ("9223372036854775807", LARGEST), ("9223372036854775808", LARGEST), ("16Ei", LARGEST),
    ("-16Ei", -LARGEST), ("1e400", LARGEST), ("1e-400", 1), ("-1e-400", -1), ("0e99", 0),
    (f"1e{'9' * 5000}", LARGEST), ("9" * 6000, LARGEST), ("0.5", 1), ("-0.5", -1),
    ("1.0000000000000000000000000000000000001", 2), ("1E", 10**18), ("1E1", 10),
])  # fmt: skip
def test_the_bounds(text: str, expected: int) -> None:
    assert parse(text) == expected


def test_numbers_as_yaml_gives_them() -> None:
    assert parse(2) == 2
    assert parse(0.5, 1000) == 500
    assert parse(1e-07, 1000) == 1
    assert parse(1) == 1
    for wrong in (True, float("nan"), float("inf")):
        with pytest.raises(InputError):
            parse(wrong)


def test_an_exponent_may_have_any_number_of_digits() -> None:
    assert parse(f"1e{'9' * 5_000}") == LARGEST
    assert amount(f"1e{'9' * 5_000}") == 0
    assert amount(f"1e-{'9' * 5_000}") == 1
    assert parse(f"{'9' * 12_000}e-11999") == 10


def test_beyond_int64_the_last_digits_count() -> None:
    text = "1234567890" * 400
    assert amount(text) == wrapped(int(text))
    assert amount(f"-{text}.5") == wrapped(-int(text) - 1)


@pytest.mark.parametrize("end", ["", "x", "Ei"])
def test_a_long_text_is_read_in_linear_time(end: str) -> None:
    """In quadratic time it would take minutes, and the test would end at its time limit."""
    text = "7" * 4_000_000 + end
    try:
        assert parse(text) == LARGEST
        amount(text)
    except InputError:
        assert end == "x"


def test_long_texts_are_not_remembered() -> None:
    """4,096 of them could take gigabytes."""
    before = quantities._remembered_parse.cache_info().currsize
    for number in range(10):
        assert parse(f"{number}." + "0" * 1_000) == number
    assert quantities._remembered_parse.cache_info().currsize == before
    parse("12345.678")
    assert quantities._remembered_parse.cache_info().currsize == before + 1
