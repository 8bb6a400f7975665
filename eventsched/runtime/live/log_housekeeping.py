"""Keeps a leader's log in order while its term lasts: partitions ahead, old vectors and old records
dropped, full partitions sealed.

Dropping needs a seal, which is a record of the log; so the leader gets it as a stimulus, like any
other news, and it takes effect once it is committed.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import structlog

from eventsched.domain.errors import UnavailableError
from eventsched.eventlog.address_file import Address
from eventsched.eventlog.log_errors import CorruptLogError
from eventsched.eventlog.postgres.housekeeping import make_partitions, thin, unarchived_since
from eventsched.eventlog.postgres.pruning import prune
from eventsched.eventlog.postgres.sealing import next_seal
from eventsched.runtime.live.request_source import StimulusReceiver
from eventsched.runtime.live.worker import Worker

_AFTER = 10.0
"""Seconds between the beginning of a term, which has more urgent work, and its housekeeping."""
_EVERY = 60.0
"""Seconds between two looks at the partitions of the log."""

logger = structlog.get_logger()


@dataclass(frozen=True)
class Retention:
    """How long parts of a log are kept, in seconds; 0: forever. ``vectors_age`` is that of vectors,
    ``records_age`` that of everything. With ``needs_archive`` only records that an archive holds
    are sealed, and so dropped."""

    vectors_age: float = 0.0
    records_age: float = 0.0
    needs_archive: bool = True


@dataclass(frozen=True)
class HousekeepingStatus:
    """What a leader's last look at its log found. Times are in seconds since 1970.

    ``records_ahead`` is the number of records for which there are partitions. ``unarchived_since``
    is when the oldest record was written that retention may drop only once an archive holds it;
    None if there is no such condition."""

    done_at: float
    records_ahead: int
    unarchived_since: float | None


async def keep_house(
    where: Address,
    stream: str,
    retention: Retention,
    leader: StimulusReceiver,
    now: Callable[[], int],
    report: Callable[[HousekeepingStatus], None] = lambda status: None,
) -> None:
    """Runs until cancelled, as long as one term. ``now`` returns µs since 1970. ``report`` is
    called after each look that succeeded."""
    await asyncio.sleep(_AFTER)
    housekeeper = _Housekeeper(where, stream, retention, now)
    while True:
        worker = Worker("housekeeping")
        try:
            status = await housekeeper.tidy(worker)
            await housekeeper.seal(worker, leader)
            report(status)
        except (UnavailableError, CorruptLogError) as problem:
            logger.warning("housekeeping of the log failed", reason=str(problem))
        finally:
            worker.stop()
        await asyncio.sleep(_EVERY)


class _Housekeeper:
    """The log of a stream during a term."""

    def __init__(
        self, where: Address, stream: str, retention: Retention, now: Callable[[], int]
    ) -> None:
        self._where, self._stream, self._retention, self._now = where, stream, retention, now
        self._sealed = -1
        """The partition that was sealed last; its seal may not be committed yet."""

    async def tidy(self, worker: Worker) -> HousekeepingStatus:
        """Drops old partitions, and makes the next one: on a full disk that needs the room."""
        where, stream, retention = self._where, self._stream, self._retention
        if retention.vectors_age:
            count = await worker.call(thin, where, stream, retention.vectors_age, self._now())
            if count:
                logger.info("old vectors are deleted", decisions=count)
        if retention.records_age:
            drop = partial(prune, needs_archive=retention.needs_archive)
            dropped = await worker.call(drop, where, stream, retention.records_age, self._now())
            for pruned in dropped:
                logger.info("old records are deleted", first=pruned.first, next=pruned.next)
        records_ahead = await worker.call(make_partitions, where, stream)
        since = None
        if retention.records_age and retention.needs_archive:
            since = await worker.call(unarchived_since, where, stream)
        return HousekeepingStatus(self._now() / 1e6, records_ahead, since)

    async def seal(self, worker: Worker, leader: StimulusReceiver) -> None:
        """Seals the oldest full partition that is not sealed."""
        needs_archive = self._retention.needs_archive or not self._retention.records_age
        find = partial(next_seal, needs_archive=needs_archive)
        seal = await worker.call(find, self._where, self._stream)
        if seal is not None and seal.partition > self._sealed and leader.accepts_stimuli:
            self._sealed = seal.partition
            leader.submit(seal)
