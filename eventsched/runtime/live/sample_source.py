"""Queries the samples that plugins want (scheduling/framework/sampling.py), and passes them to the
leader as stimuli, so that a replay queries nothing. Each source has a thread of its own."""

import asyncio
from collections.abc import Callable, Sequence

from eventsched.domain.records import SamplesTaken
from eventsched.domain.units import SECOND
from eventsched.runtime.live.request_source import StimulusReceiver
from eventsched.runtime.live.worker import Worker
from eventsched.scheduling.framework.sampling import Sampling

_POLL_PERIOD = 0.05
"""Seconds between two checks whether the term leads."""

Query = Callable[[], SamplesTaken]
"""Queries a source once. It may block. An exception is a defect. ``dated`` fills in the times."""


async def sample(
    samplings: Sequence[Sampling],
    query_of: Callable[[Sampling], Query],
    leader: StimulusReceiver,
    now: Callable[[], int],
) -> None:
    """Passes each source's values to the leader at once and then every interval, until cancelled.
    ``query_of`` gives the function that queries a source; ``now`` returns µs since 1970."""
    async with asyncio.TaskGroup() as group:
        for sampling in samplings:
            group.create_task(_poll(sampling, query_of(sampling), leader, now))


async def _poll(
    sampling: Sampling, query: Query, leader: StimulusReceiver, now: Callable[[], int]
) -> None:
    worker = Worker(f"samples {sampling.source}")
    try:
        while True:
            while not leader.accepts_stimuli:
                await asyncio.sleep(_POLL_PERIOD)
            taken = await worker.call(query)
            leader.submit(dated(taken, now(), sampling.max_age))
            await asyncio.sleep(sampling.interval)
    finally:
        worker.stop(getattr(query, "close", None))


def dated(taken: SamplesTaken, at: int, max_age: float) -> SamplesTaken:
    """The samples with the time (µs) at which they were taken and until which they are valid
    (``max_age`` in s)."""
    return SamplesTaken(
        source=taken.source,
        values=taken.values,
        taken=at,
        until=at + round(max_age * SECOND) if taken.values else 0,
        problem=taken.problem,
    )
