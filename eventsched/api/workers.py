"""Threads that work on answers, apart from those of the event loop.

They are daemons: an answer that does not come does not keep the process from ending. Quick answers
and slow ones have threads of their own, so that what folds a state or decides again never takes all
of them. If too many requests wait for a thread, further ones are refused.
"""

import asyncio
import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

_T = TypeVar("_T")


class BusyError(Exception):
    """Too many requests wait already."""


class Workers:
    """Some threads that take work in the order in which it came. Used from one event loop."""

    def __init__(self, name: str, threads: int, most: int) -> None:
        """``most`` calls may be under way or wait."""
        self._name, self._threads, self._most = name, threads, most
        self._work: queue.SimpleQueue[_Call] = queue.SimpleQueue()
        self._under_way = 0
        self._started = 0

    async def run(self, function: Callable[..., _T], *arguments: Any) -> _T:
        """The result of a call in a thread. A call whose waiter is gone is not begun. Raises
        BusyError, and what the function raises."""
        if self._under_way >= self._most:
            raise BusyError(f"{self._under_way} requests of this kind are under way")
        if self._started < self._threads:
            self._started += 1
            name = f"{self._name}-{self._started}"
            threading.Thread(target=self._loop, name=name, daemon=True).start()
        loop = asyncio.get_running_loop()
        call = _Call(loop, loop.create_future(), function, arguments)
        self._under_way += 1
        self._work.put(call)
        call.ended.add_done_callback(self._count)
        result: _T = await call.result
        return result

    def _count(self, _: object) -> None:
        self._under_way -= 1

    def _loop(self) -> None:
        while True:
            self._work.get().make()


class _Call:
    """A call, the future that its waiter has, and one that says that the thread is done with
    it: a waiter may leave before."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        result: asyncio.Future[Any],
        function: Callable[..., Any],
        arguments: tuple[Any, ...],
    ) -> None:
        self.loop, self.result = loop, result
        self.ended: asyncio.Future[None] = loop.create_future()
        self._function, self._arguments = function, arguments

    def make(self) -> None:
        """Makes the call, in a thread."""
        value, error = None, None
        if not self.result.cancelled():
            try:
                value = self._function(*self._arguments)
            except BaseException as problem:  # noqa: BLE001 - the waiter raises it
                error = problem
        with suppress(RuntimeError):  # the loop is closed: no waiter is left
            self.loop.call_soon_threadsafe(self._end, value, error)

    def _end(self, value: Any, error: BaseException | None) -> None:
        if not self.ended.done():
            self.ended.set_result(None)
        if self.result.done():
            return
        if error is None:
            self.result.set_result(value)
        else:
            self.result.set_exception(error)
