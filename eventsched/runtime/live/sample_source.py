"""Samples that plugins want (scheduling/framework/sampling.py): asked for now and then while a
leader leads, each source in a thread of its own, and told as stimuli, so that a replay asks
nobody."""

import asyncio
from collections.abc import Callable, Sequence

from eventsched.domain.records import SamplesTaken
from eventsched.domain.units import SECOND
from eventsched.runtime.live.request_source import Attentive
from eventsched.runtime.live.worker import Worker
from eventsched.scheduling.framework.sampling import Sampling

_SOON = 0.05
"""Seconds between two looks whether attempts are made, before the first question."""

Ask = Callable[[], SamplesTaken]
"""Asks a source once; blocks, and raises nothing but what is a defect. Times are filled in here."""


async def sample(
    samplings: Sequence[Sampling],
    ask: Callable[[Sampling], Ask],
    leader: Attentive,
    now: Callable[[], int],
) -> None:
    """Tells a leader of each source's values at once and then every interval, until cancelled.
    ``ask`` makes what asks; ``now`` gives µs since 1970."""
    async with asyncio.TaskGroup() as group:
        for each in samplings:
            group.create_task(_follow(each, ask(each), leader, now))


async def _follow(sampling: Sampling, ask: Ask, leader: Attentive, now: Callable[[], int]) -> None:
    worker = Worker(f"samples {sampling.source}")
    try:
        while True:
            while not leader.leads:
                await asyncio.sleep(_SOON)
            taken = await worker.call(ask)
            leader.tell(dated(taken, now(), sampling.max_age))
            await asyncio.sleep(sampling.interval)
    finally:
        worker.stop(getattr(ask, "close", None))


def dated(taken: SamplesTaken, at: int, max_age: float) -> SamplesTaken:
    """With the time (µs) at which it was taken, and until when it holds (``max_age`` in s)."""
    return SamplesTaken(
        source=taken.source,
        values=taken.values,
        taken=at,
        until=at + round(max_age * SECOND) if taken.values else 0,
        problem=taken.problem,
    )
