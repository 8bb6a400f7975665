"""A leader of a stream: the loop of a live scheduler, without its input and output.

``handle`` takes a message (runtime/leader/leader_messages.py, cluster/messages.py) and returns the
requests that follow. Its driver carries them out and passes the time. A term goes through

    Acquire ─▶ fold the log ─▶ ListCluster (and after lost history: touch, and list again)
            ─▶ differences, open promises ─▶ leading: observe, attempt, append, bind ─▶ stopped

At most one batch is under way, and the next one is computed meanwhile. An effect is requested
once the batch with its intent is committed, and each kind has a tracker that follows it to its end
(tracker.py). A deposed leader stops for good and its state is dropped. The next term begins with a
new leader and the log.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from eventsched.cluster.messages import (
    ClusterAnswer,
    ExtenderReply,
    ListCluster,
    Listed,
    Listing,
    Relisted,
    TermAnswer,
    Unknown,
    WatchEvent,
)
from eventsched.domain import records
from eventsched.domain.records import Stimulus, StreamStarted
from eventsched.domain.records.logged import Logged
from eventsched.domain.units import SECOND
from eventsched.eventlog import chain
from eventsched.eventlog.chain import Head, SealedBatch, Term
from eventsched.eventlog.port import StoredSnapshot
from eventsched.runtime.effects.batches import Pending, Writer
from eventsched.runtime.effects.event_outbox import EventOutbox
from eventsched.runtime.effects.tracker import Step
from eventsched.runtime.leader.catch_up import Mark, Standby
from eventsched.runtime.leader.clock_slew import ClockSlew
from eventsched.runtime.leader.effect_trackers import EffectTrackers
from eventsched.runtime.leader.leader_messages import (
    Acquire,
    Acquired,
    Append,
    Committed,
    DatabaseAnswer,
    Deposed,
    Keep,
    Message,
    Renew,
    Renewed,
    Request,
    Tick,
)
from eventsched.runtime.leader.limits import Limits
from eventsched.runtime.leader.retry_queue import RetryQueue
from eventsched.runtime.reconciliation import takeover
from eventsched.runtime.reconciliation.etcd_restore import REASON, EtcdRestoreDetector, unbound
from eventsched.runtime.reconciliation.seen_versions import POD, SeenResources
from eventsched.scheduling.engine import Engine

HEARTBEAT = 2 * SECOND
"""Microseconds without a commit after which a leader asks the log whether it still is the leader.
Otherwise an idle one would never learn that it was replaced."""


class Leader:
    """One term, from its acquisition to its end. ``stopped`` says why it is over ("" until then).
    ``leading`` says whether attempts are made. ``counts`` counts records by kind, requests without
    an answer (``unknown BindPod``), and reports that were given up."""

    def __init__(
        self,
        standby: Standby,
        opening: StreamStarted,
        limits: Limits = Limits(),  # noqa: B008 - immutable
        observer: Callable[[Sequence[Logged]], None] | None = None,
    ) -> None:
        """``standby`` may have followed the stream already. ``opening`` becomes the first record of
        an empty stream. ``observer`` gets each record once it is committed."""
        self.stopped = ""
        self.leading = False
        self.counts: Counter[str] = Counter()
        self._standby = standby
        self._opening = opening
        self._limits = limits
        self._observer = observer
        self._out: list[Request] = []
        self._clock = self._now = self._renew_at = 0
        self._slew = ClockSlew()
        self._database, self._cluster = RetryQueue[Request](), RetryQueue[Any]()
        self._seen = SeenResources()
        self._under_way: tuple[SealedBatch, Pending] | None = None
        self._uncommitted: deque[Logged] = deque()
        self._snapshot: StoredSnapshot | None = None
        self._listing = self._renewing = False
        self._fence: takeover.Fence | None = None

    def start(self) -> list[Request]:
        """The first request."""
        return [Acquire(self._standby.head)]

    def handle(self, message: Message, now: int) -> list[Request]:
        """Takes one message and returns the requests that follow; see ``step``."""
        return self.step([message], now)

    def step(
        self, messages: Iterable[Message], now: int, attempts: int | None = None
    ) -> list[Request]:
        """Takes messages, makes at most ``attempts`` attempts, and returns the requests that
        follow. ``now`` (µs since 1970) must not go back in the life of a leader. Raises ValueError
        if the log does not end where its head says, and KeyError if its records contradict each
        other."""
        self._clock, self._now = now, self._slew.time(now)
        for message in messages:
            if not self.stopped:
                self._receive(message)
        if self.leading:
            self._work(attempts)
        out, self._out = self._out, []
        return [] if self.stopped else out

    @property
    def engine(self) -> Engine:
        """The engine and its state, for reading only."""
        return self._standby.fold.engine

    @property
    def busy(self) -> bool:
        """Whether attempts can be made at once."""
        return self.leading and not self._writer.full and not self.engine.idle

    @property
    def wake_at(self) -> int | None:
        """When (µs) a ``Tick`` is due at the latest; None if none is."""
        times = [self._database.next_at, self._cluster.next_at]
        if self.leading:
            times += [self.engine.due, self.engine.flush_due]
            if self._under_way is None:
                times += [self._writer.due, None if self._renewing else self._renew_at]
        due = [time for time in times if time is not None]
        return None if self.stopped or not due else self._slew.clock(min(due))

    @property
    def settled(self) -> bool:
        """Whether every observation and decision is known to be committed."""
        return self.leading and self.engine.position == self._head.next

    @property
    def backlog(self) -> int:
        """How many records were made and are not known to be committed."""
        return self.engine.position - self._head.next if self.leading else 0

    @property
    def reports(self) -> EventOutbox | None:
        """The outbox of events and conditions; None before the term leads."""
        return self._trackers.reports if self.leading else None

    @property
    def term(self) -> Term:
        """The term; set by ``Acquired``."""
        return self._term

    def _receive(self, message: Message) -> None:
        if isinstance(message, WatchEvent | Stimulus):
            if self.leading:
                self._watched(message)
        elif isinstance(message, Unknown):
            self._unanswered(message.request)
        elif isinstance(message, ClusterAnswer):
            self._cluster.heard()
            self._answered(message)
        elif isinstance(message, Tick):
            self._follow_up()
        else:
            self._database.heard()
            self._stored(message)

    def _stored(self, answer: DatabaseAnswer) -> None:
        match answer:
            case Acquired():
                self._acquired(answer)
            case Committed():
                self._committed()
            case Renewed():
                self._renewing, self._renew_at = False, self._now + HEARTBEAT
            case Deposed(reason=reason):
                self.stopped, self.leading = reason, False

    # --- takeover -------------------------------------------------------------------------

    def _acquired(self, acquired: Acquired) -> None:
        """The term has begun: applies the log, and adopts its time if that is ahead of the
        clock."""
        if acquired.since != self._standby.head:
            self._standby.start_over()
        fold = self._fold = self._standby.fold
        self._standby.follow(acquired.records, acquired.head, acquired.mark)
        self._is_first, self._timeline = not acquired.head.next, acquired.timeline
        self._term, self._head = acquired.term, acquired.head
        limits, state = self._limits, self.engine.state
        self._writer = Writer(
            state, batch_size=limits.records, batch_bytes=limits.size, linger=limits.linger
        )
        self._restore_detector = EtcdRestoreDetector(state, self._seen)
        self._trackers = self._new_trackers()
        self._trackers.follow((), fold.drafts)
        fold.drafts = []
        self._slew = ClockSlew(self._clock, state.now)
        self._now = self._slew.time(self._clock)
        self._renew_at = self._now + HEARTBEAT
        self._list()

    def _new_trackers(self) -> EffectTrackers:
        limits = {"at_once": self._limits.reports, "backlog": self._limits.reports_waiting}
        outbox = EventOutbox(self.engine.state, self._seen.of(POD), self.counts, **limits)
        return EffectTrackers(self._fold, self._seen, outbox)

    @property
    def lossy(self) -> bool:
        """Whether committed records may be missing, and this is not dealt with yet."""
        moved = not self._is_first and self.engine.state.timeline != self._timeline
        return moved or self._standby.rewritten

    def _list(self) -> None:
        self._listing = True
        self._out.append(ListCluster())

    def _listed(self, listed: Listed) -> None:
        self._listing = False
        if self.leading:
            self._take_in(listed.listings)
        elif self.lossy and self._fence is None:
            self._begin_fence(listed)
        else:
            self._begin(listed)

    def _begin_fence(self, listed: Listed) -> None:
        self._fence = takeover.Fence(listed, self._limits.touches)
        self._out += self._fence.more()
        if self._fence.done:
            self._begin(listed)

    def _begin(self, listed: Listed) -> None:
        """Begins to lead: the cluster is known now, and the log's promises are resumed or
        voided."""
        if self._is_first:
            self._observe(msgspec.structs.replace(self._opening, timeline=self._timeline))
        self._observe(takeover.beginning(self.engine.state, self._term, self._opening))
        self._do(self.engine.unrecorded())
        self._take_in(listed.listings)
        if self.lossy:
            self._void_all()
            self._observe(records.HistoryLost(timeline=self._timeline))
            self._standby.rewritten = False
        else:
            self._resume()
        self.leading = True

    def _take_in(self, listings: Sequence[Listing], since: int | None = None) -> None:
        """Finds what has changed by comparing lists with the state. During a term, a list follows a
        gap in a watch."""
        if not self.leading:
            before = unbound(self.engine.state, listings)
        elif self._restore_detector.shows(listings, since):
            self.stopped, self.leading = REASON, False
            return
        else:
            before = takeover.gaps(listings, self._seen, since)
        for stimulus in (*before, *takeover.differences(self.engine.state, listings, self._seen)):
            self._observe(stimulus)
        if self.leading and self._restore_detector.doubts and not self._listing:
            self._list()

    def _resume(self) -> None:
        """After a clean takeover: resumes the effects that the log promises."""
        self._do(self._trackers.resume())

    def _void_all(self) -> None:
        """After lost history: voids all open effects. All pods have been touched by then."""
        self._do(self._trackers.void(takeover.LOST))

    # --- work -----------------------------------------------------------------------------

    def _work(self, attempts: int | None) -> None:
        """Runs timers, makes attempts until the batch is full, sends the batch, the heartbeat and
        reports."""
        timers = (self.engine.due, self.engine.flush_due)
        if any(due is not None and due <= self._now for due in timers):
            self._observe(records.TimePassed())
        while self.busy and attempts != 0:
            self._take(self.engine.schedule_next())
            attempts = None if attempts is None else attempts - 1
        if self._under_way is None and (self._writer.due or 0) <= self._now:
            self._append()
        self._heartbeat()
        self._out += self._trackers.reports.more()

    def _heartbeat(self) -> None:
        idle = self._under_way is None and not self._renewing
        if idle and self._renew_at <= self._now:
            self._renewing = True
            self._out.append(Renew(self._term))

    def _append(self) -> None:
        pending = self._writer.close(self._mark(), whole=False)
        if pending is not None:
            sealed = chain.seal(pending.batch, self._term, self._head, self._clock)
            self._under_way = sealed, pending
            self._out.append(Append(sealed))
            self._standby.weigh(sealed.count, len(sealed.body))
            self._snapshot = self._snapshot_when_due(sealed.head)

    def _mark(self) -> bytes:
        reported = self._trackers.reports.done_before(self._head.next)
        return msgspec.json.encode(Mark(self._seen.upto, reported))

    def _snapshot_when_due(self, head: Head) -> StoredSnapshot | None:
        """A snapshot, if one is due and the batch under way holds all records. It becomes valid
        once that batch is committed."""
        every = self._limits.snapshot_every
        if every is None or len(self._writer):
            return None
        # Making it takes a while, and pods wait meanwhile.
        if self._standby.due(head, every) < (1 if self.engine.idle else 2):
            return None
        snapshot = self._fold.snapshot(head, self._trackers.reports.open)
        self._standby.kept(head.next, len(snapshot.body))
        return snapshot

    def _committed(self) -> None:
        assert self._under_way is not None
        (sealed, pending), self._under_way = self._under_way, None
        self._head, self._renew_at = sealed.head, self._now + HEARTBEAT
        effects = (effect for effect, _ in pending.effects)
        self._do(self._trackers.committed(effects, self._head.next))
        if self._snapshot is not None:
            self._out.append(Keep(self._term, self._snapshot))
            self._snapshot = None
        if self._observer is not None:
            self._observer([self._uncommitted.popleft() for _ in range(sealed.count)])

    # --- the cluster ----------------------------------------------------------------------

    def _watched(self, event: WatchEvent | Stimulus) -> None:
        if isinstance(event, Relisted):
            self._take_in([event.listing], event.since)
        elif news := event if isinstance(event, Stimulus) else self._seen.watched(event):
            self._observe(news)

    def _answered(self, answer: Listed | TermAnswer) -> None:
        if isinstance(answer, Listed):
            self._listed(answer)
        elif self.leading:
            self._do(self._trackers.answered(answer))
        elif self._fence is not None and not isinstance(answer, ExtenderReply):
            self._fence.answered(answer.request)
            self._out += self._fence.more()
            if self._fence.done and not self._listing:
                self._list()

    # --- what was not answered ------------------------------------------------------------

    def _unanswered(self, request: Any) -> None:
        self.counts[f"unknown {type(request).__name__}"] += 1
        match request:
            case Renew():
                self._renewing = False
                self._renew_at = self._now + self._database.patience(self._now)
            case Acquire() | Append():
                self._database.put(request, self._now)
            case _:
                following = self._trackers.unanswered(request) if self.leading else request
                if following is not None:
                    self._cluster.put(following, self._now)

    def _follow_up(self) -> None:
        self._out += self._database.due(self._now)
        for request in self._cluster.due(self._now):
            if not self.leading or self._trackers.awaits(request):
                self._out.append(request)

    # --- steps ----------------------------------------------------------------------------

    def _do(self, steps: Iterable[Step]) -> None:
        for step in steps:
            if isinstance(step, Stimulus):
                self._observe(step)
            else:
                self._out.append(step)

    def _observe(self, stimulus: Stimulus) -> None:
        self._take(self.engine.observe(stimulus, self._now))

    def _take(self, taken: Sequence[Logged]) -> None:
        """Passes the records of a step to the writer, the trackers and the counters."""
        if not taken:
            return
        drafts = self._fold.take(taken)
        self._writer.add(taken)
        self._trackers.follow(taken, drafts)
        self.counts.update(type(logged.record).__name__ for logged in taken)
        if self._observer is not None:
            self._uncommitted += taken
