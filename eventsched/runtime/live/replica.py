"""One replica of a scheduler: it follows the log, runs for leader, leads, and begins again.

    follow ─▶ elected ─▶ term: acquire, catch up, list, lead ─▶ deposed, lease lost ─▶ follow …
                                                            ├▶ ``end``: open requests are finished
                                                            ╰▶ ``reload``: term … with another plan

When a term ends its state is dropped; the next one begins with the log. Only ``reload`` carries the
state over, and keeps the Lease. The Lease only keeps replicas from disturbing each other. It is the
log that keeps an old leader from binding.
"""

import asyncio
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import structlog

from eventsched.domain.errors import NewerLogError, UnavailableError
from eventsched.domain.records import HistoryLost
from eventsched.domain.records.log_entry import LogEntry
from eventsched.eventlog.log_errors import DatabaseRefusedError
from eventsched.eventlog.postgres.housekeeping import current_schema
from eventsched.eventlog.postgres.session import Session
from eventsched.eventlog.postgres.tail import Tail
from eventsched.runtime.leader.followed_stream import FollowedStream
from eventsched.runtime.leader.leader import Leader
from eventsched.runtime.leader.shadow_term import require_same_mode
from eventsched.runtime.live.database_client import DatabaseClient, measure_size
from eventsched.runtime.live.driver import Driver
from eventsched.runtime.live.follower import Follower
from eventsched.runtime.live.log_housekeeping import HousekeepingStatus, keep_house
from eventsched.runtime.live.ports import Cluster, Election, TermObserver
from eventsched.runtime.live.replica_plan import Reload, ReplicaPlan
from eventsched.runtime.live.request_source import pass_on_requests
from eventsched.runtime.live.worker import Worker

RELOAD_GRACE_SECONDS = 1.0
"""Seconds that requests under way may take before a reload. The next term repeats the others."""
_MAX_DEPOSED, _WINDOW = 5, 300.0
"""This many terms ended by another writer within this many seconds are too many."""

_SCHEMA_EVERY = 60.0
"""Seconds between two looks of a leader at the revision of the schema."""

logger = structlog.get_logger()


