"""An event loop that skips waits: its clock jumps to the next timer when nothing else happens.

Sockets work as usual. A test that passes the loop's ``time`` to the code under test as its clock
sees deadlines of seconds or minutes pass in milliseconds, in the same order as in real time.
"""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

_IDLE = 0.01
"""Real seconds without an event of a socket after which the rest of a wait is skipped. Both ends of
each connection are in this process, so nothing is on its way for that long."""


class _SkippingSelector(selectors.DefaultSelector):
    skipped = 0.0
    """Seconds that were not waited."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout <= _IDLE:
            return super().select(timeout)
        events = super().select(_IDLE)
        if not events:
            self.skipped += timeout - _IDLE
        return events


class SkippingLoop(asyncio.SelectorEventLoop):
    """An event loop for code that waits only for timers and for sockets of the same process."""

    def __init__(self) -> None:
        self._skipping_selector = _SkippingSelector()
        super().__init__(self._skipping_selector)

    def time(self) -> float:
        """Monotonic seconds, including those that were skipped."""
        return super().time() + self._skipping_selector.skipped


def run(main: Coroutine[Any, Any, T]) -> T:
    """As ``asyncio.run``, on a ``SkippingLoop``."""
    with asyncio.Runner(loop_factory=SkippingLoop) as runner:
        return runner.run(main)
