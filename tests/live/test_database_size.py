"""The size of the database is measured from time to time, also after a failure."""

import asyncio
from typing import Any

from eventsched.domain.errors import UnavailableError
from eventsched.runtime.live.database_client import measure_size
from eventsched.runtime.live.worker import Worker
from tests.live.stage import until


def test_it_is_measured_again_after_a_failure() -> None:
    answers: list[int | UnavailableError] = [
        10, UnavailableError("the database", "is down", "wait"), 30,
    ]  # fmt: skip
    measured: list[int | None] = []

    class Sizes:
        size: int | None = None

    def measure() -> int:
        measured.append(sizes.size)
        answer = answers.pop(0) if answers else 30
        if isinstance(answer, Exception):
            raise answer
        return answer

    sizes: Any = Sizes()

    async def run() -> None:
        worker = Worker("test")
        task = asyncio.create_task(measure_size(measure, worker, sizes, period=0.001))
        await until(lambda: sizes.size == 30)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        worker.stop()

    asyncio.run(run())
    assert measured[:3] == [None, 10, 10]
