"""Which texts in labels and annotations are integers."""

import pytest

from eventsched.domain.objects.integers import integer


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("5", 5), ("+5", 5), ("-5", -5), ("007", 7), ("0", 0),
        (str(2**63 - 1), 2**63 - 1), (str(-(2**63)), -(2**63)),
        (str(2**63), None), (str(-(2**63) - 1), None), ("9" * 400, None),
        ("abc", None), ("1e9", None), ("1.0", None), ("", None), (" 5", None), ("5\n", None),
        ("1_000", None), ("٥", None), ("0x10", None), ("+", None), ("--1", None), (None, None),
    ],
)  # fmt: skip
def test_integers(text: str | None, number: int | None) -> None:
    """64 bits, decimal, ASCII."""
    assert integer(text) == number
