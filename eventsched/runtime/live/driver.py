"""Runs a leader's term on an event loop: messages in, requests out, in short turns.

``Leader`` (runtime/leader/leader.py) decides; the driver only waits and passes messages. A turn
takes some messages and makes some attempts; their number follows from how long they take. So
watches, answers, lease renewals and probes never wait for long. The driver has no lasting state: a
term that ends is dropped, and the next one begins with the log.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, Protocol

import structlog

from eventsched.cluster.messages import ListCluster, Listed, Unknown, WatchEvent
from eventsched.domain.records import Stimulus
from eventsched.runtime.leader.leader import Leader
from eventsched.runtime.leader.leader_messages import (
    Acquire,
    Append,
    DatabaseAnswer,
    DatabaseRequest,
    Message,
    Renew,
    Request,
    StoreSnapshot,
    Tick,
)
from eventsched.runtime.live.ports import Cluster
from eventsched.scheduling.framework.call_guard import OverrunError

TURN_CPU_SECONDS = 0.008
"""CPU seconds that a turn should take at most, half of them for messages and half for attempts, so
that neither starves the other. A request to the API server needs four turns."""
RECONCILING_SECONDS = 0.008
"""Seconds after which a turn that takes in lists ends; the next one goes on."""
_MAX_ATTEMPTS = 256
"""Attempts of one turn at most."""
_MAX_MESSAGES = 64
"""Messages of one turn at most: each takes about a tenth of a millisecond."""
_RETRY_AFTER = 1.0
"""Seconds between two attempts to list a cluster that cannot be listed."""
MAX_QUEUED_EVENTS = 50_000
"""Watch events and records that may wait while the database is unreachable. Beyond that the driver
unsubscribes from events. The cluster's store keeps the newest version of each object, and a list
replaces the events."""

logger = structlog.get_logger()


class Database(Protocol):
    """Answers a leader's requests to its database."""

    async def answer(self, request: DatabaseRequest) -> DatabaseAnswer | Unknown | None:
        """Carries out a request once. ``Unknown`` if its outcome is unknown, None if the request
        has no answer."""


