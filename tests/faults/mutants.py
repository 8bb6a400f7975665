"""Mutants: the protocol with one rule removed. The tests have to catch each of them.

Each mutant is a subclass that overrides the one place where the rule lives; the product has no
switch for any of them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from eventsched.cluster.messages import (
    GetPod,
    Listed,
    Listing,
    NodeSeen,
    ObjectSeen,
    PatchStatus,
    PodRequest,
    PodSeen,
    PodShown,
    WatchEvent,
)
from eventsched.domain.records import Bind, Effect, Evict, Stimulus
from eventsched.domain.records.log_entry import LogEntry
from eventsched.eventlog.chain import SealedBatch, Term
from eventsched.eventlog.port import StoredSnapshot
from eventsched.runtime.effects.batches import BatchBuilder
from eventsched.runtime.effects.bind_tracker import BindTracker, Intent
from eventsched.runtime.effects.event_drafts import Draft, DraftedStatus
from eventsched.runtime.effects.event_outbox import EventOutbox
from eventsched.runtime.effects.tracker import Action
from eventsched.runtime.leader.effect_trackers import EffectTrackers
from eventsched.runtime.leader.followed_stream import FollowedStream, StreamState
from eventsched.runtime.leader.leader import Leader, TakingOver
from eventsched.runtime.leader.leader_messages import (
    Acquired,
    Committed,
    Deposed,
    Message,
    Renewed,
)
from eventsched.runtime.leader.leader_term import LeaderTerm
from eventsched.runtime.reconciliation import takeover
from eventsched.runtime.reconciliation.breaks import WithBreaks
from eventsched.runtime.reconciliation.seen_versions import POD

from . import cluster
from .database import Database


class Mutant(NamedTuple):
    """The classes that replace those of the product."""

    term: type[LeaderTerm] = LeaderTerm
    leader: type[Leader] = Leader
    database: type[Database] = Database
    followed_stream: type[FollowedStream] = FollowedStream

    def make_leader(self, followed_stream: FollowedStream) -> Leader:
        """A leader with these classes."""
        leader = self.leader(followed_stream, cluster.OPENING, cluster.LIMITS)
        leader.leader_term_type = self.term
        return leader

    def make_followed_stream(self) -> FollowedStream:
        """A FollowedStream of the mutant's class."""
        return self.followed_stream(cluster.engine, cluster.STREAM)


class Hasty(LeaderTerm):
    """Effects of one kind are sent together with their batch, not after its commit."""

    kind: type[Effect]

    def _append(self) -> None:
        super()._append()
        effects = [effect for effect, _ in self._under_way[1].effects] if self._under_way else []
        hasty = [effect for effect in effects if isinstance(effect, self.kind)]
        self._do(self.trackers.committed(hasty, 0))


class BindFirst(Hasty):
    """Binds are sent together with their batch, not after its commit."""

    kind = Bind


class EvictFirst(Hasty):
    """Evictions are sent together with their batch, not after its commit."""

    kind = Evict


class ForgetsEvictions(LeaderTerm):
    """A new leader ignores the evictions that its predecessor committed."""

    def _resume(self) -> Iterable[Action]:
        self.trackers._trackers[Evict].resume = tuple  # type: ignore[method-assign]
        return super()._resume()


class AnyWriter(Database):
    """Accepts batches from any writer."""

    def append(self, batch: SealedBatch) -> Committed | Deposed:
        if all(stored.hash != batch.hash for stored in self.batches):
            self.store(batch)
        return Committed()

    def renew(self, term: Term) -> Renewed | Deposed:
        return Renewed()


class KeepsTerms(Database):
    """After a failover, the last term in the remaining log is valid again."""

    def fail_over(self, count: int) -> None:
        super().fail_over(count)
        self.token = self.batches[-1].term.token


class UnfencedBindTracker(BindTracker):
    """Gives up an intent after reading the pod, without touching it."""

    def give_up(self, uid: str, intent: Intent, reason: str) -> PodRequest:
        touch = super().give_up(uid, intent, reason)
        intent.call = GetPod(touch.uid, touch.namespace, touch.name)
        return intent.call

    def _not_bound(self, uid: str, intent: Intent, shown: PodShown) -> PodRequest | Stimulus:
        if intent.give_up_reason:
            return self._void(uid, intent, shown.seen.resource_version)
        return super()._not_bound(uid, intent, shown)


class OtherIntents(LeaderTerm):
    """A term with another tracker of binds."""

    intents: type[BindTracker]

    def _new_trackers(self) -> EffectTrackers:
        trackers = super()._new_trackers()
        intents = self.intents(self._state, self._stream_state.decisions, self._seen.of(POD))
        trackers._trackers[Bind] = intents
        return trackers


class NoFence(OtherIntents):
    """Intents are given up without touching the pod."""

    intents = UnfencedBindTracker


class Redecide(LeaderTerm):
    """A new leader gives up all open intents and decides again."""

    def _resume(self) -> Iterable[Action]:
        for uid in list(self._state.reservations):
            yield takeover.void(self._state, uid, "another leader")


class HastyBindTracker(BindTracker):
    """Retries with a newer resourceVersion without a record."""

    def retry(self, uid: str, intent: Intent, version: int) -> PodRequest | Stimulus:
        intent.resource_version = version
        return self.bind(uid, intent)


class RetryNoLog(OtherIntents):
    """Intents are retried without a record."""

    intents = HastyBindTracker


