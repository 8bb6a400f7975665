"""A standby takes in what others commit, so that its term can begin at once.

The log is read in a thread of its own and applied here in small steps. History that is gone again
(a failover, a restored backup) is dropped, and the log read anew; a log that is damaged, or of
kinds of records that this version does not know, is not passed over: that ends the process.
"""

import asyncio
import sys
import time

import msgspec
import structlog

from eventsched.eventlog.chain import Head
from eventsched.eventlog.log_errors import (
    CorruptLogError,
    DatabaseRefusedError,
    HistoryChangedError,
    UnavailableError,
)
from eventsched.eventlog.postgres.reader import StoredBatch
from eventsched.eventlog.postgres.tail import Tail
from eventsched.runtime.leader.catch_up import Standby
from eventsched.runtime.live.database_health import DatabaseHealth
from eventsched.runtime.live.worker import Worker

PERIOD = 0.2
"""Seconds between two looks at the log's end."""
_AWAY = 2.0
"""Seconds between two tries to reach a database that is away."""

logger = structlog.get_logger()


class Follower:
    """Feeds one standby. ``caught_up`` says whether everything was taken in when last looked;
    ``reach`` whether the log can be read."""

    def __init__(self, standby: Standby, tail: Tail, worker: Worker) -> None:
        self.reach = DatabaseHealth()
        self.caught_up = False
        self._there = asyncio.Event()
        self._standby, self._tail, self._worker = standby, tail, worker
        self._restored = False
        self._loaded = self._read = self._applied = 0.0
        """Seconds that loading the snapshot, reading batches and applying them have taken."""

    async def run(self) -> None:
        """Follows until cancelled. Raises CorruptLogError and RefusedError."""
        while True:
            try:
                await self._step()
            except DatabaseRefusedError:
                raise
            except UnavailableError as problem:
                self._missed(problem)
                await asyncio.sleep(_AWAY)
                continue
            self._found()
            if self.caught_up and not self._there.is_set():
                self._there.set()
                self._tell()
            await asyncio.sleep(PERIOD if self.caught_up else 0)

    async def there(self) -> None:
        """Waits until everything was taken in once, while ``run`` follows."""
        await self._there.wait()

    async def catch_up(self, head: Head) -> float:
        """Takes in everything up to a head that is known to be committed; how long that took (s).
        Raises HistoryChangedError where somebody else has written since, CorruptLogError, and
        UnavailableError."""
        began = time.perf_counter()
        if self._standby.head.next > head.next:
            self._start_over("the log ends before what was read of it")
        while (before := self._standby.head) != head:
            await self._step()
            if self._standby.head.next > head.next:
                raise HistoryChangedError("somebody else has written since the term began")
            if self._standby.head == before:
                await asyncio.sleep(PERIOD)
        self._found()
        return time.perf_counter() - began

    @property
    def lag(self) -> int:
        """Committed records that were not taken in when last looked."""
        summit = self._tail.summit
        return 0 if summit is None else max(0, summit.head.next - self._standby.head.next)

    @property
    def epoch(self) -> int:
        """The epoch that the stream is in; 0 where nobody has begun it."""
        return self._tail.summit.epoch if self._tail.summit is not None else 0

    async def _step(self) -> None:
        """Takes in what is there, some batches of it."""
        if not self._restored:
            await self._restore()
        began = time.perf_counter()
        try:
            with self.reach.asking():
                batches = await self._worker.call(self._tail.poll, self._standby.head)
        except HistoryChangedError as problem:
            self._start_over(str(problem))
            return
        self._read += time.perf_counter() - began
        for batch in batches:
            began = time.perf_counter()
            self._apply(batch)
            self._applied += time.perf_counter() - began
            await asyncio.sleep(0)
        self.caught_up = not self.lag

    async def _restore(self) -> None:
        """Begins with the newest snapshot that is of any use."""
        before, began = sys.maxsize, time.perf_counter()
        while True:
            with self.reach.asking():
                found = await self._worker.call(self._tail.snapshot, before)
            if found is None:
                break
            # Seconds, if there are many pods: the process is alive meanwhile.
            fold = await asyncio.to_thread(self._standby.restored, found)
            if fold is not None:
                self._standby.begin(fold, len(found.body))
                logger.info("begun with a snapshot", seq=found.position)
                break
            logger.info("a snapshot is of no use", seq=found.position, version=found.version)
            before = found.position
        self._restored = True
        self._loaded = time.perf_counter() - began

    def _tell(self) -> None:
        """Says what the start had to apply, and where its time went (s). ``estimated`` is what a
        leader bounds by its snapshots (snapshot_policy.py)."""
        standby = self._standby
        logger.info(
            "caught up with the log",
            seq=standby.head.next,
            snapshot=standby.kept_at,
            records=standby.head.next - standby.kept_at,
            estimated=round(standby.unkept, 3),
            loading=round(self._loaded, 3),
            reading=round(self._read, 3),
            applying=round(self._applied, 3),
        )

    def _apply(self, batch: StoredBatch) -> None:
        head = Head(batch.first + batch.count, batch.hash)
        try:
            self._standby.follow(batch.records, head, batch.mark.encode())
        except (msgspec.MsgspecError, LookupError, AssertionError, ValueError) as problem:
            # What Engine.apply raises for a record that does not fit: nothing of it is skipped.
            raise CorruptLogError(batch.first, f"does not fit: {problem!r}") from problem

    def _start_over(self, why: str) -> None:
        logger.warning("history was lost; the log is read anew", reason=why)
        self.caught_up = False
        self._standby.start_over()

    def _missed(self, problem: UnavailableError) -> None:
        self.caught_up = False
        if self.reach.missed(str(problem)):
            logger.warning("the log is away", reason=str(problem))

    def _found(self) -> None:
        if self.reach.answered() is not None:
            logger.info("the log is read again", seq=self._standby.head.next)
