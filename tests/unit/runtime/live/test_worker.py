"""Calls that block, in a thread of their own."""

import asyncio
import threading

import pytest

from eventsched.runtime.live.worker import Worker


def test_calls_are_made_in_order_and_answered() -> None:
    """With what they return or raise."""

    async def run() -> None:
        worker = Worker("test")
        made: list[int] = []

        def call(number: int) -> int:
            made.append(number)
            if number == 2:
                raise ValueError("two")
            return 10 * number

        found = await asyncio.gather(
            *(worker.call(call, number) for number in range(4)), return_exceptions=True
        )
        assert made == [0, 1, 2, 3]
        assert found[:2] + found[3:] == [0, 10, 30]
        with pytest.raises(ValueError, match="two"):
            raise found[2]  # type: ignore[misc]
        worker.stop()

    asyncio.run(run())


def test_cancelling_the_wait_does_not_stop_the_call() -> None:
    """Nor the ones after it; and the loop goes on meanwhile."""

    async def run() -> None:
        worker = Worker("test")
        go_on = threading.Event()
        first = asyncio.create_task(worker.call(go_on.wait, 60))
        second = asyncio.create_task(worker.call(threading.current_thread))
        await asyncio.sleep(0)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        go_on.set()
        assert (await second).daemon
        worker.stop()

    asyncio.run(run())


def test_stop_does_not_wait_for_the_last_call() -> None:
    """It comes after all others; whether it fails is its own affair."""
    worker, made = Worker("test"), list[int]()
    go_on = threading.Event()

    def fail() -> None:
        made.append(2)
        raise ValueError

    async def run() -> None:
        task = asyncio.create_task(worker.call(go_on.wait, 60))
        await asyncio.sleep(0)
        worker.stop(fail)
        made.append(1)
        go_on.set()
        await task

    asyncio.run(run())
    worker._thread.join(60)
    assert made == [1, 2]


def test_a_closed_loop_gets_no_result() -> None:
    """What is under way then ends unheard; the last call is made all the same."""
    worker, go_on, closed = Worker("test"), threading.Event(), threading.Event()

    async def run() -> None:
        task = asyncio.create_task(worker.call(go_on.wait, 60))
        await asyncio.sleep(0)
        task.cancel()
        worker.stop(closed.set)

    asyncio.run(run())
    go_on.set()
    assert closed.wait(60)
    worker._thread.join(60)
    assert not worker._thread.is_alive()
