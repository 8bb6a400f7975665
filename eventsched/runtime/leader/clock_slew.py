"""The time that a term goes by, where the log is ahead of the clock.

A leader's time never goes back. Where an earlier one had a clock that was ahead, the term begins at
the log's time, and time runs half as fast as the clock, until the two agree: one wrong clock is
not kept for ever (``live/clock.py`` has the same rule for one machine).
"""


class ClockSlew:
    """Time as the clock's time and a lead that dwindles; all in µs since 1970."""

    def __init__(self, clock: int = 0, time: int = 0) -> None:
        """When the clock showed ``clock`` it was ``time``, if that is later."""
        self._since = clock
        self._lead = max(0, time - clock)

    def time(self, clock: int) -> int:
        """The time when the clock shows this, never less than before."""
        return clock + max(0, self._lead - (clock - self._since) // 2)

    def clock(self, time: int) -> int:
        """What the clock shows when it is that time."""
        left = time - self._since - self._lead
        return self._since + left + max(0, min(left, self._lead))
