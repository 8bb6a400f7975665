"""Passes operators' requests from the database to the leader, as stimuli.

They are polled on the thread that reads the log. A request is marked as done in the transaction
that commits its record (sql/0002_requests.sql). If the leader is killed or deposed before that, the
request is still open and the next leader takes it up.
"""

import asyncio
from collections.abc import Sequence
from typing import Protocol

from eventsched.domain.errors import UnavailableError
from eventsched.domain.records import MemoryForgotten, Stimulus
from eventsched.runtime.live.worker import Worker

POLL_PERIOD = 1.0
"""Seconds between two polls."""


class RequestQueue(Protocol):
    """Stores operators' requests."""

    def requests(self) -> Sequence[MemoryForgotten]:
        """The open requests, oldest first. Raises UnavailableError."""


class StimulusReceiver(Protocol):
    """Accepts stimuli while it leads; the driver of a term."""

    @property
    def accepts_stimuli(self) -> bool:
        """Whether stimuli are taken up now."""

    def submit(self, stimulus: Stimulus) -> None:
        """Passes a stimulus."""


async def pass_on_requests(
    queue: RequestQueue, worker: Worker, leader: StimulusReceiver, period: float = POLL_PERIOD
) -> None:
    """Passes each request to the leader once, until cancelled. While the database is unreachable it
    does nothing; others report that."""
    passed: set[int] = set()
    while True:
        await asyncio.sleep(period)
        if not leader.accepts_stimuli:
            continue
        try:
            forgets = await worker.call(queue.requests)
        except UnavailableError:
            continue
        for forget in forgets:
            if forget.request not in passed:
                leader.submit(forget)
        passed = {forget.request for forget in forgets}
