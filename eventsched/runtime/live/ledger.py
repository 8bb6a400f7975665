"""The database's side of a term: its requests go to the one thread that may block on it."""

import time
from collections.abc import Awaitable, Callable
from dataclasses import replace

import psycopg
import structlog

from eventsched.cluster.messages import Unknown
from eventsched.eventlog.chain import Head, SealedBatch
from eventsched.eventlog.errors import (
    ConflictError,
    FencedError,
    HistoryChangedError,
    RefusedError,
    UnavailableError,
    UnknownOutcomeError,
)
from eventsched.eventlog.session import Session
from eventsched.runtime.live.ports import Audience
from eventsched.runtime.live.reach import Reach
from eventsched.runtime.live.worker import Worker
from eventsched.runtime.messages import (
    Acquire,
    Acquired,
    Append,
    Committed,
    DatabaseAnswer,
    DatabaseRequest,
    Deposed,
    Keep,
    Renew,
    Renewed,
)

logger = structlog.get_logger()

_OVER = (FencedError, ConflictError, HistoryChangedError)
_AWAY = (UnavailableError, UnknownOutcomeError, psycopg.Error)


class Ledger:
    """Answers a leader's requests to the database; ``reach`` says whether it does."""

    def __init__(
        self,
        session: Session,
        worker: Worker,
        audience: Audience,
        *,
        stream: str,
        holder: str,
        catch_up: Callable[[Head], Awaitable[float]],
        keeps_vectors: bool = True,
    ) -> None:
        """``catch_up`` lets the leader follow the log up to a head. Without ``keeps_vectors``
        decisions keep the digests of their vectors only: no chain has the vectors themselves."""
        self.reach = Reach()
        self._session, self._worker, self._audience = session, worker, audience
        self._stream, self._holder, self._catch_up = stream, holder, catch_up
        self._keeps_vectors = keeps_vectors
        self._offered: tuple[bytes, float] = (b"", 0.0)

    async def answer(self, request: DatabaseRequest) -> DatabaseAnswer | Unknown | None:
        """Carries a request out once; None where it has no answer. Raises CorruptLogError, and
        RefusedError where this user may not write."""
        try:
            with self.reach.asking():
                answer = await self._answer(request)
        except _OVER as problem:
            if isinstance(request, Append):
                self._audience.fenced()
            return Deposed(str(problem))
        except _AWAY as problem:
            if isinstance(request, Acquire) and isinstance(problem, RefusedError):
                raise
            said = str(problem).split("\n")[0]
            if self.reach.missed(said):
                logger.warning("the database is away; nothing is decided", reason=said)
            return Unknown(request)
        away = self.reach.answered()
        if away is not None:
            logger.info("the database answers again", away=round(away, 3))
        return answer

    async def _answer(self, request: DatabaseRequest) -> DatabaseAnswer | None:
        match request:
            case Acquire():
                return await self._acquire()
            case Append(batch=batch):
                await self._append(batch)
                return Committed()
            case Renew(term=term):
                await self._worker.call(self._session.renew, term)
                return Renewed()
            case Keep(term=term, snapshot=snapshot):
                await self._worker.call(self._session.keep, term, snapshot)
                return None

    async def _acquire(self) -> Acquired:
        """A term; what was committed before it has been followed when this returns."""
        reign = await self._worker.call(self._session.acquire, self._stream, self._holder)
        self._audience.folded(await self._catch_up(reign.head))
        return Acquired(reign.term, reign.head, reign.head, (), reign.history)

    async def _append(self, batch: SealedBatch) -> None:
        if self._offered[0] != batch.hash:
            self._offered = batch.hash, time.monotonic()
        sent = batch if self._keeps_vectors else replace(batch, details={})
        await self._worker.call(self._session.append, sent)
        took = time.monotonic() - self._offered[1]
        self._audience.committed(took, batch.count, len(batch.body))
