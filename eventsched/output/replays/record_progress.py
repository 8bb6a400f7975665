"""A progress line: rewritten in place, on a terminal only."""

import sys
import time

from eventsched.output.terminal.progress import TERMINAL_INTERVAL


class RecordProgress:
    """Called for every step with what is done and the total, in records or another unit; writes a
    few times a second."""

    def __init__(self, unit: str = "records", *, is_shown: bool = True) -> None:
        self._unit = unit
        self._terminal = is_shown and sys.stderr.isatty()
        self._next = time.monotonic() + TERMINAL_INTERVAL
        self._width = 0

    def __call__(self, done: int, total: int) -> None:
        """Writes the line if an update is due."""
        if not self._terminal or time.monotonic() < self._next:
            return
        self._next = time.monotonic() + TERMINAL_INTERVAL
        line = f"{done * 100 // max(total, 1)} % of {total} {self._unit}"
        sys.stderr.write("\r" + line.ljust(self._width))
        sys.stderr.flush()
        self._width = len(line)

    def done(self) -> None:
        """Erases the line."""
        if self._width:
            sys.stderr.write("\r" + " " * self._width + "\r")
            sys.stderr.flush()
            self._width = 0
