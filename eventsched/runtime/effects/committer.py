"""Writes a simulation's batches to its log, one at a time."""

from collections import deque
from collections.abc import Callable

from eventsched.eventlog.port import Batch, EventLog

MOST_WAITING = 4_000_000
"""Bytes of the batches that may wait for the one under way. The log and the loop are fast at
different times: a log has more work with the arrival of a pod than the loop, and less with a
decision. Arrivals are small, so thousands of them may wait."""


class Committer:
    """Group commit: while batches commit, the loop computes the next ones."""

    def __init__(self, log: EventLog | None) -> None:
        """Without a log nothing is written; this is for measuring the cost of logging."""
        self._log = log
        self._is_under_way = False
        self._waiting: deque[tuple[Batch, int] | Callable[[EventLog], None]] = deque()
        self._waiting_bytes = 0

    def begin(self, batch: Batch) -> None:
        """Begins this batch, or puts it behind those that wait. Waits if these are too large.
        Raises what the log raises; if that is about an earlier batch, this one is not taken."""
        if self._log is None:
            return
        self._advance(self._log)
        while self._waiting_bytes >= MOST_WAITING:
            self._finish(self._log)
        size = batch.size
        self._waiting.append((batch, size))
        self._waiting_bytes += size
        if not self._is_under_way:
            self._send(self._log)

    def then(self, call: Callable[[EventLog], None]) -> None:
        """Calls with the log once all batches so far are committed, and before the next one is
        begun. What a call holds is not counted among the bytes that wait: a snapshot comes after
        thousands of records, so the batches before it bound how many wait. Raises what the call and
        the log raise."""
        if self._log is not None:
            self._waiting.append(call)
            if not self._is_under_way:
                self._send(self._log)

    def advance(self) -> None:
        """Begins the next batch that waits, if the one under way is committed. Does not wait; call
        it often. Raises what the log raises."""
        if self._log is not None and self._waiting:
            self._advance(self._log)

    def wait(self) -> None:
        """Waits until all batches are committed. Raises what the log raises."""
        while self._log is not None and self._is_under_way:
            self._finish(self._log)

    def _advance(self, log: EventLog) -> None:
        while self._is_under_way and log.answered():
            self._finish(log)

    def _finish(self, log: EventLog) -> None:
        log.finish()
        self._is_under_way = False
        self._send(log)

    def _send(self, log: EventLog) -> None:
        """Takes what waits, up to the next batch."""
        while self._waiting and not self._is_under_way:
            next_one = self._waiting.popleft()
            if isinstance(next_one, tuple):
                batch, size = next_one
                self._waiting_bytes -= size
                log.begin(batch)
                self._is_under_way = True
            else:
                next_one(log)
