"""The work of one term: records into batches, batches into the log, effects to the cluster.

At most one batch is under way, and the next one is computed meanwhile. An effect is requested once
the batch with its intent is committed, and each kind has a tracker that follows it to its end
(runtime/effects/tracker.py).
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from eventsched.cluster.messages import Gone, ListCluster, Listed, Listing, Seen, TermAnswer
from eventsched.domain import records
from eventsched.domain.records import Stimulus, StreamStarted
from eventsched.domain.records.log_entry import LogEntry
from eventsched.domain.units import SECOND
from eventsched.eventlog import chain
from eventsched.eventlog.chain import Head, SealedBatch
from eventsched.eventlog.port import continues
from eventsched.runtime.effects.batches import BatchBuilder, BatchWithEffects
from eventsched.runtime.effects.event_outbox import EventOutbox
from eventsched.runtime.effects.tracker import Action
from eventsched.runtime.leader.clock_slew import LeaderClock
from eventsched.runtime.leader.effect_trackers import EffectTrackers
from eventsched.runtime.leader.followed_stream import BatchMark, FollowedStream
from eventsched.runtime.leader.leader_messages import (
    Acquired,
    Append,
    Renew,
    Request,
    StoreSnapshot,
)
from eventsched.runtime.leader.limits import Limits
from eventsched.runtime.leader.snapshot_encoder import SnapshotEncoder
from eventsched.runtime.reconciliation import takeover
from eventsched.runtime.reconciliation.breaks import WithBreaks, gathered
from eventsched.runtime.reconciliation.divergences import divergences
from eventsched.runtime.reconciliation.etcd_restore import EtcdRestoreDetector, reverted
from eventsched.runtime.reconciliation.seen_versions import POD, SeenResources

HEARTBEAT = 2 * SECOND
"""Microseconds without a commit after which a leader asks the log whether it still is the leader.
Otherwise an idle one would never learn that it was replaced."""


class LeaderTerm:
    """A term that has begun. Its requests are appended to the leader's list. ``is_listing`` says
    whether a ``ListCluster`` is under way."""

    def __init__(
        self,
        followed_stream: FollowedStream,
        acquired: Acquired,
        opening: StreamStarted,
        limits: Limits,
        clock: LeaderClock,
        requests: list[Request],
        counts: Counter[str],
        on_committed: Callable[[Sequence[LogEntry]], None] | None,
    ) -> None:
        """``followed_stream`` has followed the log up to ``acquired.head``. The other arguments are
        the leader's."""
        self.term = acquired.term
        self.is_listing = False
        self._followed_stream, self._stream_state, self._engine = (
            followed_stream,
            followed_stream.stream_state,
            followed_stream.stream_state.engine,
        )
        self._state = self._engine.state
        self._head, self._is_first = acquired.head, not acquired.head.next
        self._timeline, self._opening = acquired.timeline, opening
        self._limits, self._clock = limits, clock
        self._requests, self._counts, self._on_committed = requests, counts, on_committed
        self._seen = SeenResources()
        self._restore_detector = EtcdRestoreDetector(self._state, self._seen)
        self._batch_builder = self._new_batch_builder()
        self._under_way: tuple[SealedBatch, BatchWithEffects] | None = None
        self._uncommitted_records: deque[LogEntry] = deque()
        self._snapshot: SnapshotEncoder | None = None
        """The snapshot that is being made, or whose last records are not known to be committed."""
        self._renew_at: int | None = clock.now + HEARTBEAT
        """When the next ``Renew`` is due; None while one is under way."""
        self.trackers = self._new_trackers()
        self.trackers.on_records((), self._stream_state.drafts)
        self._stream_state.drafts = []

    def _new_batch_builder(self) -> BatchBuilder:
        return BatchBuilder(
            self._state,
            batch_size=self._limits.records,
            batch_bytes=self._limits.size,
            linger=self._limits.linger,
        )

    def _new_trackers(self) -> EffectTrackers:
        return EffectTrackers(self._stream_state, self._seen, self._new_outbox())

    def _new_outbox(self) -> EventOutbox:
        return EventOutbox(
            self._state,
            self._seen.of(POD),
            self._counts,
            at_once=self._limits.reports,
            max_waiting=self._limits.reports_waiting,
        )

    # --- status ---------------------------------------------------------------------------

    @property
    def can_attempt(self) -> bool:
        """Whether attempts can be made at once."""
        return not self._batch_builder.full and not self._engine.idle

    @property
    def uncommitted(self) -> int:
        """How many records were made and are not known to be committed."""
        return self._engine.position - self._head.next

    @property
    def due_times(self) -> list[int | None]:
        """When (µs) timers of the engine, the open batch and the heartbeat are due."""
        times = [self._engine.due, self._engine.flush_due]
        if self._snapshot is not None and self._snapshot.complete is None:
            times.append(self._clock.now)
        if self._under_way is None:
            times += [self._batch_builder.due, self._renew_at]
        return times

    @property
    def history_lost(self) -> bool:
        """Whether committed records may be missing, and this is not dealt with yet."""
        if self._followed_stream.history_lost:
            return True
        return not self._is_first and not continues(self._timeline, self._state.timeline)

    def hand_over(self) -> bool:
        """Leaves what was followed as it is in the log, for another term. False if that is not
        possible, because some records are not known to be committed."""
        if self.uncommitted:
            return False
        self._stream_state.head, self._stream_state.drafts = self._head, self.trackers.outbox.open
        return True

    # --- takeover -------------------------------------------------------------------------

    def list_cluster(self) -> None:
        """Requests lists of the whole cluster."""
        self.is_listing = True
        self._requests.append(ListCluster())

    def pod_toucher(self, listed: Listed) -> takeover.PodToucher:
        """The touches that are due after lost history, before the term may lead."""
        return takeover.PodToucher(listed, self._limits.touches)

    def begin(self, listings: Sequence[Listing]) -> WithBreaks[None]:
        """Begins to lead: the cluster is known now, and the log's promises are resumed or voided.
        Nothing else may be done with the term in the breaks, and nothing is committed before the
        end: if the process dies, the next term computes the differences again."""
        if self._is_first:
            self.observe(msgspec.structs.replace(self._opening, timeline=self._timeline))
        self.observe(takeover.term_record(self._state, self.term, self._opening, self._timeline))
        self._do(self._engine.unrecorded())
        before = yield from gathered(reverted(self._state, listings))
        yield from self._compare(before, listings)
        if self.history_lost:
            yield from self._do_with_breaks(self._void_all())
            self.observe(records.HistoryLost(timeline=self._timeline))
            self._followed_stream.history_lost = False
        else:
            yield from self._do_with_breaks(self._resume())

    def _resume(self) -> Iterable[Action]:
        """After a clean takeover: resumes the effects that the log promises."""
        return self.trackers.resume()

    def _void_all(self) -> Iterable[Action]:
        """After lost history: voids all open effects. All pods have been touched by then."""
        return self.trackers.void(takeover.LOST)

    # --- work -----------------------------------------------------------------------------

    def work(self, attempts: int | None) -> None:
        """Runs timers, makes attempts until the batch is full, sends the batch, the heartbeat and
        reports. Makes at most ``attempts`` attempts (None: no limit)."""
        now = self._clock.now
        timers = (self._engine.due, self._engine.flush_due)
        if any(due is not None and due <= now for due in timers):
            self.observe(records.TimePassed())
        while self.can_attempt and attempts != 0:
            self._distribute(self._engine.schedule_next())
            attempts = None if attempts is None else attempts - 1
        if self._under_way is None and self._batch_builder.is_due(now):
            self._append()
        self._heartbeat()
        self._advance_snapshot()
        self._requests += self.trackers.outbox.next_requests()

    def _heartbeat(self) -> None:
        is_due = self._renew_at is not None and self._renew_at <= self._clock.now
        if self._under_way is None and is_due:
            self._renew_at = None
            self._requests.append(Renew(self.term))

    def _append(self) -> None:
        closed = self._batch_builder.close(self._batch_mark(), whole=False)
        if closed is not None:
            sealed = chain.seal(closed.batch, self.term, self._head, self._clock.clock)
            self._under_way = sealed, closed
            self._requests.append(Append(sealed))
            self._followed_stream.count_records(sealed.count, len(sealed.body))
            self._begin_snapshot_when_due(sealed.head)

    def _batch_mark(self) -> bytes:
        reported = self.trackers.outbox.done_before(self._head.next)
        return msgspec.json.encode(BatchMark(self._seen.upto, reported))

    # --- snapshots ------------------------------------------------------------------------

    def _begin_snapshot_when_due(self, head: Head) -> None:
        """Begins a snapshot, if one is due and the batch under way holds all records."""
        every = self._limits.snapshot_every
        if every is None or len(self._batch_builder) or self._snapshot is not None:
            return
        # It takes processor time that pods could use.
        if self._followed_stream.due(head, every) >= (1 if self._engine.idle else 2):
            self._snapshot = self._stream_state.snapshot(head, self.trackers.outbox.open)
            self._followed_stream.snapshot_begun(head.next)

    def _advance_snapshot(self) -> None:
        """Continues the snapshot that is being made. Stores it when it is complete and all its
        records are committed."""
        if self._snapshot is None:
            return
        complete = self._snapshot.advance()
        if complete is not None and complete.position <= self._head.next:
            self._requests.append(StoreSnapshot(self.term, complete))
            self._followed_stream.snapshot_size = len(complete.body)
            self._snapshot = None

    # --- answers of the database ----------------------------------------------------------

    def committed(self) -> None:
        """The batch under way is durable: its effects are requested."""
        assert self._under_way is not None
        (sealed, closed), self._under_way = self._under_way, None
        self._head = sealed.head
        if self._renew_at is not None:
            self._renew_at = self._clock.now + HEARTBEAT
        effects = (effect for effect, _ in closed.effects)
        self._do(self.trackers.committed(effects, self._head.next))
        if self._on_committed is not None:
            self._on_committed([self._uncommitted_records.popleft() for _ in range(sealed.count)])

    def renewed(self) -> None:
        """The term is still the newest."""
        self.renew_after(HEARTBEAT)

    def renew_after(self, delay: int) -> None:
        """The ``Renew`` under way is over; the next one is due after ``delay`` (µs)."""
        self._renew_at = self._clock.now + delay

    # --- the cluster ----------------------------------------------------------------------

    def relisted(self, listings: Sequence[Listing], since: int | None) -> WithBreaks[bool]:
        """Takes in lists that follow a gap in the watches. True if they show that the cluster's
        storage was restored to an earlier state; nothing is taken in then. ``since`` is the end
        of what the watch had reported before the gap, if the gap is the watch's own. Nothing else
        may be done with the term in the breaks."""
        if (yield from self._restore_detector.shows(listings, since)):
            return True
        yield from self._compare(takeover.gaps(listings, self._seen, since), listings)
        if self._restore_detector.doubts and not self.is_listing:
            self.list_cluster()
        return False

    def _compare(self, before: Iterable[Stimulus], listings: Sequence[Listing]) -> WithBreaks[None]:
        """Observes ``before``, and then what the lists show that the state does not."""
        self._counts.update((yield from gathered(divergences(self._state, listings))))
        differences = takeover.differences(self._state, listings, self._seen)
        found = yield from gathered(differences)
        yield from self._do_with_breaks((*before, *found))

    def watched(self, event: Seen | Gone | Stimulus) -> None:
        """Takes in an event of a watch, unless it is old, or another stimulus."""
        stimulus = event if isinstance(event, Stimulus) else self._seen.note_event(event)
        if stimulus:
            self.observe(stimulus)

    def answered(self, answer: TermAnswer) -> None:
        """The cluster has answered a request."""
        self._do(self.trackers.answered(answer))

    # --- steps ----------------------------------------------------------------------------

    def _do(self, actions: Iterable[Action]) -> None:
        for action in actions:
            if isinstance(action, Stimulus):
                self.observe(action)
            else:
                self._requests.append(action)

    def _do_with_breaks(self, actions: Iterable[Action]) -> Iterator[None]:
        for action in actions:
            self._do((action,))
            yield

    def observe(self, stimulus: Stimulus) -> None:
        """Passes a stimulus to the engine, and distributes the records that follow."""
        self._distribute(self._engine.observe(stimulus, self._clock.now))

    def _distribute(self, taken: Sequence[LogEntry]) -> None:
        """Passes the records of a step to the batch, the trackers and the counters."""
        if not taken:
            return
        drafts = self._stream_state.on_records(taken)
        self._batch_builder.add(taken)
        self.trackers.on_records(taken, drafts)
        self._counts.update(type(logged.record).__name__ for logged in taken)
        if self._on_committed is not None:
            self._uncommitted_records += taken
