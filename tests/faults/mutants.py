"""The protocol with one rule removed: defects that the simulation has to catch.

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
    PodRequest,
    PodSeen,
    PodShown,
    ReportPod,
)
from eventsched.domain.records import Bind, Effect, Evict, Stimulus
from eventsched.domain.records.logged import Logged
from eventsched.eventlog.chain import SealedBatch, Term
from eventsched.eventlog.port import StoredSnapshot
from eventsched.runtime.effects.batches import BatchBuilder
from eventsched.runtime.effects.event_drafts import Draft, DraftedStatus
from eventsched.runtime.effects.event_outbox import EventOutbox
from eventsched.runtime.effects.intents import Intent, Intents
from eventsched.runtime.leader.catch_up import FollowedStream
from eventsched.runtime.leader.effect_trackers import EffectTrackers
from eventsched.runtime.leader.leader import Leader, TakingOver
from eventsched.runtime.leader.leader_messages import Acquired, Committed, Deposed, Renewed
from eventsched.runtime.leader.leader_term import LeaderTerm
from eventsched.runtime.reconciliation import takeover
from eventsched.runtime.reconciliation.seen_versions import POD

from . import cluster
from .database import Database


class Mutant(NamedTuple):
    """What takes the product's place."""

    term: type[LeaderTerm] = LeaderTerm
    leader: type[Leader] = Leader
    database: type[Database] = Database
    followed_stream: type[FollowedStream] = FollowedStream

    def make_leader(self, followed_stream: FollowedStream) -> Leader:
        """Makes its leaders."""
        leader = self.leader(followed_stream, cluster.OPENING, cluster.LIMITS)
        leader.leader_term_type = self.term
        return leader

    def make_followed_stream(self) -> FollowedStream:
        """Makes those who follow the log."""
        return self.followed_stream(cluster.engine, cluster.STREAM)


class Hasty(LeaderTerm):
    """Some effects leave with their batch, not after it."""

    kind: type[Effect]

    def _append(self) -> None:
        super()._append()
        effects = [effect for effect, _ in self._under_way[1].effects] if self._under_way else []
        hasty = [effect for effect in effects if isinstance(effect, self.kind)]
        self._do(self.trackers.committed(hasty, 0))


class BindFirst(Hasty):
    """Binds leave with their batch, not after it."""

    kind = Bind


class EvictFirst(Hasty):
    """Evictions leave with their batch, not after it."""

    kind = Evict


class ForgetsEvictions(LeaderTerm):
    """A new leader leaves the evictions that its predecessor promised alone."""

    def _resume(self) -> None:
        self.trackers._trackers[Evict].resume = tuple  # type: ignore[method-assign]
        super()._resume()


class AnyWriter(Database):
    """Accepts batches from any writer."""

    def append(self, batch: SealedBatch) -> Committed | Deposed:
        if all(each.hash != batch.hash for each in self.batches):
            self.store(batch)
        return Committed()

    def renew(self, term: Term) -> Renewed | Deposed:
        return Renewed()


class KeepsTerms(Database):
    """After a failover the term that the replica knows is valid again."""

    def fail_over(self, count: int) -> None:
        super().fail_over(count)
        self.token = self.batches[-1].term.token


class UnfencedIntents(Intents):
    """Gives an intent up after a look at the pod; it is not touched."""

    def give_up(self, uid: str, intent: Intent, reason: str) -> PodRequest:
        touch = super().give_up(uid, intent, reason)
        intent.call = GetPod(touch.uid, touch.namespace, touch.name)
        return intent.call

    def _not_bound(self, uid: str, intent: Intent, shown: PodShown) -> PodRequest | Stimulus:
        if intent.hopeless:
            return self._void(uid, intent, shown.seen.resource_version)
        return super()._not_bound(uid, intent, shown)


class OtherIntents(LeaderTerm):
    """With another tracker of binds."""

    intents: type[Intents]

    def _new_trackers(self) -> EffectTrackers:
        trackers = super()._new_trackers()
        intents = self.intents(self._state, self._fold.decisions, self._seen.of(POD))
        trackers._trackers[Bind] = intents
        return trackers


class NoFence(OtherIntents):
    """With intents that are given up without a touch."""

    intents = UnfencedIntents


class Redecide(LeaderTerm):
    """A new leader gives up all open intents and decides again."""

    def _resume(self) -> None:
        for uid in list(self._state.reservations):
            self.observe(takeover.void(self._state, uid, "another leader"))