class Driver:
    """Drives one leader until its term is over. ``subscribed`` says whether watch events are
    received. ``turns`` counts the turns, and ``longest`` (s) is the longest of them."""

    def __init__(
        self,
        leader: Leader,
        cluster: Cluster,
        database: Database,
        now: Callable[[], int],
        *,
        on_leading: Callable[[], None] = lambda: None,
        max_queued: int = MAX_QUEUED_EVENTS,
    ) -> None:
        """``now`` returns µs since 1970 and never goes back. ``on_leading`` is called when attempts
        begin."""
        self.leader = leader
        self.subscribed = False
        self.turns = 0
        self.longest = 0.0
        self._cluster, self._database, self._now = cluster, database, now
        self._on_leading, self._max_queued = on_leading, max_queued
        self._answers: deque[Message] = deque()
        self._watch_events: deque[WatchEvent] = deque()
        self._wakeup = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._failure: BaseException | None = None
        self._ending = False
        self._relisting = False
        self._attempts_per_turn, self._messages_per_turn = 1, _MAX_MESSAGES
        self._messages_taken_at = 0.0
        """CPU time (s) at which the messages of the turn were taken in."""

    async def run(self) -> str:
        """Runs until the term is over, and returns the reason; "" after ``end``, once everything
        under way has an outcome. A plugin that overruns its deadline where its step cannot be
        undone also ends the term. Raises whatever else the leader raises. If it is cancelled, no
        more requests are made."""
        try:
            self._issue(self.leader.start())
            while not self.leader.stopped:
                if self._ending and self._at_rest:
                    return ""
                await self._turn()
            return self.leader.stopped
        except (
            OverrunError
        ) as overrun:  # the engine cannot be used any more; the next term begins with the log
            return str(overrun)
        finally:
            self._cluster.unsubscribe()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def end(self) -> None:
        """Stops making attempts; ``run`` returns once everything under way has an outcome."""
        self._ending = True
        self._wakeup.set()

    def hand_over(self) -> bool:
        """Call after ``run`` has ended: see ``Leader.hand_over``."""
        return self.leader.hand_over()

    def submit(self, stimulus: Stimulus) -> None:
        """Passes a stimulus that comes neither from the cluster nor from the log."""
        self._answers.append(stimulus)
        self._wakeup.set()

    @property
    def accepts_stimuli(self) -> bool:
        """Whether stimuli are taken up now."""
        return self.leader.leading

    @property
    def waiting(self) -> int:
        """Messages that were not taken in yet."""
        return len(self._answers) + len(self._watch_events)

    @property
    def under_way(self) -> int:
        """Requests without an answer yet."""
        return len(self._tasks)

    @property
    def _at_rest(self) -> bool:
        is_idle = not self._tasks and not self._answers and not self.leader.reconciling
        return is_idle and not self.leader.uncommitted

    # --- turns ----------------------------------------------------------------------------

    async def _turn(self) -> None:
        wake_at = self.leader.wake_at
        if (
            self.leader.reconciling
            or self.waiting
            or (self.leader.can_attempt and not self._ending)
        ):
            await asyncio.sleep(0)  # lets other ready tasks run
        else:
            await self._pause(wake_at)
        if self._failure is not None:
            raise self._failure
        messages = self._next_messages()
        now = self._now()
        if wake_at is not None and wake_at <= now:
            messages.append(Tick())
        was_leading = self.leader.leading
        self._issue(self._step(messages, now))
        if self.leader.leading and not was_leading:
            self._on_leading()
        if not self.subscribed and not self._relisting and self._has_room:
            self._start(self._relist())

    def _step(self, messages: list[Message], now: int) -> list[Request]:
        self.turns += 1
        attempts = 0 if self._ending else self._attempts_per_turn
        began, cpu_began = time.perf_counter(), time.thread_time()
        is_reconciling = self.leader.reconciling
        requests = self.leader.step(
            self._timed(messages),
            now,
            attempts,
            lambda: time.perf_counter() - began > RECONCILING_SECONDS,
        )
        if not is_reconciling and not self.leader.reconciling:
            taken_at = self._messages_taken_at
            self._adapt(len(messages), taken_at - cpu_began, time.thread_time() - taken_at)
        self.longest = max(self.longest, time.perf_counter() - began)
        return requests

    async def _pause(self, wake_at: int | None) -> None:
        """Waits until a message comes or the leader is to be woken."""
        self._wakeup.clear()
        timer = None
        if wake_at is not None:
            left = self._seconds_until(wake_at)
            timer = asyncio.get_running_loop().call_later(left, self._wakeup.set)
        try:
            await self._wakeup.wait()
        finally:
            if timer is not None:
                timer.cancel()

    def _seconds_until(self, time: int) -> float:
        return max(0, time - self._now()) / 1e6

    def _next_messages(self) -> list[Message]:
        """The messages of this turn: answers before events, because they free resources. None
        while lists are taken in: they would have to wait in the leader."""
        messages: list[Message] = []
        if self.leader.reconciling:
            return messages
        for queue in (self._answers, self._watch_events):
            while queue and len(messages) < self._messages_per_turn:
                messages.append(queue.popleft())
        return messages

    def _timed(self, messages: list[Message]) -> Iterator[Message]:
        """The messages; notes when the last one is taken in and attempts begin."""
        yield from messages
        self._messages_taken_at = time.thread_time()

    def _adapt(self, messages: int, message_seconds: float, attempt_seconds: float) -> None:
        """Sets how many messages and attempts the next turn takes, each by its own CPU time, so
        that attempts go on however many messages there are."""
        if messages:
            self._messages_per_turn = _next_count(
                self._messages_per_turn, message_seconds, _MAX_MESSAGES
            )
        self._attempts_per_turn = _next_count(
            self._attempts_per_turn, attempt_seconds, _MAX_ATTEMPTS
        )

    # --- the cluster ----------------------------------------------------------------------

    @property
    def _has_room(self) -> bool:
        """Whether events may be received again."""
        is_running = self.leader.leading and not self._ending
        return is_running and self.leader.uncommitted < self._max_queued // 2

    def _received(self, event: Listed | WatchEvent) -> None:
        """Takes lists and events from the cluster."""
        if isinstance(event, Listed):
            self._watch_events.clear()  # the list covers them
            self.subscribed = True
            self._answers.append(event)
        elif self.subscribed and not self._ending:
            self._watch_events.append(event)
            if len(self._watch_events) + self.leader.uncommitted > self._max_queued:
                logger.warning("the log is too slow: watch events wait in the store")
                self.subscribed = False
                self._watch_events.clear()
        self._wakeup.set()

    async def _relist(self) -> None:
        self._relisting = True
        try:
            if await self._cluster.list_cluster(self._received):
                await asyncio.sleep(_RETRY_AFTER)
        finally:
            self._relisting = False

    # --- requests -------------------------------------------------------------------------

    def _issue(self, requests: list[Request]) -> None:
        for request in requests:
            self._start(self._carry(request))

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (failure := task.exception()) is not None:
            self._failure = failure
        self._wakeup.set()

    async def _carry(self, request: Request) -> None:
        match request:
            case Acquire() | Append() | Renew() | StoreSnapshot():
                answer = await self._database.answer(request)
                if answer is not None:
                    self._answers.append(answer)
            case ListCluster():
                problem = await self._cluster.list_cluster(self._received)
                if problem:
                    logger.warning("the cluster cannot be listed", reason=problem)
                    self._answers.append(Unknown(request))
            case _:
                self._answers.append(await self._cluster.carry_out(request))
        self._wakeup.set()


def _next_count(count: int, seconds: float, most: int) -> int:
    """How many messages or attempts the next turn takes, after ``count`` took ``seconds`` of CPU
    time."""
    if seconds > TURN_CPU_SECONDS / 2:
        return max(1, count // 2)
    return min(most, count + 1 + count // 4) if seconds < TURN_CPU_SECONDS / 4 else count
