"""Waits for what is new in a log: for long polls and for server-sent events.

While there are waiters of a stream, one task asks for its head at intervals. Waiters are woken when
it has moved. No thread waits.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress

INTERVAL = 0.25
"""Seconds between two looks at the head."""
MOST_WAITERS = 256
"""Long polls and streams of events at a time."""
MOST_LISTENERS = 128
"""Streams of events at a time, so that they leave room for long polls."""
AT_ONCE = 4
"""Of those that are woken, as many look for what is new at a time: fewer than there are threads."""


class TooManyError(Exception):
    """There are as many waiters as there may be."""


class Places:
    """A number of places, each for one request at a time."""

    def __init__(self, most: int) -> None:
        self._free = most

    def require_free(self) -> None:
        """Raises TooManyError if no place is free."""
        if not self._free:
            raise TooManyError

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Has a place in the block. Raises TooManyError."""
        self.require_free()
        self._free -= 1
        try:
            yield
        finally:
            self._free += 1


class HeadWatch:
    """Watches the heads of streams while a request waits for one. Used from one event loop."""

    def __init__(self, head: Callable[[str | None], Awaitable[int]]) -> None:
        """``head`` gives the head of a stream by name."""
        self._head = head
        self._waiters: dict[str | None, set[tuple[int, asyncio.Future[int | None]]]] = {}
        self._tasks: dict[str | None, asyncio.Task[None]] = {}
        self.has_ended = False

    @property
    def waiters(self) -> int:
        """How many wait."""
        return sum(map(len, self._waiters.values()))

    def end(self) -> None:
        """Nothing is waited for any more: the server stops."""
        self.has_ended = True
        for waiters in self._waiters.values():
            for _, woken in waiters:
                if not woken.done():
                    woken.set_result(None)

    async def past(self, stream: str | None, position: int, seconds: float) -> int | None:
        """The head of a stream once it is after ``position``; None if it is not within
        ``seconds``, or when waiting has ended. Raises TooManyError."""
        if self.has_ended:
            return None
        if self.waiters >= MOST_WAITERS:
            raise TooManyError
        woken: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()
        waiter = position, woken
        self._waiters.setdefault(stream, set()).add(waiter)
        if stream not in self._tasks:
            self._tasks[stream] = asyncio.create_task(self._watch(stream), name="head")
        try:
            async with asyncio.timeout(seconds):
                return await woken
        except TimeoutError:
            return None
        finally:
            self._waiters.get(stream, set()).discard(waiter)

    async def _watch(self, stream: str | None) -> None:
        try:
            while self._waiters[stream] and not self.has_ended:
                with suppress(Exception):  # the database may come back; waiters have deadlines
                    head = await self._head(stream)
                    for position, woken in list(self._waiters[stream]):
                        if head > position and not woken.done():
                            woken.set_result(head)
                await asyncio.sleep(INTERVAL)
        finally:
            del self._tasks[stream], self._waiters[stream]
