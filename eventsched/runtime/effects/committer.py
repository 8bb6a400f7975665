"""Writes a simulation's batches to its log, one at a time."""

from eventsched.eventlog.port import Batch, EventLog


class Committer:
    """Group commit: while one batch commits, the loop computes the next."""

    def __init__(self, log: EventLog | None) -> None:
        """Without a log nothing is written; this is for measuring the cost of logging."""
        self._log = log
        self._is_under_way = False

    def begin(self, batch: Batch) -> None:
        """Waits for the batch under way, then begins this one. Raises what the log raises."""
        self.wait()
        if self._log is not None:
            self._log.begin(batch)
            self._is_under_way = True

    def wait(self) -> None:
        """Waits for the batch under way. Raises what the log raises."""
        if self._log is not None and self._is_under_way:
            self._log.finish()
            self._is_under_way = False