class Replica:
    """Runs terms, one after the other, on one event loop. ``follower`` is set once the replica
    follows; ``driver`` and ``database`` are set during a term."""

    def __init__(
        self,
        plan: ReplicaPlan,
        cluster: Cluster,
        election: Election,
        observer: TermObserver,
        now: Callable[[], int],
    ) -> None:
        """``now`` returns µs since 1970 and never goes back."""
        self.plan = self._whole_plan = plan
        self.followed_stream = FollowedStream(plan.make_engine, plan.stream)
        self.follower: Follower | None = None
        self.database: DatabaseClient | None = None
        self.driver: Driver | None = None
        self.housekeeping: HousekeepingStatus | None = None
        """The last one of this term; None on a standby."""
        self.terms = 0
        self.counts: Counter[str] = Counter()
        """The sums of the counters of earlier terms."""
        self._cluster, self._election, self._observer = cluster, election, observer
        self._now = now
        self._ended = asyncio.Event()
        self.refusal = ""
        """Why the replica cannot follow the log: it is of a newer version. "" if it can."""
        self._schema = ""
        """The revision of the schema, when the replica last began to follow the log."""
        self._reload: Reload | None = None
        self._reloading = asyncio.Event()
        self._keeps_lease = False
        """Whether the round ended only for a reload."""
        self._is_handed_over = False
        """Whether ``followed_stream`` is then at a position of the log."""
        self._deposed: deque[float] = deque(maxlen=_MAX_DEPOSED)
        self._stand_down = 0.0
        """Seconds to wait before running for leader."""
        self._history_lost = False
        """Whether the log lacks records that were once committed, and no term has dealt with it
        yet. Kept from term to term, because the log itself may not show it."""

    async def run(self) -> None:
        """Runs until ``end``. Raises CorruptLogError, and UnavailableError for a problem that
        waiting does not fix. Any other exception is a defect. With a log of a newer version it does
        nothing more, since the process would only be restarted."""
        while not self._ended.is_set():
            try:
                await self._round()
            except NewerLogError as problem:
                self.refusal = str(problem)
                logger.error("the log is of a newer version; this replica does not lead",
                             reason=self.refusal)  # fmt: skip
                await self._ended.wait()

    def end(self) -> None:
        """Stops making attempts. ``run`` returns once the requests under way have their outcome and
        the lease is released."""
        logger.info("ending")
        self._ended.set()

    def reload(self, reload: Reload) -> None:
        """Goes on with another plan: a standby at once, a leader with a new term as soon as the
        requests under way have their outcome (at most ``RELOAD_GRACE_SECONDS``). The Lease is
        kept."""
        self._reload = reload
        self._reloading.set()

    @property
    def accepting_driver(self) -> Driver | None:
        """The driver of the term, for stimuli that the next term does not see; None without a term,
        and while one ends for a reload."""
        return None if self._reloading.is_set() else self.driver

    @property
    def leader(self) -> str:
        """The other replica that leads, as far as is known; "" if there is none or this one
        leads."""
        leader = "" if self.driver is not None else self._election.leader
        return "" if leader == self.plan.holder else leader

    # --- a round: from following to the end of a term ---------------------------------------

    async def _round(self) -> None:
        followed_stream = self.followed_stream = await self._next_stream()
        followed_stream.history_lost = self._history_lost
        reader = Worker("stream reader")
        tail = Tail(self.plan.address, self.plan.stream)
        follower = self.follower = Follower(
            followed_stream, tail, reader, self._found_schema, self._observer.records_followed
        )
        reason = ""
        self._election.watch_leader()
        self._keeps_lease = False
        try:
            if await self._elected(follower):
                reason = await self._term(followed_stream, follower, tail, reader)
        finally:
            self._history_lost |= followed_stream.history_lost or (
                self.database is not None and self.database.history_lost
            )
            self.driver = self.database = self.housekeeping = None
            reader.stop(tail.close)
            if not self._keeps_lease:
                await self._election.release()
        if reason:
            await self._after(reason)

    async def _next_stream(self) -> FollowedStream:
        """What the next round begins with: nothing, or after a reload the present state under the
        new engine."""
        before, reload = self.followed_stream, self._reload
        is_handed_over, self._is_handed_over = self._is_handed_over, False
        self._reloading.clear()
        self._reload = None
        if reload is None:
            return FollowedStream(self.plan.make_engine, self.plan.stream)
        self.plan = self._whole_plan = reload.plan
        if self._schema:
            self.plan = reload.plan.on_schema(self._schema)
        reload.on_effective()
        successor = None
        if is_handed_over:
            # With many pods this takes a second; the lease must be renewed meanwhile.
            successor = await asyncio.to_thread(before.reconfigured, self.plan.make_engine)
        logger.info(
            "another configuration is taken up",
            seq=before.head.next,
            reads_log=successor is None,
        )
        return successor or FollowedStream(self.plan.make_engine, self.plan.stream)

    def _found_schema(self, revision: str) -> None:
        """Takes up the behaviours that the database's schema allows, before the log is followed."""
        self._schema = revision
        plan = self._whole_plan.on_schema(revision)
        if not self._suits(revision):
            self.plan = plan
            self.followed_stream.decide_with(plan.make_engine)
        waiting = set(self._whole_plan.opening.flags) - set(plan.opening.flags)
        if waiting:
            logger.info("behaviours wait for `eventsched db upgrade --post`",
                        behaviours=sorted(waiting))  # fmt: skip

    async def _follow_schema(self) -> None:
        """Takes up behaviours that an upgrade allows while the term lasts. Raises
        DatabaseRefusedError once the schema no longer serves this version."""
        while True:
            await asyncio.sleep(_SCHEMA_EVERY)
            worker = Worker("schema reader")
            try:
                self._schema = await worker.call(current_schema, self.plan.address)
            except DatabaseRefusedError:
                raise
            except UnavailableError:
                continue  # the term itself reports that
            finally:
                worker.stop()
            if not self._suits(self._schema):
                self.reload(Reload(self._whole_plan))

    def _allows(self, revision: str) -> bool:
        """Whether a schema of this revision allows the behaviours in force. It may allow more: they
        are taken up during the term."""
        allowed = self._whole_plan.on_schema(revision).opening.flags
        return set(self.plan.opening.flags) <= set(allowed)

    def _suits(self, revision: str) -> bool:
        """Whether the behaviours in force are those that a schema of this revision allows."""
        return self._whole_plan.on_schema(revision).opening.flags == self.plan.opening.flags

    async def _elected(self, follower: Follower) -> bool:
        """Follows until this replica may lead. False if it is to end instead. A replica that has
        not read the log or listed the cluster does not run for leader; without the database none
        does."""
        following = asyncio.create_task(follower.run())
        winning = asyncio.create_task(self._won(follower))
        ending = asyncio.create_task(self._ended.wait())
        reloading = asyncio.create_task(self._reloading.wait())
        try:
            await _wait_for_first(following, winning, ending, reloading)
        finally:
            await _cancel(following, winning, ending, reloading)
        _raise_failure(following)
        _raise_failure(winning)
        if self._ended.is_set():
            return False
        self._keeps_lease = self._is_handed_over = self._reloading.is_set()
        return not self._keeps_lease

    async def _won(self, follower: Follower) -> None:
        await follower.wait_until_caught_up()
        state = self.followed_stream.stream_state.engine.state
        require_same_mode(self.plan.stream, state, self.plan.opening)
        await self._cluster.listed()
        await asyncio.sleep(self._stand_down)
        self._stand_down = 0.0
        if not self._ended.is_set():
            await self._election.won()

    async def _term(
        self,
        followed_stream: FollowedStream,
        follower: Follower,
        tail: Tail,
        reader: Worker,
    ) -> str:
        """Runs one term. Returns the reason if it was deposed, else "". Operators' requests and the
        size of the database are read with ``tail`` in the thread ``reader``."""
        self.terms += 1
        won = time.monotonic()
        logger.info("a term begins")
        leader = Leader(
            followed_stream, self.plan.opening, self.plan.limits, self._records_committed
        )
        session, writer = Session(self.plan.address), Worker("stream writer")
        self.database = DatabaseClient(
            session,
            writer,
            self._observer,
            stream=self.plan.stream,
            holder=self.plan.holder,
            catch_up=follower.catch_up,
            allows=self._allows,
            checkpointer=self.plan.checkpointer,
        )
        driver = self.driver = Driver(
            leader,
            self._cluster,
            self.database,
            self._now,
            on_leading=lambda: self._observer.took_over(time.monotonic() - won),
        )
        try:
            side_tasks: list[Awaitable[None]] = [
                pass_on_requests(tail, reader, driver),
                measure_size(tail.database_size, reader, self.database),
                keep_house(
                    self.plan.address,
                    self.plan.stream,
                    self.plan.retention,
                    driver,
                    self._now,
                    self._housekept,
                ),
            ]
            if self.plan.sample is not None:
                side_tasks.append(self.plan.sample(driver))
            return await self._driven(driver, side_tasks)
        finally:
            self.counts.update(leader.counts)
            writer.stop(session.close)

    async def _driven(self, driver: Driver, side_tasks: Sequence[Awaitable[None]]) -> str:
        """Runs the driver, and the other tasks beside it, until the term ends."""
        running = asyncio.create_task(driver.run())
        losing = asyncio.create_task(self._replaced())
        ending = asyncio.create_task(self._ended.wait())
        reloading = asyncio.create_task(self._reloading.wait())
        beside = [asyncio.ensure_future(task) for task in side_tasks]
        for side_task in beside:
            side_task.add_done_callback(_report_failure)
        keeping = asyncio.create_task(self._follow_schema())
        try:
            await _wait_for_first(running, losing, ending, reloading, keeping)
            if reloading.done() and not ending.done():
                driver.end()
                await _wait_for_first(running, losing, ending, timeout=RELOAD_GRACE_SECONDS)
            if ending.done() and not running.done() and not losing.done():
                driver.end()
                await _wait_for_first(running, losing, timeout=self.plan.grace)
        finally:
            await _cancel(running, losing, ending, reloading, keeping, *beside)
        for task in (running, losing, keeping):
            _raise_failure(task)
        is_over = losing.cancelled() and self._reloading.is_set() and not self._ended.is_set()
        if is_over and (running.cancelled() or not running.result()):
            self._keeps_lease, self._is_handed_over = True, driver.hand_over()
        if not running.cancelled() and (reason := running.result()):
            logger.warning("deposed", reason=reason)
            return reason
        if not losing.cancelled():
            logger.warning("no longer the leader", reason=losing.result())
        return ""

    async def _replaced(self) -> str:
        """Waits until another replica is to lead, and returns the reason: the lease is lost, or the
        database has not answered for so long that the lease is given back. If the database is
        unreachable for all replicas, none runs for leader until it is back."""
        losing = asyncio.create_task(self._election.wait_until_lost())
        try:
            while not losing.done():
                assert self.database is not None
                left = self.plan.database_patience - self.database.health.unanswered_seconds
                if left <= 0:
                    self._stand_down = self.plan.stand_down
                    return f"the database: {self.database.health.problem}"
                await _wait_for_first(losing, timeout=left)
            return losing.result()
        finally:
            await _cancel(losing)

    def _housekept(self, status: HousekeepingStatus) -> None:
        self.housekeeping = status

    async def _after(self, reason: str) -> None:
        """Raises UnavailableError if terms are deposed too often: two replicas with separate
        elections would depose each other forever."""
        self._deposed.append(time.monotonic())
        if len(self._deposed) == _MAX_DEPOSED and self._deposed[-1] - self._deposed[0] < _WINDOW:
            raise UnavailableError(
                f"stream {self.plan.stream}",
                f"was taken over {_MAX_DEPOSED} times in a row ({reason})",
                "see that all its replicas use one Lease, or give each a --stream of its own",
            )

    def _records_committed(self, committed: Sequence[LogEntry]) -> None:
        if self._history_lost and any(isinstance(entry.record, HistoryLost) for entry in committed):
            self._history_lost = False
        self._observer.records_committed(committed, self._now())


async def _wait_for_first(*tasks: "asyncio.Task[Any]", timeout: float | None = None) -> None:
    """Waits until one of the tasks has ended."""
    await asyncio.wait(tasks, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)


async def _cancel(*tasks: "asyncio.Task[Any]") -> None:
    """Cancels the tasks, and waits until they have ended."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _report_failure(task: "asyncio.Future[None]") -> None:
    """Logs the defect that has ended a task beside the term. The term goes on without it."""
    if not task.cancelled() and (failure := task.exception()) is not None:
        logger.error(
            "a task beside the term has failed; restart this replica", reason=repr(failure)
        )


def _raise_failure(task: "asyncio.Task[Any]") -> None:
    if not task.cancelled() and (failure := task.exception()) is not None:
        raise failure
