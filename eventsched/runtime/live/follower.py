"""Keeps the state of a standby up to date with the log, so that its term can begin at once.

The log is read in a thread of its own and applied on the event loop in small steps. If history is
lost (a failover, a restored backup), the state is dropped and the log is read again from the start.
If records were dropped that were not read yet, it begins again with a later snapshot. A damaged log
ends the process. With a log of a newer version it goes on, but never leads.
"""

import asyncio
import sys
import time
from collections.abc import Callable, Sequence

import msgspec
import structlog

from eventsched.domain.errors import NewerLogError, UnavailableError
from eventsched.domain.records.log_entry import LogEntry
from eventsched.eventlog.chain import Head
from eventsched.eventlog.log_errors import (
    CorruptLogError,
    DatabaseRefusedError,
    HistoryChangedError,
    RecordsDroppedError,
)
from eventsched.eventlog.postgres.stored_batch import StoredBatch
from eventsched.eventlog.postgres.tail import Tail
from eventsched.runtime.leader.followed_stream import FollowedStream
from eventsched.runtime.live.database_health import DatabaseHealth
from eventsched.runtime.live.worker import Worker

POLL_PERIOD = 0.2
"""Seconds between two polls of the log."""
_RETRY_AFTER = 2.0
"""Seconds between two attempts to reach the database."""

logger = structlog.get_logger()


