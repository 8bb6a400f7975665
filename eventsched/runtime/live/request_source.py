"""What people ask of a running scheduler reaches its leader: polled in the database, on the thread
that reads the log, and told as stimuli.

A request is marked there in the transaction that commits its record (sql/0002_requests.sql), so one
whose leader was killed or deposed before that is still open, and the next leader takes it up.
"""

import asyncio
from collections.abc import Sequence
from typing import Protocol

from eventsched.domain.records import MemoryForgotten, Stimulus
from eventsched.eventlog.log_errors import UnavailableError
from eventsched.runtime.live.worker import Worker

PERIOD = 1.0
"""Seconds between two looks."""


class Desk(Protocol):
    """Where requests are."""

    def requests(self) -> Sequence[MemoryForgotten]:
        """Those that no committed record answers, the oldest first. Raises UnavailableError."""


class Attentive(Protocol):
    """Who takes requests up."""

    @property
    def leads(self) -> bool:
        """Whether it would hear of one now."""

    def tell(self, stimulus: Stimulus) -> None:
        """Something has happened."""


async def attend(desk: Desk, worker: Worker, leader: Attentive, period: float = PERIOD) -> None:
    """Tells a leader of each request once, until cancelled. While the database is away nothing is
    asked for, and others say so."""
    told: set[int] = set()
    while True:
        await asyncio.sleep(period)
        if not leader.leads:
            continue
        try:
            found = await worker.call(desk.requests)
        except UnavailableError:
            continue
        for each in found:
            if each.request not in told:
                leader.tell(each)
        told = {each.request for each in found}
