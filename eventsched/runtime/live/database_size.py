"""Measures the size of the database while a term lasts, for metrics.

Postgres adds up the sizes of the database's files, which takes milliseconds. It is asked once a
minute on the thread that reads the log, so that appends do not wait for it.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from eventsched.domain.errors import UnavailableError
from eventsched.runtime.live.database_client import DatabaseClient
from eventsched.runtime.live.worker import Worker

MEASUREMENT_PERIOD = 60.0
"""Seconds between two measurements."""


async def measure_size(
    measure: Callable[[], int],
    worker: Worker,
    database: DatabaseClient,
    period: float = MEASUREMENT_PERIOD,
) -> None:
    """Keeps the size in ``database.size``, until cancelled. While the database is unreachable the
    last size stays; others report that."""
    while True:
        with suppress(UnavailableError):
            database.size = await worker.call(measure)
        await asyncio.sleep(period)
