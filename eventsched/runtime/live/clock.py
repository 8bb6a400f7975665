"""The time that a live scheduler goes by: it neither goes back nor jumps.

It runs with the machine's steady clock and follows the wall clock slowly. When somebody sets the
wall clock by an hour, time here runs half as fast, or one and a half times as fast, until the two
agree again: no backoff or deadline is skipped, and none stands still.
"""

import time
from collections.abc import Callable

_MICRO = 1_000


def _steady_ns() -> int:
    """CLOCK_BOOTTIME where there is one: it goes on while the machine sleeps."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic_ns() if clock is None else time.clock_gettime_ns(clock)


class Clock:
    """Microseconds since 1970."""

    def __init__(
        self,
        wall: Callable[[], int] = time.time_ns,
        steady: Callable[[], int] = _steady_ns,
    ) -> None:
        """Both clocks in nanoseconds; ``steady`` never goes back, from whenever it counts."""
        self._wall, self._steady = wall, steady
        self._seen = steady()
        self._now = wall()

    def now(self) -> int:
        """The time; never less than before."""
        seen = self._steady()
        elapsed, self._seen = seen - self._seen, seen
        behind = self._wall() - (self._now + elapsed)
        most = elapsed // 2
        self._now += elapsed + max(-most, min(most, behind))
        return self._now // _MICRO

    @property
    def offset(self) -> float:
        """Seconds by which the wall clock is ahead of the time here."""
        return (self._wall() - self._now - (self._steady() - self._seen)) / 1e9
