"""The time of a term when the log is ahead of the clock.

A leader's time never goes back. If an earlier leader's clock was ahead, the term begins at the
log's time. Time then runs half as fast as the clock until the two agree, so that one wrong clock
does not shift the log permanently. ``live/clock.py`` has the same rule for one machine.
"""


class ClockSlew:
    """Time as the clock's time plus a lead that shrinks to zero; all in µs since 1970."""

    def __init__(self, clock: int = 0, time: int = 0) -> None:
        """The term's time is ``time`` when the clock shows ``clock``, if ``time`` is later."""
        self._since = clock
        self._lead = max(0, time - clock)

    def time(self, clock: int) -> int:
        """The term's time when the clock shows ``clock``; never less than before."""
        return clock + max(0, self._lead - (clock - self._since) // 2)

    def clock(self, time: int) -> int:
        """What the clock shows when the term's time is ``time``."""
        left = time - self._since - self._lead
        return self._since + left + max(0, min(left, self._lead))


class LeaderClock:
    """The time of a leader's current step: ``clock`` is what the clock shows, ``now`` the term's
    time; both in µs since 1970."""

    def __init__(self) -> None:
        self.clock = self.now = 0
        self._slew = ClockSlew()

    def advance(self, clock: int) -> None:
        """A step begins when the clock shows ``clock``."""
        self.clock, self.now = clock, self._slew.time(clock)

    def adopt(self, time: int) -> None:
        """Continues from ``time``, the log's, if that is ahead of the clock."""
        self._slew = ClockSlew(self.clock, time)
        self.now = self._slew.time(self.clock)

    def clock_at(self, time: int) -> int:
        """What the clock shows when the term's time is ``time``."""
        return self._slew.clock(time)
