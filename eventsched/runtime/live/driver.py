"""A leader's term on an event loop: messages in, requests out, and everything in small turns.

``Leader`` (runtime/leader/leader.py) decides; here is only who waits for what. A turn takes some
messages and makes some attempts, so that watches, answers, lease renewals and probes are never kept
waiting for long; how many it makes follows from how long they take. Nothing that matters is
remembered here: a term that ends is dropped, and the next one begins with the log.
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
    Keep,
    Message,
    Renew,
    Request,
    Tick,
)
from eventsched.runtime.live.ports import Cluster
from eventsched.scheduling.framework.call_guard import OverrunError

TURN = 0.008
"""CPU seconds that a turn should take at most, half of them for messages and half for attempts, so
that neither starves the other. A request to the API server needs four turns."""
_MOST = 256
"""Attempts of one turn at most."""
_MESSAGES = 64
"""Messages of one turn at most: each takes about a tenth of a millisecond."""
_AGAIN = 1.0
"""Seconds between two tries to list a cluster that cannot be listed."""
BACKLOG = 50_000
"""Watch events and records that may wait for a database that is away. Beyond it the events stay
with the cluster's side, which knows of each object only the newest; a list makes up for them."""

logger = structlog.get_logger()


class Database(Protocol):
    """Answers a leader's requests to its database."""

    async def answer(self, request: DatabaseRequest) -> DatabaseAnswer | Unknown | None:
        """Carries a request out once; ``Unknown`` where nobody knows what came of it, None where
        nobody asks."""


