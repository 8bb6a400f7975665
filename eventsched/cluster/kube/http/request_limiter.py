"""Limits concurrent requests, and sends urgent ones first.

Requests that a decision waits for (binds, reads, touches, evictions) are sent before reports
(conditions, Events). Reports get at most half of the slots, so slow reports do not delay binds.
"""

from asyncio import CancelledError, Future, get_running_loop
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class RequestLimiter:
    """``limit`` slots, of which ``limit // 2`` (at least one) may hold reports. For use within one
    event loop."""

    def __init__(self, limit: int) -> None:
        self._free = limit
        self._free_for_reports = max(1, limit // 2)
        self._urgent: deque[Future[None]] = deque()
        self._reports: deque[Future[None]] = deque()

    @property
    def waiting(self) -> int:
        """The number of requests that wait for a slot."""
        return sum(not turn.done() for queue in (self._urgent, self._reports) for turn in queue)

    @asynccontextmanager
    async def urgent(self) -> AsyncIterator[None]:
        """A slot for a request that a decision waits for."""
        if self._free:
            self._free -= 1
        else:
            await self._turn(self._urgent, report=False)
        try:
            yield
        finally:
            self._leave(report=False)

    @asynccontextmanager
    async def report(self) -> AsyncIterator[None]:
        """A slot for a report."""
        if self._free and self._free_for_reports:
            self._free -= 1
            self._free_for_reports -= 1
        else:
            await self._turn(self._reports, report=True)
        try:
            yield
        finally:
            self._leave(report=True)

    async def _turn(self, queue: deque[Future[None]], *, report: bool) -> None:
        turn = get_running_loop().create_future()
        queue.append(turn)
        try:
            await turn
        except CancelledError:
            if not turn.cancelled():  # the slot had just been assigned
                self._leave(report=report)
            raise

    def _leave(self, *, report: bool) -> None:
        self._free += 1
        self._free_for_reports += report
        while self._free and (turn := _first(self._urgent)):
            self._free -= 1
            turn.set_result(None)
        while self._free and self._free_for_reports and (turn := _first(self._reports)):
            self._free -= 1
            self._free_for_reports -= 1
            turn.set_result(None)


def _first(queue: deque[Future[None]]) -> Future[None] | None:
    """Removes and returns the first that still waits."""
    while queue:
        turn = queue.popleft()
        if not turn.done():
            return turn
    return None