class HastyIntents(Intents):
    """Takes a newer resourceVersion without a record of it."""

    def retry(self, uid: str, intent: Intent, version: int) -> PodRequest | Stimulus:
        intent.resource_version = version
        return self.bind(uid, intent)


class RetryNoLog(OtherIntents):
    """Continues intents without recording it."""

    intents = HastyIntents


class NoQuarantine(LeaderTerm):
    """Touches no pods after lost history."""

    def fence(self, listed: Listed) -> takeover.Fence:
        return super().fence(Listed([]))


class RedoAfterLoss(LeaderTerm):
    """Keeps the promises of a log that may have lost their ends."""

    def _void_all(self) -> None:
        intents = self.trackers._trackers[Bind]
        assert isinstance(intents, Intents)
        for uid, held in self._state.reservations.items():
            intent = intents._add(uid, held.node, held.attempt, 0)
            self._do([intents.retry(uid, intent, self._seen.of(POD).version(uid))])


class NoHeartbeat(LeaderTerm):
    """Never asks whether it still is the leader."""

    def _heartbeat(self) -> None:
        self._renew_at = self._clock.now + 10**15


class NoBarrier(Leader):
    """Begins with what the log knows; the list comes when it comes."""

    def _take_over(self, acquired: Acquired) -> None:
        super()._take_over(acquired)
        assert isinstance(self._phase, TakingOver)
        if not self.history_may_be_lost:
            state = self.engine.state
            objects: Iterable[Any] = state.registry.everything()
            known: dict[str, list[Any]] = {
                "Node": [NodeSeen(node, 0) for node in state.nodes.nodes if node is not None],
                "Pod": [PodSeen(each.pod, 0) for each in state.pods.values()],
                "Namespace": [ObjectSeen(each, 0) for each in objects],
            }
            listed = Listed([Listing(name, 0, seen) for name, seen in known.items()])
            self._lead(self._phase.leader_term, listed)


class HalfStepBuilder(BatchBuilder):
    """Closes a batch in the middle of a step."""

    def _filling(self) -> int:
        return min(len(self._open), self._batch_size)


class HalfSteps(LeaderTerm):
    """With batches that end anywhere."""

    def _new_batch_builder(self) -> BatchBuilder:
        return HalfStepBuilder(self._state, batch_size=self._limits.records)


class IgnoresGaps(LeaderTerm):
    """Assumes that the watches continue without a gap."""

    def relisted(self, listings: Sequence[Listing], since: int | None) -> bool:
        return False


class TrustingStream(FollowedStream):
    """Begins again where what it knew is not in the log, and thinks nothing of it."""

    def start_over(self) -> None:
        super().start_over()
        self.rewritten = False


class NamelessStream(FollowedStream):
    """Knows the intents of a snapshot, not what they are called."""

    def restore(self, snapshot: StoredSnapshot) -> bool:
        helped = super().restore(snapshot)
        names = self.fold.decisions.intents
        names.update(dict.fromkeys(names, "no name"))
        return helped


class OtherReports(LeaderTerm):
    """With another outbox."""

    outbox: type[EventOutbox]

    def _new_outbox(self) -> EventOutbox:
        return self.outbox(self._state, self._seen.of(POD), self._counts)


class OneTimeReports(EventOutbox):
    """Says that everything is reported, even while requests are under way."""

    def done_before(self, end: int) -> int:
        return end


class ForgetsReports(OtherReports):
    """Leaves nothing for the next leader to tell."""

    outbox = OneTimeReports


class HastyReports(EventOutbox):
    """Does not wait for the commit."""

    def follow(self, logged: Iterable[Logged], drafts: Iterable[Draft]) -> None:
        super().follow(logged, drafts)
        self.committed(10**9)


class ReportFirst(OtherReports):
    """Tells what is not committed."""

    outbox = HastyReports


class LateReports(EventOutbox):
    """Writes a status, however the pod has changed."""

    def _request(self, status: DraftedStatus) -> ReportPod | None:
        request = super()._request(status)
        return replace(request, resource_version=0) if request is not None else None


class ReportsLate(OtherReports):
    """Tells of a pod what was so once."""

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
    "halfsteps": Mutant(HalfSteps),
    "ignoresgaps": Mutant(IgnoresGaps),
    "trusting": Mutant(followed_stream=TrustingStream),
    "nameless": Mutant(followed_stream=NamelessStream),
    "forgetsreports": Mutant(ForgetsReports),
    "reportfirst": Mutant(ReportFirst),
    "reportslate": Mutant(ReportsLate),
}
NONE = Mutant()
