"""A thread for calls that block, so that the event loop goes on."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from threading import Thread
from typing import Any, TypeVar

T = TypeVar("T")

_Waiter = tuple[asyncio.AbstractEventLoop, "asyncio.Future[Any]"]
_Job = tuple[_Waiter | None, Callable[..., Any], tuple[Any, ...]]


class Worker:
    """Makes calls one after the other, in the order of ``call``. The thread does not keep the
    process alive, so a database that does not answer does not delay the exit."""

    def __init__(self, name: str) -> None:
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._thread = Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    async def call(self, function: Callable[..., T], *arguments: Any) -> T:
        """Calls a function in the thread; returns or raises what it does. Cancelling this does not
        stop the call."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._jobs.put(((loop, future), function, arguments))
        return await future

    def stop(self, last: Callable[[], object] | None = None) -> None:
        """Ends the thread after the pending calls and a ``last`` one. Does not wait for that,
        because a call may take long."""
        if last is not None:
            self._jobs.put((None, last, ()))
        self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            waiter, function, arguments = job
            result: Any = None
            failure: BaseException | None = None
            try:
                result = function(*arguments)
            except BaseException as problem:  # noqa: BLE001  raised in the caller
                failure = problem
            if waiter is None:
                continue
            loop, future = waiter
            # A closed loop needs no result; the last call is still to be made.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(_resolve, future, result, failure)


def _resolve(future: "asyncio.Future[Any]", result: Any, failure: BaseException | None) -> None:
    if future.done():  # cancelled meanwhile
        return
    if failure is None:
        future.set_result(result)
    else:
        future.set_exception(failure)
