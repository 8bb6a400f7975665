"""A progress line on standard error: rewritten in place on a terminal, else a new line every two
seconds."""

import sys
import time

from eventsched.domain.records import Queue
from eventsched.output.terminal.tables import duration
from eventsched.runtime.simulation.run_counters import RunCounters

TERMINAL_INTERVAL = 0.2
"""Seconds between two updates on a terminal."""
FILE_INTERVAL = 2.0
"""Seconds between two lines elsewhere."""


class ProgressLine:
    """Called for every step; writes a few times a second."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._terminal = sys.stderr.isatty()
        self._interval = TERMINAL_INTERVAL if self._terminal else FILE_INTERVAL
        self._started = time.monotonic()
        self._next = self._started + self._interval
        self._width = 0

    def __call__(self, counters: RunCounters) -> None:
        """Writes the line if an update is due."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + self._interval
        self._write(self.line(counters, now - self._started))

    def done(self) -> None:
        """Erases the line."""
        if self._terminal and self._width:
            self._write("")
            sys.stderr.write("\r")

    def line(self, counters: RunCounters, elapsed: float) -> str:
        """The line after ``elapsed`` seconds."""
        rate = counters.decided / elapsed if elapsed > 0 else 0.0
        total = max(self._total, counters.decided)  # pods of replaced nodes begin again
        share = counters.decided / total if total else 1.0
        filled = int(share * 20)
        queues = "  ".join(f"{queue.value} {counters.queues.get(queue, 0)}" for queue in Queue)
        return (
            f"[{'#' * filled}{'.' * (20 - filled)}] {counters.decided}/{total} pods decided  "
            f"{rate:,.0f} pods/s  {queues}  t={duration(counters.now)}"
        )

    def _write(self, line: str) -> None:
        if self._terminal:
            sys.stderr.write("\r" + line.ljust(self._width))
        else:
            sys.stderr.write(line + "\n")
        sys.stderr.flush()
        self._width = len(line)
