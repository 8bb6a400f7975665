"""Writes batches to a log, one at a time, and executes their effects after the commit."""

from collections.abc import Callable

from eventsched.domain.records import Effect
from eventsched.eventlog.port import EventLog
from eventsched.runtime.effects.batches import BatchWithEffects


class Committer:
    """Group commit: while one batch commits, the loop computes the next."""

    def __init__(self, log: EventLog | None, execute: Callable[[Effect, int], None]) -> None:
        """``execute`` gets each effect and the time (µs) of its decision. Without a log, effects
        are executed at the end of their batch; this is for measuring the cost of logging."""
        self._log = log
        self._execute = execute
        self._under_way: BatchWithEffects | None = None

    def begin(self, closed: BatchWithEffects) -> None:
        """Waits for the batch under way, then begins this one. Raises what the log raises. The
        effects of a batch that is not committed are not executed."""
        self.wait()
        if self._log is not None:
            self._log.begin(closed.batch)
        self._under_way = closed

    def wait(self) -> None:
        """Waits for the batch under way, and executes its effects."""
        if self._under_way is None:
            return
        if self._log is not None:
            self._log.finish()
        closed, self._under_way = self._under_way, None
        for effect, at in closed.effects:
            self._execute(effect, at)
