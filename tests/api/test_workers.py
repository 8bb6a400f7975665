"""Threads for answers: slow and stuck ones take no thread of the others, and the process ends."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import Coroutine
from typing import Any

import pytest

from eventsched.api.workers import BusyError, Workers


def within(coroutine: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(coroutine, 60))


def test_results_and_errors() -> None:
    async def asked() -> None:
        workers = Workers("test", 2, 4)
        assert await workers.run(divmod, 7, 2) == (3, 1)
        with pytest.raises(ZeroDivisionError):
            await workers.run(divmod, 7, 0)

    within(asked())


def test_too_many_are_refused() -> None:
    """Also if the waiter of a stuck one has left: its thread is still taken."""

    async def asked() -> None:
        workers, ended = Workers("test", 1, 3), threading.Event()
        tasks = [asyncio.ensure_future(workers.run(ended.wait, 60)) for _ in range(3)]
        await asyncio.sleep(0)
        with pytest.raises(BusyError):
            await workers.run(int)
        tasks[0].cancel()
        tasks[1].cancel()
        await asyncio.sleep(0)
        with pytest.raises(BusyError):
            await workers.run(int)
        ended.set()
        assert await tasks[2] is True
        assert await workers.run(int) == 0

    within(asked())


def test_a_call_whose_waiter_has_left_is_not_made() -> None:
    async def asked() -> None:
        workers, ended = Workers("test", 1, 3), threading.Event()
        made: list[int] = []
        first = asyncio.ensure_future(workers.run(ended.wait, 60))
        second = asyncio.ensure_future(workers.run(made.append, 1))
        await asyncio.sleep(0)
        second.cancel()
        await asyncio.sleep(0)
        ended.set()
        await first
        await workers.run(made.append, 2)
        assert made == [2]

    within(asked())


def test_a_stuck_call_does_not_keep_the_process() -> None:
    program = """
import asyncio, threading
from eventsched.api.workers import Workers
async def main():
    begun = threading.Event()
    def stuck():
        begun.set()
        threading.Event().wait()
    task = asyncio.ensure_future(Workers("test", 1, 1).run(stuck))
    while not begun.is_set():
        await asyncio.sleep(0.01)
    task.cancel()
asyncio.run(main())
print("ended")
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "ended\n"
