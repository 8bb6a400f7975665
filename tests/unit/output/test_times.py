"""Times that are typed."""

import pytest

from eventsched.output.time_format import moment, read_moment

NOON = 1_795_435_200_000_000
"""2026-11-23T12:00 UTC."""
HOUR = 3_600_000_000


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("2026-11-23T11:00", NOON - HOUR),
        ("2026-11-23 11:00:00.000 UTC", NOON - HOUR),
        ("2026-11-23T13:00+02:00", NOON - HOUR),
        ("11:00", NOON - HOUR),
        ("11:00:00.5", NOON - HOUR + 500_000),
        ("12:00:00", NOON),
        ("9:00", NOON - 3 * HOUR),
        ("0:00:20", NOON - 12 * HOUR + 20_000_000),
        ("13:00", NOON - 23 * HOUR),
        ("1h", NOON - HOUR),
        ("1h ago", NOON - HOUR),
        ("1.5h", NOON - 3 * HOUR // 2),
        ("1h30m ago", NOON - 3 * HOUR // 2),
        ("1d02h", NOON - 26 * HOUR),
        ("59m60s", NOON - HOUR),
    ],
)
def test_of_a_log(text: str, at: int) -> None:
    assert read_moment(text, NOON, virtual=False) == at


@pytest.mark.parametrize("at", [0, 240_001_000, 30 * HOUR + 1_000, 149 * 24 * HOUR])
def test_of_a_simulation_as_they_are_written(at: int) -> None:
    assert read_moment(moment(at), NOON, virtual=True) == at
    assert read_moment("00:04", NOON, virtual=True) == 240_000_000
    assert read_moment("4m from start", NOON, virtual=True) == 240_000_000
    assert read_moment("00:04 from start", NOON, virtual=True) == 240_000_000
    assert read_moment("0:04", NOON, virtual=True) == 240_000_000


@pytest.mark.parametrize("text", ["30m ago", " 0.5h  ago "])
def test_a_length_before_the_end_of_a_simulation(text: str) -> None:
    assert read_moment(text, HOUR, virtual=True) == HOUR // 2
    assert read_moment("20m", HOUR, virtual=True) == HOUR // 3


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ago",
        "25:00",
        "1d 10:00",
        "10:61",
        "10",
        "noon",
        "1:0",
        "100:00",
        "30m1h",
        "h",
        "1m-5s",
        "10m from start",
    ],
)
def test_others_are_refused(text: str) -> None:
    with pytest.raises(ValueError):
        read_moment(text, NOON, virtual=False)
