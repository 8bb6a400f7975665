"""One replica of a scheduler: it follows the log, stands for election, leads, and begins again.

    follow ─▶ elected ─▶ term: acquire, catch up, barrier, lead ─▶ deposed, lease lost ─▶ follow …
                                                               ╰▶ ``end``: brought to rest

Whatever ends a term, its state is dropped: the next one begins with the log. The Lease only keeps
replicas from disturbing each other; that an old leader binds nothing is the log's doing.
"""

import asyncio
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import structlog

from eventsched.domain.errors import UnavailableError
from eventsched.domain.records import HistoryLost, StreamStarted
from eventsched.domain.records.logged import Logged
from eventsched.eventlog.postgres.session import Session
from eventsched.eventlog.postgres.tail import Tail
from eventsched.eventlog.postgres.thinning import thin
from eventsched.runtime.leader.catch_up import Standby
from eventsched.runtime.leader.leader import Leader
from eventsched.runtime.leader.limits import Limits
from eventsched.runtime.live.checkpoint_signing import Checkpointer
from eventsched.runtime.live.database_client import DatabaseClient
from eventsched.runtime.live.driver import Driver
from eventsched.runtime.live.follower import Follower
from eventsched.runtime.live.ports import Audience, Cluster, Election
from eventsched.runtime.live.request_source import attend
from eventsched.runtime.live.worker import Worker
from eventsched.scheduling.engine import Engine

GRACE = 5.0
"""Seconds for what is under way when a replica is told to end."""
PATIENCE = 45.0
"""Seconds for which a leader waits for its database before another replica may have its turn."""
REST = 15.0
"""Seconds for which it does not stand for election then: as long as a Lease lasts."""
_OFTEN, _WINDOW = 5, 300.0
"""So many terms that somebody else ended within so many seconds are too many."""

_THINNED_EVERY = 600.0
"""Seconds, at least, between two looks for old vectors: each reads all that are kept."""

logger = structlog.get_logger()


@dataclass(frozen=True)
class ReplicaPlan:
    """What all terms of a replica have in common. ``opening`` says which configuration and plugins
    are in force; ``holder`` names the replica."""

    make_engine: Callable[[], Engine]
    opening: StreamStarted
    address: str
    stream: str
    holder: str
    limits: Limits = field(default_factory=Limits)
    keeps_vectors: bool = True
    vectors_age: float = 0.0
    """Seconds after which vectors are deleted; 0: never."""
    grace: float = GRACE
    patience: float = PATIENCE
    rest: float = REST
    checkpointer: Checkpointer | None = None
    sample: Callable[[Driver], Awaitable[None]] | None = None
    """Tells a term's driver of what plugins want from outside, as long as it lasts."""


