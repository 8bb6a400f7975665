"""Answers a leader's requests to the database, on a thread that may block."""

import asyncio
import time
import zlib
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

import psycopg
import structlog

from eventsched.cluster.messages import Unknown
from eventsched.domain.errors import UnavailableError
from eventsched.eventlog.chain import Head, SealedBatch
from eventsched.eventlog.log_errors import (
    ConflictError,
    DatabaseRefusedError,
    FencedError,
    HistoryChangedError,
    UnknownOutcomeError,
)
from eventsched.eventlog.postgres.session import Session
from eventsched.runtime.leader.leader_messages import (
    Acquire,
    Acquired,
    Append,
    Committed,
    DatabaseAnswer,
    DatabaseRequest,
    Deposed,
    Renew,
    Renewed,
    StoreSnapshot,
)
from eventsched.runtime.live.checkpoint_signing import Checkpointer
from eventsched.runtime.live.database_health import DatabaseHealth
from eventsched.runtime.live.ports import TermObserver
from eventsched.runtime.live.worker import Worker

T = TypeVar("T")

MEASUREMENT_PERIOD = 60.0
"""Seconds between two measurements of the database's size."""

logger = structlog.get_logger()

_TERM_OVER = (FencedError, ConflictError, HistoryChangedError)
_UNANSWERED = (UnavailableError, UnknownOutcomeError, psycopg.Error)


def _is_loss(problem: Exception) -> bool:
    """Whether an error that ends a term means lost history, and not merely a later epoch."""
    return not isinstance(problem, FencedError) or problem.now <= problem.epoch


class DatabaseClient:
    """Answers a leader's requests to the database. ``health`` is the database's health.
    ``history_lost`` says that the term ended because batches that were committed in it are gone."""

    def __init__(
        self,
        session: Session,
        worker: Worker,
        observer: TermObserver,
        *,
        stream: str,
        holder: str,
        catch_up: Callable[[Head], Awaitable[float]],
        allows: Callable[[str], bool],
        checkpointer: Checkpointer | None = None,
    ) -> None:
        """``catch_up`` applies the log up to a head and returns the time it took (s). ``allows``
        says whether a schema of a revision allows the behaviours of the term."""
        self.health = DatabaseHealth()
        self.history_lost = False
        self.size: int | None = None
        """Bytes of the whole database when they were last measured; None until then."""
        self._session, self._worker, self._observer = session, worker, observer
        self._stream, self._holder, self._catch_up = stream, holder, catch_up
        self._allows = allows
        self._checkpointer = checkpointer
        self._first_sent: tuple[bytes, float] = (b"", 0.0)

    async def answer(self, request: DatabaseRequest) -> DatabaseAnswer | Unknown | None:
        """Carries out a request once; None if it has no answer. Raises CorruptLogError, and
        DatabaseRefusedError if the database refuses this user and waiting does not fix that
        (address_file.py)."""
        if isinstance(request, StoreSnapshot):
            await self._store(request)
            return None
        try:
            answer = await self._answer(request)
        except _TERM_OVER as problem:
            if isinstance(request, Append):
                self._observer.fenced()
            if not isinstance(request, Acquire):
                self.history_lost |= _is_loss(problem)
            return Deposed(str(problem))
        except DatabaseRefusedError:
            raise
        except _UNANSWERED as problem:
            reason = str(problem).split("\n")[0]
            if self.health.failed(reason):
                logger.warning("the database is unreachable; nothing is decided", reason=reason)
            return Unknown(request)
        downtime = self.health.answered()
        if downtime is not None:
            logger.info("the database answers again", downtime=round(downtime, 3))
        return answer

    async def _answer(self, request: Acquire | Append | Renew) -> DatabaseAnswer:
        match request:
            case Acquire():
                return await self._acquire()
            case Append(batch=batch):
                await self._append(batch)
                return Committed()
            case Renew(term=term):
                await self._ask(self._session.renew, term)
                return Renewed()

    async def _store(self, request: StoreSnapshot) -> None:
        """Stores a snapshot; it may get lost. That says nothing about the database's health: the
        session hides whether it was stored, and an append that waits for it is asking meanwhile."""
        # By another thread: appends need the worker's. Appends wait while a snapshot is sent, and
        # a compressed one has a ninth of the bytes.
        body = await asyncio.to_thread(zlib.compress, request.snapshot.body, 1)
        compressed = request.snapshot._replace(body=body)
        with suppress(*_UNANSWERED):
            await self._worker.call(self._session.store_snapshot, request.term, compressed)

    async def _ask(self, function: Callable[..., T], *arguments: object) -> T:
        """Calls a function that blocks on the database."""
        with self.health.asking():
            return await self._worker.call(function, *arguments)

    async def _acquire(self) -> Acquired | Deposed:
        """Acquires a term, and applies everything that was committed before it. The term is over
        if the schema no longer allows what the replica does, because a failover lost an upgrade:
        replicas of an older version could not read what it would write."""
        acquired = await self._ask(self._session.acquire, self._stream, self._holder)
        if not self._allows(acquired.schema):
            return Deposed(f"the schema has become {acquired.schema}")
        self._observer.log_applied(await self._catch_up(acquired.head))
        return Acquired(acquired.term, acquired.head, acquired.head, (), acquired.database_identity)

    async def _append(self, batch: SealedBatch) -> None:
        if self._first_sent[0] != batch.hash:
            self._first_sent = batch.hash, time.monotonic()
        await self._ask(self._session.append, batch)
        took = time.monotonic() - self._first_sent[1]
        self._observer.batch_committed(took, batch.count, len(batch.body))
        if self._checkpointer is not None:
            self._checkpointer.committed(batch.head)


async def measure_size(
    measure: Callable[[], int],
    worker: Worker,
    database: DatabaseClient,
    period: float = MEASUREMENT_PERIOD,
) -> None:
    """Keeps the size in ``database.size``, until cancelled. Postgres adds up the sizes of files,
    which takes milliseconds; ``worker`` is the thread that reads the log, so that appends do not
    wait for it. While the database is unreachable the last size stays; others report that."""
    while True:
        with suppress(UnavailableError):
            database.size = await worker.call(measure)
        await asyncio.sleep(period)
