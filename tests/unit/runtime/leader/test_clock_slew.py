"""Time where the log is ahead of the clock."""

import pytest

from eventsched.runtime.leader.clock_slew import ClockSlew


@pytest.mark.parametrize(("clock", "time"), [(100, 120), (101, 121), (110, 125), (139, 140),
                                             (140, 140), (141, 141), (500, 500)])  # fmt: skip
def test_a_lead_dwindles(clock: int, time: int) -> None:
    """Half as fast as the clock, until both agree."""
    assert ClockSlew(100, 120).time(clock) == time


def test_time_never_goes_back_and_is_found_again() -> None:
    """For each time there is what the clock shows then, and not long before."""
    for lead in (-5, 0, 1, 2, 7):
        advance = ClockSlew(100, 100 + lead)
        times = [advance.time(clock) for clock in range(100, 150)]
        assert times == sorted(times)
        assert times[-1] == 149
        for time in range(times[0], 149):
            clock = advance.clock(time)
            assert advance.time(clock) == time
            assert advance.time(clock - 2) < time


def test_a_time_before_the_start_is_due_at_once() -> None:
    """The clock has passed it."""
    assert ClockSlew(100, 120).clock(90) <= 100
