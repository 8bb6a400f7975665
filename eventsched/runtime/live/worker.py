"""One thread for calls that block: the event loop goes on while a database is waited for."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from threading import Thread
from typing import Any, TypeVar

T = TypeVar("T")

_Asked = tuple[asyncio.AbstractEventLoop, "asyncio.Future[Any]"]
_Job = tuple[_Asked | None, Callable[..., Any], tuple[Any, ...]]


class Worker:
    """Makes one call after the other, in the order in which they were asked for. The thread does
    not keep the process alive: a database that does not answer delays no exit."""

    def __init__(self, name: str) -> None:
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._thread = Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    async def call(self, function: Callable[..., T], *arguments: Any) -> T:
        """Calls a function in the thread, and gives what it returns or raises. Who stops waiting
        does not stop the call."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._jobs.put(((loop, future), function, arguments))
        return await future

    def stop(self, last: Callable[[], object] | None = None) -> None:
        """Lets the thread end after the calls that were asked for, and a ``last`` one. Nobody waits
        for that: one of them may take long."""
        if last is not None:
            self._jobs.put((None, last, ()))
        self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            asked, function, arguments = job
            result: Any = None
            failure: BaseException | None = None
            try:
                result = function(*arguments)
            except BaseException as problem:  # noqa: BLE001  raised where it was asked for
                failure = problem
            if asked is None:
                continue
            loop, future = asked
            # A loop that is closed waits for nothing any more; the last call is made all the same.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(_settle, future, result, failure)


def _settle(future: "asyncio.Future[Any]", result: Any, failure: BaseException | None) -> None:
    if future.done():  # cancelled meanwhile
        return
    if failure is None:
        future.set_result(result)
    else:
        future.set_exception(failure)
