"""Go's int64 arithmetic against its definition over Python's integers."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventsched.domain import int64
from eventsched.domain.int64 import INT64_MAX, INT64_MIN
from tests.properties.strategies import deterministic

EDGES = (0, 1, -1, 2, 100, 2**31, 2**53, 2**53 + 1, 2**56, INT64_MAX // 100, INT64_MAX // 100 + 1,
         2**62, -(2**62), INT64_MAX - 1, INT64_MAX, INT64_MIN, INT64_MIN + 1)  # fmt: skip
numbers = st.one_of(
    st.sampled_from(EDGES), st.integers(INT64_MIN, INT64_MAX), st.integers(-1000, 1000)
)


def wrapped(number: int) -> int:
    return (number + 2**63) % 2**64 - 2**63


def truncated(number: int, divisor: int) -> int:
    return wrapped(math.trunc(Fraction(number, divisor)))


@deterministic(400)
@given(st.lists(st.tuples(numbers, numbers.filter(bool)), min_size=1, max_size=8))
def test_columns_divide_as_go_does(pairs: list[tuple[int, int]]) -> None:
    ours, divisors = (np.array(each, dtype=np.int64) for each in zip(*pairs, strict=True))

    quotients = int64.quotients(ours, divisors)
    percents = int64.percents(ours.copy(), divisors)

    assert quotients.tolist() == [truncated(a, b) for a, b in pairs]
    assert percents.tolist() == [truncated(wrapped(a * 100), b) for a, b in pairs]
    for number, divisor in pairs:
        assert int64.quotient(number, divisor) == truncated(number, divisor)
        assert int64.percent(number, divisor) == truncated(wrapped(number * 100), divisor)


@deterministic(200)
@given(st.lists(numbers, max_size=8), numbers.filter(bool))
def test_a_column_divided_by_one_number(column: list[int], divisor: int) -> None:
    found = int64.quotients(np.array(column, dtype=np.int64), divisor)

    assert found.tolist() == [truncated(number, divisor) for number in column]


@deterministic(100)
@given(st.integers(-(2**70), 2**70))
def test_numbers_wrap_around(number: int) -> None:
    assert int64.wrapped(number) == wrapped(number)


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (0.0, 0), (1.999, 1), (-1.999, -1), (2.0**53, 2**53), (2.0**62, 2**62),
        (float(2**63 - 1024), 2**63 - 1024), (-(2.0**63), INT64_MIN), (2.0**63, INT64_MIN),
        (1e300, INT64_MIN), (-1e300, INT64_MIN), (math.inf, INT64_MIN), (-math.inf, INT64_MIN),
        (math.nan, INT64_MIN),
    ],
)  # fmt: skip
def test_floats_become_integers_as_on_amd64(number: float, expected: int) -> None:
    assert int64.from_float(number) == expected
    assert int64.from_floats(np.array([number, 3.7])).tolist() == [expected, 3]