class NoQuarantine(LeaderTerm):
    """Touches no pods after history was lost."""

    def pod_toucher(self, listed: Listed) -> takeover.PodToucher:
        return super().pod_toucher(Listed([]))


class RedoAfterLoss(LeaderTerm):
    """Executes the open intents of a log that may have lost their outcomes."""

    def _void_all(self) -> Iterable[Action]:
        intents = self.trackers._trackers[Bind]
        assert isinstance(intents, BindTracker)
        for uid, reservation in self._state.reservations.items():
            intent = intents._add(uid, reservation.node, reservation.attempt, 0)
            yield intents.retry(uid, intent, self._seen.of(POD).version(uid))


class NoHeartbeat(LeaderTerm):
    """Never checks whether it is still the leader."""

    def _heartbeat(self) -> None:
        self._renew_at = self._clock.now + 10**15


class NoBarrier(Leader):
    """Starts with the objects in the log, without waiting for the list."""

    def _take_over(self, acquired: Acquired) -> None:
        super()._take_over(acquired)
        assert isinstance(self._phase, TakingOver)
        if not self.history_lost:
            state = self.engine.state
            objects: Iterable[Any] = state.registry.everything()
            known: dict[str, list[Any]] = {
                "Node": [NodeSeen(node, 0) for node in state.nodes.nodes if node is not None],
                "Pod": [PodSeen(pod_state.pod, 0) for pod_state in state.pods.values()],
                "Namespace": [ObjectSeen(obj, 0) for obj in objects],
            }
            listed = Listed([Listing(name, 0, seen) for name, seen in known.items()])
            self._take_in(self._lead(self._phase.leader_term, listed))


class HearsAmongLists(Leader):
    """Takes events of watches while lists are taken in."""

    def _hear(self, message: Message) -> None:
        if isinstance(message, WatchEvent):
            self._receive(message)
        else:
            super()._hear(message)


class HalfStepBuilder(BatchBuilder):
    """Closes a batch in the middle of a step."""

    def _filling(self) -> int:
        return min(len(self._open), self._batch_size)


class HalfSteps(LeaderTerm):
    """Batches may end in the middle of a step."""

    def _new_batch_builder(self) -> BatchBuilder:
        return HalfStepBuilder(self._state, batch_size=self._limits.records)


class IgnoresGaps(LeaderTerm):
    """Assumes that the watches continue without a gap."""

    def relisted(self, listings: Sequence[Listing], since: int | None) -> WithBreaks[bool]:
        return False
        yield


class TrustingStream(FollowedStream):
    """Starts over if the log lacks what it has read, and does not report that history was lost."""

    def start_over(self, *, is_lost: bool = True) -> None:
        super().start_over(is_lost=is_lost)
        self.history_lost = False


class NamelessStream(FollowedStream):
    """Forgets the decision ids of a snapshot's intents."""

    def load_snapshot(self, snapshot: StoredSnapshot) -> StreamState | None:
        stream_state = super().load_snapshot(snapshot)
        if stream_state is not None:
            names = stream_state.decisions.intents
            names.update(dict.fromkeys(names, "no name"))
        return stream_state


class OtherReports(LeaderTerm):
    """A term with another outbox."""

    outbox: type[EventOutbox]

    def _new_outbox(self) -> EventOutbox:
        return self.outbox(self._state, self._seen.of(POD), self._counts)


class OneTimeReports(EventOutbox):
    """Claims that everything is reported while requests are in flight."""

    def done_before(self, end: int) -> int:
        return end


class ForgetsReports(OtherReports):
    """Leaves no reports to the next leader."""

    outbox = OneTimeReports


class HastyReports(EventOutbox):
    """Does not wait for the commit of decisions."""

    def on_records(self, logged: Iterable[LogEntry], drafts: Iterable[Draft]) -> None:
        super().on_records(logged, drafts)
        self.committed(10**9)


class ReportFirst(OtherReports):
    """Reports decisions that are not committed."""

    outbox = HastyReports


class LateReports(EventOutbox):
    """Writes a status even if the pod has changed since."""

    def _request(self, status: DraftedStatus) -> PatchStatus | None:
        request = super()._request(status)
        return replace(request, resource_version=0) if request is not None else None


class ReportsLate(OtherReports):
    """Reports outdated states of pods."""

    outbox = LateReports


MUTANTS = {
    "bindfirst": Mutant(BindFirst),
    "evictfirst": Mutant(EvictFirst),
    "forgetsevictions": Mutant(ForgetsEvictions),
    "noepoch": Mutant(database=AnyWriter),
    "nofence": Mutant(NoFence),
    "redecide": Mutant(Redecide),
    "retrynolog": Mutant(RetryNoLog),
    "noquarantine": Mutant(NoQuarantine),
    "redoafterloss": Mutant(RedoAfterLoss),
    "noheartbeat": Mutant(NoHeartbeat),
    "nobarrier": Mutant(leader=NoBarrier),
    "keepsterms": Mutant(database=KeepsTerms),
    "amonglists": Mutant(leader=HearsAmongLists),
    "halfsteps": Mutant(HalfSteps),
    "ignoresgaps": Mutant(IgnoresGaps),
    "trusting": Mutant(followed_stream=TrustingStream),
    "nameless": Mutant(followed_stream=NamelessStream),
    "forgetsreports": Mutant(ForgetsReports),
    "reportfirst": Mutant(ReportFirst),
    "reportslate": Mutant(ReportsLate),
}
NONE = Mutant()