class Follower:
    """Feeds one ``FollowedStream``. ``caught_up`` says whether it had everything at the last poll.
    ``health`` is the health of the database."""

    def __init__(
        self,
        followed_stream: FollowedStream,
        tail: Tail,
        worker: Worker,
        on_schema: Callable[[str], None] = lambda _: None,
        on_records: Callable[[Sequence[LogEntry]], None] = lambda _: None,
    ) -> None:
        """``on_schema`` is called with the schema's revision before anything is followed, and
        ``on_records`` with the records of each batch once they are applied."""
        self._on_schema, self._on_records = on_schema, on_records
        self.health = DatabaseHealth()
        self.caught_up = False
        self.caught_up_at = 0.0
        """The monotonic time (s) at which the log was caught up with first; 0 until then."""
        self._caught_up_once = asyncio.Event()
        self._followed_stream, self._tail, self._worker = followed_stream, tail, worker
        self._restored = followed_stream.head.next > 0
        """Whether a snapshot was looked for. One is not needed if the state was handed over."""
        self._load_seconds = self._read_seconds = self._apply_seconds = 0.0
        """Time spent on loading the snapshot, reading batches and applying them."""

    async def run(self) -> None:
        """Follows until cancelled. Raises CorruptLogError, NewerLogError and
        DatabaseRefusedError."""
        while True:
            try:
                await self._step()
            except DatabaseRefusedError:
                raise
            except UnavailableError as problem:
                self._missed(problem)
                await asyncio.sleep(_RETRY_AFTER)
                continue
            self._answered()
            if self.caught_up and not self._caught_up_once.is_set():
                self._caught_up_once.set()
                self.caught_up_at = time.monotonic()
                self._report_start()
            await asyncio.sleep(POLL_PERIOD if self.caught_up else 0)

    async def wait_until_caught_up(self) -> None:
        """Waits until the log was caught up with once, while ``run`` follows."""
        await self._caught_up_once.wait()

    async def catch_up(self, head: Head) -> float:
        """Applies everything up to a head that is known to be committed. Returns the time this took
        (s). Raises HistoryChangedError if another replica has written since or the log no longer
        has this head, CorruptLogError, and UnavailableError."""
        began = time.perf_counter()
        if self._followed_stream.head.next > head.next:
            self._start_over("the log ends before the last record that was read")
        while (before := self._followed_stream.head) != head:
            await self._step()
            reached, end = self._followed_stream.head, self._tail.last_seen
            if reached.next >= head.next and reached != head:
                raise HistoryChangedError("another replica has written since the term began")
            if end is not None and end.head.next < head.next:
                raise HistoryChangedError("the log lost its end since the term began")
            if reached == before:
                await asyncio.sleep(POLL_PERIOD)
        self._answered()
        return time.perf_counter() - began

    @property
    def lag(self) -> int:
        """Committed records that were not applied at the last poll."""
        end = self._tail.last_seen
        return 0 if end is None else max(0, end.head.next - self._followed_stream.head.next)

    @property
    def epoch(self) -> int:
        """The stream's epoch; 0 for a new stream."""
        return self._tail.last_seen.epoch if self._tail.last_seen is not None else 0

    async def _step(self) -> None:
        """Reads and applies some batches, if there are new ones."""
        if not self._restored:
            await self._restore()
        began = time.perf_counter()
        try:
            with self.health.asking():
                batches = await self._worker.call(self._tail.poll, self._followed_stream.head)
        except HistoryChangedError as problem:
            self._start_over(str(problem))
            return
        except RecordsDroppedError as problem:
            logger.info("the log is read from a later snapshot on", reason=str(problem))
            self._begin_again(is_lost=False)
            return
        self._read_seconds += time.perf_counter() - began
        for batch in batches:
            began = time.perf_counter()
            self._apply(batch)
            self._apply_seconds += time.perf_counter() - began
            await asyncio.sleep(0)
        self.caught_up = not self.lag

    async def _restore(self) -> None:
        """Begins with the newest usable snapshot."""
        before, began = sys.maxsize, time.perf_counter()
        while True:
            with self.health.asking():
                snapshot = await self._worker.call(self._tail.snapshot, before)
            if before == sys.maxsize:
                self._on_schema(self._tail.schema)
            if snapshot is None:
                await self._require_beginning()
                break
            # With many pods this takes seconds; probes must be answered meanwhile.
            stream_state = await asyncio.to_thread(self._followed_stream.load_snapshot, snapshot)
            if stream_state is not None:
                self._followed_stream.begin(stream_state)
                logger.info("begun with a snapshot", seq=snapshot.position)
                break
            logger.info(
                "a snapshot cannot be used", seq=snapshot.position, version=snapshot.version
            )
            before = snapshot.position
        self._restored = True
        self._load_seconds = time.perf_counter() - began

    async def _require_beginning(self) -> None:
        """Without a snapshot, the log has to be there from its first record on."""
        begin = await self._worker.call(self._tail.begin)
        if begin:
            raise CorruptLogError(
                begin,
                "is the first record that was kept, and no snapshot or checkpoint after it "
                "can be used: start the version of eventsched that ran before, or restore the "
                "database from a backup",
            )

    def _report_start(self) -> None:
        """Logs what the start had to apply and its times (s). ``estimated`` is the time that a
        leader bounds by its snapshots (snapshot_policy.py)."""
        followed_stream = self._followed_stream
        logger.info(
            "caught up with the log",
            seq=followed_stream.head.next,
            snapshot=followed_stream.snapshot_position,
            records=followed_stream.head.next - followed_stream.snapshot_position,
            estimated=round(followed_stream.seconds_since_snapshot, 3),
            loading=round(self._load_seconds, 3),
            reading=round(self._read_seconds, 3),
            applying=round(self._apply_seconds, 3),
        )

    def _apply(self, batch: StoredBatch) -> None:
        head = Head(batch.first + batch.count, batch.hash)
        try:
            followed = self._followed_stream.follow(batch.records, head, batch.mark.encode())
        except NewerLogError:
            raise
        except (msgspec.MsgspecError, LookupError, AssertionError, ValueError) as problem:
            # Engine.apply raises these for a record that does not fit. None may be skipped.
            raise CorruptLogError(batch.first, f"does not fit: {problem!r}") from problem
        self._on_records(followed)

    def _start_over(self, reason: str) -> None:
        logger.warning("history was lost; the log is read again from the start", reason=reason)
        self._begin_again(is_lost=True)

    def _begin_again(self, *, is_lost: bool) -> None:
        self.caught_up = self._restored = False
        self._followed_stream.start_over(is_lost=is_lost)

    def _missed(self, problem: UnavailableError) -> None:
        self.caught_up = False
        if self.health.failed(str(problem)):
            logger.warning("the log is unreachable", reason=str(problem))

    def _answered(self) -> None:
        if self.health.answered() is not None:
            logger.info("the log is reachable again", seq=self._followed_stream.head.next)
