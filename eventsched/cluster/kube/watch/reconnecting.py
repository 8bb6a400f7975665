"""When a reflector reads, waits and reconnects."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

_FIRST_PAUSE, _LONGEST_PAUSE = 0.8, 30.0
"""Seconds (client-go's bounds)."""
_RESET_AFTER = 120.0
"""Seconds without a pause after which the backoff starts from the first pause again."""


@dataclass
class Pace:
    """Limits and intervals of a reflector, in seconds. Tests inject the clock, sleep and random
    draw."""

    page: int = 500
    """Objects in one page of a list."""
    few: int = 2000
    """``catch_up`` lists a resource with fewer objects again, instead of opening a probe."""
    attend: float = 0.5
    """Interval between the probes of ``keep_probing``; 0 for none."""
    stall: float = 120.0
    """Longest silence of a watch. An API server sends a bookmark about every minute."""
    absent: float = 10.0
    """Interval between checks for a resource whose definition is not installed."""
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    clock: Callable[[], float] = time.monotonic
    draw: Callable[[], float] = random.random


@dataclass
class ReconnectBackoff:
    """Pauses that double from 0.8 s to 30 s. Each is lengthened at random, up to twice as long.
    After two minutes without a pause they start from the first one (client-go's numbers)."""

    pace: Pace
    _next: float = field(default=_FIRST_PAUSE, init=False)
    _last: float = field(default=float("-inf"), init=False)

    def pause(self) -> float:
        """The next pause in seconds."""
        now = self.pace.clock()
        if now - self._last > _RESET_AFTER:
            self.restart()
        self._last = now
        pause = self._next * (1 + self.pace.draw())
        self._next = min(_LONGEST_PAUSE, self._next * 2)
        return pause

    def restart(self) -> None:
        """Makes the next pause the first one."""
        self._next = _FIRST_PAUSE


class ReconnectSignal:
    """Shared by the reflectors of one server: the first that reaches it again wakes the others."""

    def __init__(self) -> None:
        self._reachable = asyncio.Event()

    def notify(self) -> None:
        """Wakes all reflectors that wait for the server."""
        self._reachable.set()
        self._reachable = asyncio.Event()

    async def wait(self, sleep: Awaitable[None]) -> None:
        """Returns when ``sleep`` is over or another reflector calls ``notify``."""
        tasks = [asyncio.ensure_future(task) for task in (sleep, self._reachable.wait())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
