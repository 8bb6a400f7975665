"""Hands batches to a log, one under way at a time, and lets effects leave after the commit."""

from collections.abc import Callable

from eventsched.domain.records import Effect
from eventsched.eventlog.port import EventLog
from eventsched.runtime.effects.batches import Pending


class Committer:
    """Group commit for a loop that does not wait: while one batch commits, the next is computed."""

    def __init__(self, log: EventLog | None, execute: Callable[[Effect, int], None]) -> None:
        """``execute`` gets each effect and the time (µs) of its decision. Without a log effects
        leave at the end of a batch all the same: for measuring what logging costs."""
        self._log = log
        self._execute = execute
        self._under_way: Pending | None = None

    def offer(self, pending: Pending) -> None:
        """Waits for the batch under way, then begins this one. Raises what the log raises; nothing
        that was not committed has any effect."""
        self.settle()
        if self._log is not None:
            self._log.begin(pending.batch)
        self._under_way = pending

    def settle(self) -> None:
        """Waits for the batch under way, and lets its effects leave."""
        if self._under_way is None:
            return
        if self._log is not None:
            self._log.finish()
        pending, self._under_way = self._under_way, None
        for effect, at in pending.effects:
            self._execute(effect, at)
