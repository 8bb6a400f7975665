"""A leader of a stream: the loop of a live scheduler, without its input and output.

``handle`` takes a message (runtime/leader/leader_messages.py, cluster/messages.py) and returns the
requests that follow. Its driver carries them out and passes the time. A leader goes through phases:

    Acquiring ─▶ TakingOver: the log is applied, the cluster listed (after lost history: pods are
                 touched, and the cluster is listed again), the lists are taken in
              ─▶ Leading: observe, attempt, append, bind
              ─▶ Stopped

Lists of a large cluster take seconds, so they are taken in over many steps. Everything else waits
until they are: other messages, attempts, and batches.

leader_term.py has what a leader does between ``Acquired`` and its end. A deposed leader stops for
good and its state is dropped. The next term begins with a new leader and the log.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from eventsched.cluster.messages import (
    ClusterAnswer,
    ExtenderReply,
    Listed,
    Relisted,
    TermAnswer,
    Unknown,
    WatchEvent,
)
from eventsched.domain.records import Stimulus, StreamStarted
from eventsched.domain.records.log_entry import LogEntry
from eventsched.domain.records.stimuli import shadows
from eventsched.eventlog.chain import Term
from eventsched.runtime.effects.event_outbox import EventOutbox
from eventsched.runtime.leader.clock_slew import LeaderClock
from eventsched.runtime.leader.followed_stream import FollowedStream
from eventsched.runtime.leader.leader_messages import (
    Acquire,
    Acquired,
    Append,
    Committed,
    DatabaseAnswer,
    Deposed,
    Message,
    Renew,
    Renewed,
    Request,
    StoreSnapshot,
    Tick,
)
from eventsched.runtime.leader.leader_term import LeaderTerm
from eventsched.runtime.leader.limits import Limits
from eventsched.runtime.leader.retry_queue import RetryQueue
from eventsched.runtime.leader.shadow_term import ShadowTerm, require_same_mode
from eventsched.runtime.reconciliation import etcd_restore, takeover
from eventsched.scheduling.engine import Engine


@dataclass(frozen=True, slots=True)
class Acquiring:
    """The database has been asked for a term."""


@dataclass(frozen=True, slots=True)
class TakingOver:
    """The term has begun and the log is applied; the lists of the cluster are still to come, or
    are being taken in. ``toucher`` touches pods after lost history; None before the first list,
    and otherwise."""

    leader_term: LeaderTerm
    toucher: takeover.PodToucher | None = None


@dataclass(frozen=True, slots=True)
class Leading:
    """Attempts are made."""

    leader_term: LeaderTerm


@dataclass(frozen=True, slots=True)
class Stopped:
    """The term is over. ``reason`` is for people."""

    reason: str


def _never() -> bool:
    return False


class Leader:
    """One term, from its acquisition to its end. ``counts`` counts records by kind, requests
    without an answer (``unknown BindPod``), and reports that were given up."""

    leader_term_type: type[LeaderTerm] = LeaderTerm

    def __init__(
        self,
        followed_stream: FollowedStream,
        opening: StreamStarted,
        limits: Limits = Limits(),  # noqa: B008 - immutable
        on_committed: Callable[[Sequence[LogEntry]], None] | None = None,
    ) -> None:
        """``followed_stream`` may have followed the stream already. ``opening`` becomes the first
        record of an empty stream. ``on_committed`` gets each record once it is committed."""
        self.counts: Counter[str] = Counter()
        self._followed_stream, self._opening, self._limits = followed_stream, opening, limits
        self._on_committed = on_committed
        self._phase: Acquiring | TakingOver | Leading | Stopped = Acquiring()
        self._intake: Iterator[None] | None = None
        """Takes in lists; yields where a step may end."""
        self._held: deque[Message] = deque()
        """Messages that wait until the lists are taken in."""
        self._is_time_up: Callable[[], bool] = _never
        self._clock = LeaderClock()
        self._requests: list[Request] = []
        self._database, self._cluster = RetryQueue[Request](), RetryQueue[Any]()

    def start(self) -> list[Request]:
        """The first request."""
        return [Acquire(self._followed_stream.head)]

    def handle(self, message: Message, now: int) -> list[Request]:
        """Takes one message and returns the requests that follow; see ``step``."""
        return self.step([message], now)

    def step(
        self,
        messages: Iterable[Message],
        now: int,
        attempts: int | None = None,
        is_time_up: Callable[[], bool] | None = None,
    ) -> list[Request]:
        """Takes messages, makes at most ``attempts`` attempts, and returns the requests that
        follow. ``now`` (µs since 1970) must not go back in the life of a leader. If ``is_time_up``
        returns True while lists are taken in, the step ends and another one goes on
        (``reconciling``); None lets it take in whole lists. Raises ValueError if the log does not
        end where its head says, KeyError if its records contradict each other, and InputError if
        the stream is a shadow's and this is none, or the other way round."""
        self._clock.advance(now)
        self._is_time_up = is_time_up or _never
        self._take_in()
        held, self._held = self._held, deque()
        for message in chain(held, messages):
            self._hear(message)
        if isinstance(self._phase, Leading) and not self.reconciling:
            self._phase.leader_term.work(attempts)
        requests = self._requests.copy()
        self._requests.clear()
        return [] if self.stopped else requests

    # --- status ---------------------------------------------------------------------------

    @property
    def stopped(self) -> str:
        """Why the term is over; "" until then."""
        return self._phase.reason if isinstance(self._phase, Stopped) else ""

    @property
    def leading(self) -> bool:
        """Whether attempts are made."""
        return isinstance(self._phase, Leading)

    @property
    def engine(self) -> Engine:
        """The engine and its state, for reading only."""
        return self._followed_stream.stream_state.engine

    @property
    def reconciling(self) -> bool:
        """Whether lists are being taken in. Messages wait meanwhile, so a driver should keep them
        and only call ``step``."""
        return self._intake is not None

    @property
    def can_attempt(self) -> bool:
        """Whether attempts can be made at once."""
        if not isinstance(self._phase, Leading) or self.reconciling:
            return False
        return self._phase.leader_term.can_attempt

    @property
    def wake_at(self) -> int | None:
        """When (µs) a ``Tick`` is due at the latest; None if none is."""
        if self.stopped:
            return None
        if self.reconciling:
            return self._clock.clock_at(self._clock.now)
        times = [self._database.next_at, self._cluster.next_at]
        if isinstance(self._phase, Leading):
            times += self._phase.leader_term.due_times
        due = [time for time in times if time is not None]
        return self._clock.clock_at(min(due)) if due else None

    @property
    def all_committed(self) -> bool:
        """Whether every observation and decision is known to be committed."""
        is_free = isinstance(self._phase, Leading) and not self.reconciling
        return is_free and not self.uncommitted

    @property
    def uncommitted(self) -> int:
        """How many records were made and are not known to be committed."""
        return self._phase.leader_term.uncommitted if isinstance(self._phase, Leading) else 0

    @property
    def outbox(self) -> EventOutbox | None:
        """The outbox of Events and conditions; None unless the term leads."""
        return self._phase.leader_term.trackers.outbox if isinstance(self._phase, Leading) else None

    @property
    def history_lost(self) -> bool:
        """Whether committed records may be missing, and this is not dealt with yet."""
        return (
            isinstance(self._phase, TakingOver | Leading) and self._phase.leader_term.history_lost
        )

    @property
    def term(self) -> Term:
        """The term. Raises RuntimeError unless one has begun and goes on."""
        if not isinstance(self._phase, TakingOver | Leading):
            raise RuntimeError("there is no term")
        return self._phase.leader_term.term

    def hand_over(self) -> bool:
        """Leaves its ``FollowedStream`` for another term of this process, at the end of the log.
        The leader must not be used afterwards. False if the log has to be read again, because the
        term has not led or some records are not known to be committed."""
        return isinstance(self._phase, Leading) and self._phase.leader_term.hand_over()

    # --- messages -------------------------------------------------------------------------

    def _hear(self, message: Message) -> None:
        """Takes a message, or lets it wait until the lists are taken in."""
        if self.reconciling:
            if not isinstance(message, Tick):
                self._held.append(message)
        elif not self.stopped:
            self._receive(message)

    def _receive(self, message: Message) -> None:
        if isinstance(message, WatchEvent | Stimulus):
            if isinstance(self._phase, Leading):
                self._watched(self._phase.leader_term, message)
        elif isinstance(message, Unknown):
            self._unanswered(message.request)
        elif isinstance(message, ClusterAnswer):
            self._cluster.heard()
            self._answered(message)
        elif isinstance(message, Tick):
            self._retry()
        else:
            self._database.heard()
            self._database_answered(message)

    def _database_answered(self, answer: DatabaseAnswer) -> None:
        match self._phase, answer:
            case _, Deposed(reason=reason):
                self._phase = Stopped(reason)
            case Acquiring(), Acquired() as acquired:
                self._take_over(acquired)
            case Leading(leader_term), Committed():
                leader_term.committed()
            case Leading(leader_term), Renewed():
                leader_term.renewed()

    def _take_over(self, acquired: Acquired) -> None:
        """The term has begun: applies the log, and lists the cluster."""
        if acquired.since != self._followed_stream.head:
            self._followed_stream.start_over()
        self._followed_stream.follow(acquired.records, acquired.head, acquired.mark)
        self._clock.adopt(self.engine.state.now)
        require_same_mode(self._followed_stream.stream, self.engine.state, self._opening)
        leader_term_type = ShadowTerm if shadows(self._opening) else self.leader_term_type
        leader_term = leader_term_type(
            self._followed_stream,
            acquired,
            self._opening,
            self._limits,
            self._clock,
            self._requests,
            self.counts,
            self._on_committed,
        )
        self._phase = TakingOver(leader_term)
        leader_term.list_cluster()

    def _listed(self, listed: Listed) -> None:
        match self._phase:
            case Leading(leader_term):
                leader_term.is_listing = False
                self._take_in(self._on_lists(leader_term, listed))
            case TakingOver(leader_term, toucher=None) if leader_term.history_lost:
                leader_term.is_listing = False
                toucher = leader_term.pod_toucher(listed)
                self._phase = TakingOver(leader_term, toucher)
                self._requests += toucher.next_requests()
                if toucher.done:
                    self._take_in(self._lead(leader_term, listed))
            case TakingOver(leader_term):
                leader_term.is_listing = False
                self._take_in(self._lead(leader_term, listed))

    def _take_in(self, intake: Iterator[None] | None = None) -> None:
        """Takes in the lists of ``intake``, or those under way, until the time is up."""
        self._intake = self._intake or intake
        for _ in self._intake or ():
            if self._is_time_up():
                return
        self._intake = None

    def _lead(self, leader_term: LeaderTerm, listed: Listed) -> Iterator[None]:
        yield from leader_term.begin(listed.listings)
        self._phase = Leading(leader_term)

    def _on_lists(self, leader_term: LeaderTerm, listed: Listed | Relisted) -> Iterator[None]:
        """Takes in lists during the term; stops if they show an earlier state of the cluster."""
        listings, since = (
            (listed.listings, None)
            if isinstance(listed, Listed)
            else ([listed.listing], listed.since)
        )
        if (yield from leader_term.relisted(listings, since)):
            self._phase = Stopped(etcd_restore.REASON)

    def _watched(self, leader_term: LeaderTerm, event: WatchEvent | Stimulus) -> None:
        if isinstance(event, Relisted):
            self._take_in(self._on_lists(leader_term, event))
        else:
            leader_term.watched(event)

    def _answered(self, answer: Listed | TermAnswer) -> None:
        if isinstance(answer, Listed):
            self._listed(answer)
            return
        match self._phase:
            case Leading(leader_term):
                leader_term.answered(answer)
            case TakingOver(leader_term, takeover.PodToucher() as toucher) if not isinstance(
                answer, ExtenderReply
            ):
                toucher.answered(answer.request)
                self._requests += toucher.next_requests()
                if toucher.done and not leader_term.is_listing:
                    leader_term.list_cluster()

    # --- requests without an answer -------------------------------------------------------

    def _unanswered(self, request: Any) -> None:
        self.counts[f"unknown {type(request).__name__}"] += 1
        leader_term = self._phase.leader_term if isinstance(self._phase, Leading) else None
        match request:
            case Renew():
                if leader_term is not None:
                    leader_term.renew_after(self._database.delay(self._clock.now))
            case Acquire() | Append():
                self._database.put(request, self._clock.now)
            case StoreSnapshot():
                pass  # losing it does no harm, and to send it again would hold up appends
            case _:
                follow_up = (
                    request if leader_term is None else leader_term.trackers.unanswered(request)
                )
                if follow_up is not None:
                    self._cluster.put(follow_up, self._clock.now)

    def _retry(self) -> None:
        """Makes the requests again that are due."""
        now = self._clock.now
        leader_term = self._phase.leader_term if isinstance(self._phase, Leading) else None
        self._requests += self._database.due(now)
        for request in self._cluster.due(now):
            if leader_term is None or leader_term.trackers.awaits(request):
                self._requests.append(request)
