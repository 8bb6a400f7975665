"""Which histories of a database continue that of a log."""

import pytest

from eventsched.eventlog.port import continues


@pytest.mark.parametrize(
    ("history", "stored", "expected"),
    [
        ("7301/1/5.40", "7301/1/5.40", True),
        ("7301/1/5.40", "7301/1", True),
        ("hidden/5.40", "hidden/5.40", True),
        ("hidden/5.40", "", True),
        ("7301/2/5.40", "7301/1/5.40", False),
        ("7301/1/5.41", "7301/1/5.40", False),
        ("7301/2/5.40", "7301/1", False),
        ("hidden/5.41", "hidden/5.40", False),
        ("7301/1/5.40", "", False),
        ("hidden/5.40", "7301/1", False),
    ],
)
def test_a_log_is_continued_by_the_same_copy(history: str, stored: str, expected: bool) -> None:
    """Version 0.1 stored no copy, and nothing where the rest was hidden."""
    assert continues(history, stored) is expected
