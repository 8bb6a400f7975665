"""What a leader asks of the cluster in its term: each errand is followed to its end.

Effects are requests that promise something: a tracker (tracker.py) for each kind. Reports promise
nothing (event_outbox.py). Here an answer finds whom it concerns. What comes back are steps, made
one after the other: what the engine is told may change the next one.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from eventsched.cluster.messages import (
    Announce,
    BindPod,
    CallExtender,
    ClusterRequest,
    EvictPod,
    GetPod,
    ObjectSeen,
    PodAbsent,
    PodSeen,
    ReportPod,
    TouchPod,
    WriteObject,
)
from eventsched.domain import records
from eventsched.domain.records import Bind, Consult, Effect, Evict, Prepare
from eventsched.domain.records.logged import Logged
from eventsched.runtime.effects.event_drafts import Draft
from eventsched.runtime.effects.event_outbox import EventOutbox
from eventsched.runtime.effects.evictions import Evictions
from eventsched.runtime.effects.extender_calls import Consultations
from eventsched.runtime.effects.intents import Intents
from eventsched.runtime.effects.provisions import Provisions
from eventsched.runtime.effects.tracker import Step, Tracker
from eventsched.runtime.leader.catch_up import Fold
from eventsched.runtime.reconciliation.seen_versions import POD, SeenResources, stimulus_of

TRACKED: Mapping[type, type] = {
    BindPod: Bind, GetPod: Bind, TouchPod: Bind, EvictPod: Evict, WriteObject: Prepare,
    CallExtender: Consult,
}  # fmt: skip
"""Requests, and the effects whose trackers make them."""


class EffectTrackers:
    """All errands of a term. ``reports`` are those that promise nothing."""

    def __init__(self, fold: Fold, sights: SeenResources, reports: EventOutbox) -> None:
        """``sights`` are how new the objects are that were seen."""
        self.reports = reports
        self._state = fold.engine.state
        self._seen = sights
        self._trackers = self._made(fold)

    def _made(self, fold: Fold) -> dict[type, Tracker]:
        """The trackers by effect. Promises of the log are kept in this order."""
        state, decisions = fold.engine.state, fold.decisions
        return {
            Bind: Intents(state, decisions, self._seen.of(POD), fold.engine.binder),
            Evict: Evictions(state, decisions),
            Prepare: Provisions(state),
            Consult: Consultations(state),
        }

    def follow(self, taken: Sequence[Logged], drafts: Iterable[Draft]) -> None:
        """Takes in the records of a step, and what they give to tell."""
        self.reports.follow(taken, drafts)
        for tracker in self._trackers.values():
            tracker.follow(taken)

    def resume(self) -> Iterator[Step]:
        """After a clean takeover: promises are kept."""
        for tracker in self._trackers.values():
            yield from tracker.resume()

    def void(self, reason: str) -> Iterator[Step]:
        """After lost history: none counts. All pods have been touched."""
        for tracker in self._trackers.values():
            yield from tracker.void(reason)

    def committed(self, effects: Iterable[Effect], position: int) -> Iterator[Step]:
        """A batch with these effects is durable; the log ends at a position."""
        self.reports.committed(position)
        for effect in effects:
            yield from self._trackers[type(effect)].committed(effect)

    def answered(self, answer: Any) -> Iterator[Step]:
        """The cluster has answered a request."""
        if isinstance(answer.request, ReportPod | Announce):
            yield from self._shown(answer)
            self.reports.answered(answer)
            return
        tracker = self._trackers[TRACKED[type(answer.request)]]
        if tracker.outcome_first:
            yield from tracker.answered(answer)
        yield from self._shown(answer)
        if not tracker.outcome_first:
            yield from tracker.answered(answer)

    def _shown(self, answer: Any) -> Iterator[Step]:
        """What came with an answer. What the watch saw the end of meanwhile is not brought back."""
        if isinstance(answer, PodAbsent):
            self._seen.of(POD).absent(answer.request.uid)
            yield records.PodDeleted(uid=answer.request.uid)
            return
        match getattr(answer, "seen", None):
            case PodSeen() as seen if seen.pod.uid in self._state.pods:
                if self._seen.answered(seen):
                    yield stimulus_of(seen)
            case ObjectSeen(object=found) as seen if self._state.registry.knows(found):
                if self._seen.answered(seen):
                    yield stimulus_of(seen)

    def unanswered(self, request: Any) -> ClusterRequest | None:
        """What to ask, a little later, after a request whose outcome is not known."""
        tracked = TRACKED.get(type(request))
        found: ClusterRequest | None = request
        return found if tracked is None else self._trackers[tracked].unanswered(request)

    def awaits(self, request: ClusterRequest) -> bool:
        """Whether a request is still needed."""
        if isinstance(request, ReportPod | Announce):
            return self.reports.awaits(request)
        tracked = TRACKED.get(type(request))
        return tracked is None or self._trackers[tracked].awaits(request)