class Driver:
    """Drives one leader until its term is over. ``attending`` says whether watch events are taken
    in as they come; ``apart`` that a whole list is being taken in, in a thread, so that the
    leader's state is nobody else's business; ``turns`` how many turns there were, and ``longest``
    (s) the longest of the others."""

    def __init__(
        self,
        leader: Leader,
        cluster: Cluster,
        database: Database,
        now: Callable[[], int],
        *,
        leads: Callable[[], None] = lambda: None,
        backlog: int = BACKLOG,
    ) -> None:
        """``now`` gives µs since 1970 and never goes back; ``leads`` is told when attempts begin to
        be made."""
        self.leader = leader
        self.attending = self.apart = False
        self.turns = 0
        self.longest = 0.0
        self._cluster, self._database, self._now = cluster, database, now
        self._leads, self._most = leads, backlog
        self._answers: deque[Message] = deque()
        self._events: deque[WatchEvent] = deque()
        self._called = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._failure: BaseException | None = None
        self._ending = False
        self._relisting = False
        self._at_once, self._news = 1, _MESSAGES
        self._heard = 0.0

    async def run(self) -> str:
        """Until the term is over, and why; "" after ``end``, when all that was under way has an
        outcome. A plugin that takes too long where nothing can be taken back ends it, too. Raises
        whatever else the leader raises. Cancelled it stops issuing at once."""
        try:
            self._issue(self.leader.start())
            while not self.leader.stopped:
                if self._ending and self._at_rest:
                    return ""
                await self._turn()
            return self.leader.stopped
        except OverrunError as overrun:  # its engine is spoilt: the next term begins with the log
            return str(overrun)
        finally:
            self._cluster.unsubscribe()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def end(self) -> None:
        """No more attempts: what is under way is brought to its end, then ``run`` returns."""
        self._ending = True
        self._called.set()

    def tell(self, stimulus: Stimulus) -> None:
        """Something that happened neither in the cluster nor in the log."""
        self._answers.append(stimulus)
        self._called.set()

    @property
    def leads(self) -> bool:
        """Whether what is told now is heard."""
        return self.leader.leading

    @property
    def waiting(self) -> int:
        """Messages that have come and were not taken in yet."""
        return len(self._answers) + len(self._events)

    @property
    def under_way(self) -> int:
        """Requests that have no answer yet."""
        return len(self._tasks)

    @property
    def _at_rest(self) -> bool:
        return not self._tasks and not self._answers and not self.leader.backlog

    # --- turns ----------------------------------------------------------------------------

    async def _turn(self) -> None:
        wake_at = self.leader.wake_at
        if self.waiting or (self.leader.busy and not self._ending):
            await asyncio.sleep(0)  # whatever is ready on the loop goes first
        else:
            await self._pause(wake_at)
        if self._failure is not None:
            raise self._failure
        messages = self._taken()
        now = self._now()
        if wake_at is not None and wake_at <= now:
            messages.append(Tick())
        led = self.leader.leading
        self._issue(await self._step(messages, now))
        if self.leader.leading and not led:
            self._leads()
        if not self.attending and not self._relisting and self._has_room:
            self._start(self._relist())

    async def _step(self, messages: list[Message], now: int) -> list[Request]:
        self.turns += 1
        attempts = 0 if self._ending else self._at_once
        if any(isinstance(each, Listed) for each in messages):
            # Seconds, where there are many objects: the lease is renewed meanwhile.
            self.apart = True
            requests = await asyncio.to_thread(self.leader.step, messages, now, attempts)
            self.apart = False
            return requests
        began, used = time.perf_counter(), time.thread_time()
        requests = self.leader.step(self._heeded(messages), now, attempts)
        self._timed(len(messages), self._heard - used, time.thread_time() - self._heard)
        self.longest = max(self.longest, time.perf_counter() - began)
        return requests

    async def _pause(self, wake_at: int | None) -> None:
        """Until something comes, or the leader wants to be woken."""
        self._called.clear()
        timer = None
        if wake_at is not None:
            left = max(0, wake_at - self._now()) / 1e6
            timer = asyncio.get_running_loop().call_later(left, self._called.set)
        try:
            await self._called.wait()
        finally:
            if timer is not None:
                timer.cancel()

    def _taken(self) -> list[Message]:
        """The messages of this turn: answers before events, for they free what is held."""
        taken: list[Message] = []
        for queue in (self._answers, self._events):
            while queue and len(taken) < self._news:
                taken.append(queue.popleft())
        return taken

    def _heeded(self, messages: list[Message]) -> Iterator[Message]:
        """The messages; notes when the last one is taken in, and attempts begin."""
        yield from messages
        self._heard = time.thread_time()

    def _timed(self, messages: int, news: float, attempts: float) -> None:
        """The next turn takes in more messages, or fewer, and makes more attempts, or fewer: each
        by the time that it took itself. However much news there is, attempts go on."""
        if messages:
            self._news = _share(self._news, news, _MESSAGES)
        self._at_once = _share(self._at_once, attempts, _MOST)

    # --- the cluster ----------------------------------------------------------------------

    @property
    def _has_room(self) -> bool:
        """Whether a term that goes on could take events in again."""
        goes_on = self.leader.leading and not self._ending
        return goes_on and self.leader.backlog < self._most // 2

    def _told(self, told: Listed | WatchEvent) -> None:
        """What the cluster's side tells."""
        if isinstance(told, Listed):
            self._events.clear()  # they are in the list
            self.attending = True
            self._answers.append(told)
        elif self.attending and not self._ending:
            self._events.append(told)
            if len(self._events) + self.leader.backlog > self._most:
                logger.warning("the log does not follow: watch events wait in the store")
                self.attending = False
                self._events.clear()
        self._called.set()

    async def _relist(self) -> None:
        self._relisting = True
        try:
            if await self._cluster.list_cluster(self._told):
                await asyncio.sleep(_AGAIN)
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
        self._called.set()

    async def _carry(self, request: Request) -> None:
        match request:
            case Acquire() | Append() | Renew() | Keep():
                answer = await self._database.answer(request)
                if answer is not None:
                    self._answers.append(answer)
            case ListCluster():
                why = await self._cluster.list_cluster(self._told)
                if why:
                    logger.warning("the cluster cannot be listed", reason=why)
                    self._answers.append(Unknown(request))
            case _:
                self._answers.append(await self._cluster.carry_out(request))
        self._called.set()


def _share(count: int, took: float, most: int) -> int:
    """How many of a kind the next turn is to do, after so many took that long (CPU seconds)."""
    if took > TURN / 2:
        return max(1, count // 2)
    return min(most, count + 1 + count // 4) if took < TURN / 4 else count
