"""A line on standard error that says how a run goes: rewritten in place on a terminal, a new one
now and then elsewhere."""

import sys
import time

from eventsched.cli.output.tables import duration
from eventsched.domain.records import Queue
from eventsched.runtime.simulation.run_counters import RunCounters

EVERY = 0.2
"""Seconds between two updates on a terminal."""
SELDOM = 2.0
"""Seconds between two lines elsewhere."""


class ProgressLine:
    """Called for every step; writes a few times a second."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._terminal = sys.stderr.isatty()
        self._every = EVERY if self._terminal else SELDOM
        self._started = time.monotonic()
        self._next = self._started + self._every
        self._width = 0

    def __call__(self, tally: RunCounters) -> None:
        """Says how it goes, when it is time to."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + self._every
        self._write(self.line(tally, now - self._started))

    def done(self) -> None:
        """Takes the line away."""
        if self._terminal and self._width:
            self._write("")
            sys.stderr.write("\r")

    def line(self, tally: RunCounters, elapsed: float) -> str:
        """What is shown after so many seconds."""
        rate = tally.decided / elapsed if elapsed > 0 else 0.0
        share = min(1.0, tally.decided / self._total) if self._total else 1.0
        filled = int(share * 20)
        queues = "  ".join(f"{queue.value} {tally.queues.get(queue, 0)}" for queue in Queue)
        return (
            f"[{'#' * filled}{'.' * (20 - filled)}] {tally.decided}/{self._total} pods decided  "
            f"{rate:,.0f} pods/s  {queues}  t={duration(tally.now)}"
        )

    def _write(self, line: str) -> None:
        if self._terminal:
            sys.stderr.write("\r" + line.ljust(self._width))
        else:
            sys.stderr.write(line + "\n")
        sys.stderr.flush()
        self._width = len(line)