class Replica:
    """Terms, one after the other, in one event loop. What it is at is there to be read: it has a
    ``follower`` while it follows, a ``driver`` and a ``database`` during a term."""

    def __init__(
        self,
        plan: ReplicaPlan,
        cluster: Cluster,
        election: Election,
        audience: Audience,
        now: Callable[[], int],
    ) -> None:
        """``now`` gives µs since 1970 and never goes back."""
        self.plan = plan
        self.standby = Standby(plan.make_engine, plan.stream)
        self.follower: Follower | None = None
        self.database: DatabaseClient | None = None
        self.driver: Driver | None = None
        self.terms = 0
        self.counts: Counter[str] = Counter()
        """What the leaders of terms that are over have counted."""
        self._cluster, self._election, self._audience = cluster, election, audience
        self._now = now
        self._ended = asyncio.Event()
        self._deposed: deque[float] = deque(maxlen=_OFTEN)
        self._rest = 0.0
        self._forgotten = False
        """Whether the log was seen to lack what was committed once, and no term has dealt with it:
        all that is remembered from term to term, as the log may not show it."""

    async def run(self) -> None:
        """Until ``end``. Raises CorruptLogError, UnavailableError for what waiting does not mend,
        and whatever is a defect."""
        while not self._ended.is_set():
            await self._round()

    def end(self) -> None:
        """No more attempts; ``run`` returns when what is under way has come to its end, and the
        lease is given up."""
        logger.info("ending")
        self._ended.set()

    @property
    def leader(self) -> str:
        """Which other replica leads, as far as is known; "" for none, and while this one does."""
        leader = "" if self.driver is not None else self._election.leader
        return "" if leader == self.plan.holder else leader

    # --- a round: from following to the end of a term ---------------------------------------

    async def _round(self) -> None:
        reader = Worker("log reader")
        standby = self.standby = Standby(self.plan.make_engine, self.plan.stream)
        standby.rewritten = self._forgotten
        tail = Tail(self.plan.address, self.plan.stream)
        follower = self.follower = Follower(standby, tail, reader)
        reason = ""
        self._election.observe()
        try:
            if await self._elected(follower):
                reason = await self._term(standby, follower, partial(attend, tail, reader))
        finally:
            self._forgotten |= standby.rewritten or (
                self.database is not None and self.database.lost
            )
            self.driver = self.database = None
            reader.stop(tail.close)
            await self._election.release()
        if reason:
            await self._after(reason)

    async def _elected(self, follower: Follower) -> bool:
        """Follows until this replica may lead; False where it is to end instead. A replica that has
        not read the log or listed the cluster does not run for leader: without the database nobody
        leads."""
        following = asyncio.create_task(follower.run())
        winning = asyncio.create_task(self._won(follower))
        ending = asyncio.create_task(self._ended.wait())
        try:
            await _first(following, winning, ending)
        finally:
            await _stopped(following, winning, ending)
        _raise_failure(following)
        _raise_failure(winning)
        return not self._ended.is_set()

    async def _won(self, follower: Follower) -> None:
        await follower.there()
        await self._cluster.listed()
        await asyncio.sleep(self._rest)
        self._rest = 0.0
        if not self._ended.is_set():
            await self._election.won()

    async def _term(
        self, standby: Standby, follower: Follower, asked: Callable[[Driver], Awaitable[None]]
    ) -> str:
        """One term; why somebody else ended it, "" where nobody did. ``asked`` tells its driver
        what people ask for."""
        self.terms += 1
        won = time.monotonic()
        logger.info("a term begins")
        leader = Leader(standby, self.plan.opening, self.plan.limits, self._observe)
        session, writer = Session(self.plan.address), Worker("log writer")
        self.database = DatabaseClient(
            session,
            writer,
            self._audience,
            stream=self.plan.stream,
            holder=self.plan.holder,
            catch_up=follower.catch_up,
            keeps_vectors=self.plan.keeps_vectors,
            checkpointer=self.plan.checkpointer,
        )
        driver = self.driver = Driver(
            leader,
            self._cluster,
            self.database,
            self._now,
            leads=lambda: self._audience.took_over(time.monotonic() - won),
        )
        try:
            beside = [asked(driver), self._thin()]
            if self.plan.sample is not None:
                beside.append(self.plan.sample(driver))
            return await self._driven(driver, beside)
        finally:
            self.counts.update(leader.counts)
            writer.stop(session.close)

    async def _driven(self, driver: Driver, others: Sequence[Awaitable[None]]) -> str:
        running = asyncio.create_task(driver.run())
        losing = asyncio.create_task(self._replaced())
        ending = asyncio.create_task(self._ended.wait())
        beside = [asyncio.ensure_future(each) for each in others]
        try:
            await _first(running, losing, ending)
            if ending.done() and not running.done() and not losing.done():
                driver.end()
                await _first(running, losing, timeout=self.plan.grace)
        finally:
            await _stopped(running, losing, ending, *beside)
        _raise_failure(running)
        _raise_failure(losing)
        if not running.cancelled() and (reason := running.result()):
            logger.warning("deposed", reason=reason)
            return reason
        if not losing.cancelled():
            logger.warning("no longer the leader", reason=losing.result())
        return ""

    async def _replaced(self) -> str:
        """Waits until another one is to lead, and says why: the lease is lost, or the database has
        not answered for so long that it is given back. Where the database is away for all, nobody
        stands for election any more, until it is back."""
        losing = asyncio.create_task(self._election.lost())
        try:
            while not losing.done():
                assert self.database is not None
                left = self.plan.patience - self.database.reach.lacking
                if left <= 0:
                    self._rest = self.plan.rest
                    return f"the database: {self.database.reach.trouble}"
                await _first(losing, timeout=left)
            return losing.result()
        finally:
            await _stopped(losing)

    async def _thin(self) -> None:
        """Deletes old vectors now and then, as long as the term lasts."""
        plan = self.plan
        while plan.vectors_age:
            keeper = Worker("log keeper")
            try:
                count = await keeper.call(
                    thin, plan.address, plan.stream, plan.vectors_age, self._now()
                )
            except UnavailableError as problem:
                logger.warning("old vectors are not deleted", reason=str(problem))
            else:
                logger.info("old vectors are deleted", decisions=count)
            finally:
                keeper.stop()
            await asyncio.sleep(max(_THINNED_EVERY, plan.vectors_age / 24))

    async def _after(self, reason: str) -> None:
        """Raises UnavailableError where terms end too often: two replicas that elect apart would
        depose each other for ever."""
        self._deposed.append(time.monotonic())
        if len(self._deposed) == _OFTEN and self._deposed[-1] - self._deposed[0] < _WINDOW:
            raise UnavailableError(
                f"stream {self.plan.stream}",
                f"was taken over {_OFTEN} times in a row ({reason})",
                "see that all its replicas use one Lease, or give each a --stream of its own",
            )

    def _observe(self, committed: Sequence[Logged]) -> None:
        if self._forgotten and any(isinstance(each.record, HistoryLost) for each in committed):
            self._forgotten = False
        self._audience.observe(committed, self._now())


async def _first(*tasks: "asyncio.Task[Any]", timeout: float | None = None) -> None:
    """Waits until one has ended."""
    await asyncio.wait(tasks, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)


async def _stopped(*tasks: "asyncio.Task[Any]") -> None:
    """Ends those that have not."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _raise_failure(task: "asyncio.Task[Any]") -> None:
    if not task.cancelled() and (failure := task.exception()) is not None:
        raise failure
