"""The clock of a live scheduler when the wall clock is set."""

import pytest

from eventsched.domain.units import SECOND
from eventsched.runtime.live.clock import Clock

HOUR = 3600


class Machine:
    """Both clocks of a machine, in seconds."""

    def __init__(self) -> None:
        self.wall, self.steady = 1_700_000_000.0, 50.0
        self.clock = Clock(lambda: round(self.wall * 1e9), lambda: round(self.steady * 1e9))

    def passes(self, seconds: float, step: float = 1.0) -> float:
        """Lets ``seconds`` pass. Returns the seconds by which the clock advanced."""
        before = self.clock.now()
        for _ in range(round(seconds / step)):
            self.wall += step
            self.steady += step
            now = self.clock.now()
        return (now - before) / SECOND


def test_the_clock_follows_the_wall_clock() -> None:
    """As long as that is not set."""
    machine = Machine()
    assert machine.clock.now() == 1_700_000_000 * SECOND
    assert machine.passes(100) == 100
    assert machine.clock.offset == 0


@pytest.mark.row(16)
def test_a_wall_clock_set_an_hour_forward() -> None:
    """At one and a half times the speed: nothing is due at once that was not."""
    machine = Machine()
    machine.wall += HOUR
    assert machine.passes(10) == 15
    assert machine.passes(3 * HOUR) == 3 * HOUR + HOUR - 5
    assert machine.clock.offset == 0


@pytest.mark.row(16)
def test_a_wall_clock_set_an_hour_back() -> None:
    """At half the speed: it never stands still."""
    machine = Machine()
    machine.passes(1)
    machine.wall -= HOUR
    assert machine.passes(10) == 5
    assert machine.passes(3 * HOUR) == 3 * HOUR - HOUR + 5
    assert machine.clock.offset == 0


def test_the_clock_never_goes_back() -> None:
    """Also if no time has passed at all."""
    machine = Machine()
    machine.wall -= HOUR
    assert machine.clock.now() == machine.clock.now() == 1_700_000_000 * SECOND


@pytest.mark.row(16)
def test_a_pause_of_the_process_counts_as_time() -> None:
    """Both clocks went on meanwhile."""
    machine = Machine()
    assert machine.passes(30, step=30) == 30
