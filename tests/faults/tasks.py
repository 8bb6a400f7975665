"""Runs the product's coroutines without an event loop: the housekeeping of a term, and a standby
that follows the log. Each await is an event of the world."""

import asyncio
from collections.abc import Callable, Coroutine, Generator
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest.mock import patch

from eventsched.domain.errors import UnavailableError
from eventsched.runtime.live import follower, log_housekeeping

MOST_AWAITS = 10_000


class Sleep(NamedTuple):
    """Wait for a number of seconds."""

    seconds: float


class Call(NamedTuple):
    """Call a function that asks the database."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]


class _Await:
    def __init__(self, request: Sleep | Call) -> None:
        self._request = request

    def __await__(self) -> Generator[Sleep | Call, Any, Any]:
        return (yield self._request)


class YieldingWorker:
    """A Worker whose calls are made by the world."""

    def __init__(self, name: str) -> None:
        """``name`` is not used."""

    async def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """See Worker."""
        return await _Await(Call(function, arguments))

    def stop(self, last: Callable[[], object] | None = None) -> None:
        """Nothing."""


async def _sleep(seconds: float) -> None:
    await _Await(Sleep(seconds))


async def _to_thread(function: Callable[..., Any], *arguments: Any) -> Any:
    return function(*arguments)


def without_event_loop() -> ExitStack:
    """Replaces what the coroutines await."""
    stack = ExitStack()
    awaits = SimpleNamespace(Event=asyncio.Event, sleep=_sleep, to_thread=_to_thread)
    for module in (follower, log_housekeeping):
        stack.enter_context(patch.object(module, "asyncio", awaits))
        stack.enter_context(patch.object(module, "Worker", YieldingWorker))
        stack.enter_context(patch.object(module, "logger", SimpleNamespace(
            info=_ignore, warning=_ignore)))  # fmt: skip
    return stack


def _ignore(*_: Any, **__: Any) -> None:
    """Logs nothing."""


class Task:
    """A coroutine that is carried on by the world. ``awaits`` is what it waits for."""

    def __init__(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        self._coroutine = coroutine
        self.awaits: Sleep | Call = coroutine.send(None)

    def sent(self, result: Any = None) -> None:
        """What it waits for has happened. Raises StopIteration at its end."""
        self.awaits = self._coroutine.send(result)

    def failed(self, problem: Exception) -> None:
        """What it waits for has failed."""
        self.awaits = self._coroutine.throw(problem)

    def carry_on(self) -> None:
        """Makes the call that it waits for."""
        assert isinstance(self.awaits, Call)
        function, arguments = self.awaits
        try:
            result = function(*arguments)
        except Exception as problem:  # noqa: BLE001  of the coroutine
            self.failed(problem)
        else:
            self.sent(result)

    def close(self) -> None:
        """The process has died."""
        self._coroutine.close()


def finished(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Runs a coroutine to its end. Raises UnavailableError if it goes on waiting."""
    try:
        task = Task(coroutine)
        for _ in range(MOST_AWAITS):
            if isinstance(task.awaits, Call):
                task.carry_on()
            else:
                task.sent()
    except StopIteration as end:
        return end.value
    raise UnavailableError("the log", "is waited for", "")
