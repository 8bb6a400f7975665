"""The protocol with one rule removed: what a simulation has to catch to be worth its time.

The names are those of the log protocol's model, with ``keepsterms`` besides: a rule for databases.
Each mutant is a subclass that overrides the one place where the rule lives; the product has no
switch for any of them.
"""

from collections.abc import Callable
from typing import NamedTuple

from eventsched.domain.records import Evict, Stimulus
from eventsched.eventlog.chain import SealedBatch, Term
from eventsched.runtime import takeover
from eventsched.runtime.intents import Intent, Intents
from eventsched.runtime.leader import Leader
from eventsched.runtime.messages import (
    Acquired,
    Committed,
    Deposed,
    GetPod,
    Listed,
    NodeSeen,
    PodRequest,
    PodSeen,
    PodShown,
    Renewed,
)

from . import cluster
from .database import Database


class Mutant(NamedTuple):
    """What takes the product's place."""

    leader: type[Leader] = Leader
    database: type[Database] = Database

    @property
    def make_leader(self) -> Callable[[], Leader]:
        """Makes its leaders."""
        return lambda: self.leader(cluster.engine(), cluster.OPENING, batch_size=24)


class BindFirst(Leader):
    """Binds leave with their batch, not after it."""

    def _append(self) -> None:
        super()._append()
        for effect, _ in self._under_way[1].effects if self._under_way else ():
            if not isinstance(effect, Evict):
                self._do(self._intents.committed(effect.uid))


class EvictFirst(Leader):
    """Evictions leave with their batch, not after it."""

    def _append(self) -> None:
        super()._append()
        for effect, _ in self._under_way[1].effects if self._under_way else ():
            if isinstance(effect, Evict):
                self._do(self._evictions.evict(effect.uid))


class ForgetsEvictions(Leader):
    """A new leader leaves the evictions that its predecessor promised alone."""

    def _resume(self) -> None:
        self._evictions.open = list  # type: ignore[method-assign]
        super()._resume()


class AnyWriter(Database):
    """Takes batches from whoever comes."""

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


class NoFence(Leader):
    """With intents that are given up without a touch."""

    def _new_intents(self) -> Intents:
        return UnfencedIntents(self.engine.state, self._pods, self._term.stream)


class Redecide(Leader):
    """A new leader gives all open intents up and decides anew."""

    def _resume(self) -> None:
        for uid in list(self.engine.state.reservations):
            self._observe(takeover.void(self.engine.state, uid, "another leader"))


class HastyIntents(Intents):
    """Takes a newer resourceVersion without a record of it."""

    def retry(self, uid: str, intent: Intent, version: int) -> PodRequest | Stimulus:
        intent.resource_version = version
        return self.bind(uid, intent)


class RetryNoLog(Leader):
    """With intents that go on unrecorded."""

    def _new_intents(self) -> Intents:
        return HastyIntents(self.engine.state, self._pods, self._term.stream)


class NoQuarantine(Leader):
    """Touches no pods after lost history."""

    def _begin_fence(self, listed: Listed) -> None:
        self._begin(listed)


class RedoAfterLoss(Leader):
    """Keeps the promises of a log that may have lost their ends."""

    def _void_all(self) -> None:
        for uid, intent in self._intents.open().items():
            self._do(self._intents.retry(uid, intent, self._pods.version(uid)))


class NoHeartbeat(Leader):
    """Never asks whether it still is the leader."""

    def _heartbeat(self) -> None:
        self._renew_at = self._now + 10**15


class NoBarrier(Leader):
    """Begins with what the log knows; the list comes when it comes."""

    def _acquired(self, acquired: Acquired) -> None:
        super()._acquired(acquired)
        if not self.lossy:
            state = self.engine.state
            nodes = tuple(NodeSeen(node, 0) for node in state.nodes.nodes if node is not None)
            pods = tuple(PodSeen(each.pod, 0) for each in state.pods.values())
            self._begin(Listed(0, 0, nodes, pods))


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
    "nobarrier": Mutant(NoBarrier),
    "keepsterms": Mutant(database=KeepsTerms),
}
NONE = Mutant()
