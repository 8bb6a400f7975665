"""The time of a live scheduler: it neither goes back nor jumps.

It runs with the machine's steady clock and follows the wall clock slowly. If the wall clock is set
by an hour, this time runs half as fast, or one and a half times as fast, until the two agree again.
No backoff or deadline is skipped, and none stops.
"""

import time
from collections.abc import Callable

_MICRO = 1_000


def _steady_ns() -> int:
    """CLOCK_BOOTTIME if the platform has it, because it runs while the machine sleeps."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic_ns() if clock is None else time.clock_gettime_ns(clock)


class Clock:
    """Microseconds since 1970."""

    def __init__(
        self,
        wall: Callable[[], int] = time.time_ns,
        steady: Callable[[], int] = _steady_ns,
    ) -> None:
        """Both clocks return nanoseconds; ``steady`` counts from any start and never goes back."""
        self._wall, self._steady = wall, steady
        self._last_steady = steady()
        self._now = wall()

    def now(self) -> int:
        """The time; never less than before."""
        steady = self._steady()
        elapsed, self._last_steady = steady - self._last_steady, steady
        behind = self._wall() - (self._now + elapsed)
        correction = elapsed // 2
        self._now += elapsed + max(-correction, min(correction, behind))
        return self._now // _MICRO

    @property
    def offset(self) -> float:
        """Seconds by which the wall clock is ahead of this time."""
        return (self._wall() - self._now - (self._steady() - self._last_steady)) / 1e9
