"""The slider over the time of a log."""

from datetime import UTC, datetime, timedelta

from eventsched.pages.shown_time import moves, shown_time

BEGIN, END = "2026-11-21T15:17:19.240922+00:00", "2026-11-21T15:17:21.000001+00:00"


def test_times_that_move() -> None:
    moving = ("10m", "1.5h", "10m ago", "15:04", "1d 06:00:00", "15:04:05.1 UTC")
    assert [at for at in moving if not moves(at)] == []
    fixed = ("0", "4711", BEGIN, "2026-11-21", "20261121", "2026-11-21 15:17:19 UTC")
    assert [at for at in fixed if moves(at)] == []


def test_both_ends_are_within_the_log() -> None:
    """In ms, while records have µs: the first record is before the one end, the last one before the
    other."""
    position = {"begin_time": BEGIN, "head_time": END, "time": BEGIN, "position": 0, "head": 9}
    time = shown_time(position, is_past=True)
    assert time is not None
    left = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=time.begin)
    right = left + timedelta(milliseconds=time.length)
    assert left - datetime.fromisoformat(BEGIN) == timedelta(microseconds=78)
    assert right - datetime.fromisoformat(END) == timedelta(microseconds=999)
    assert (time.length, time.value, time.is_virtual) == (1_760, 0, False)
