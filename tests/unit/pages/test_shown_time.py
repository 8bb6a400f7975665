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


def test_a_date_that_was_asked_for_is_kept() -> None:
    """Records lie before it; a step leads from the date, not from the last of them."""
    begin, last, end = (f"2026-11-21T15:{minute}:00+00:00" for minute in (10, 15, 30))
    position = {"begin_time": begin, "head_time": end, "time": last, "position": 5, "head": 9}
    asked = "2026-11-21T15:20:00+00:00"
    time = shown_time(position, is_past=True, asked=asked)
    assert time is not None
    assert (time.moment, time.value) == (asked, 600_000)
    assert [link.at for link in time.links] == [
        begin,
        "2026-11-21T15:19:00+00:00",
        "2026-11-21T15:21:00+00:00",
        None,
    ]
    others = ("5", "10m", "2026-11-21", "2026-11-21T15:99", "2026-11-21T15:31:00+00:00")
    for other in (*others, "2026-11-21T15:14:00+00:00"):
        shown = shown_time(position, is_past=True, asked=other)
        assert shown is not None
        assert shown.moment == last
