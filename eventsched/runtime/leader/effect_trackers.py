"""A leader's requests to the cluster, each followed to its end.

Effects are requests that the log promises: each kind has a tracker (tracker.py). Events and
conditions are not promised (event_outbox.py). This module routes each answer to its tracker.
Methods yield actions, which are carried out one by one: a stimulus may change what the next one is.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from eventsched.cluster.messages import (
    BindPod,
    CallExtender,
    ClusterRequest,
    EvictPod,
    GetPod,
    ObjectSeen,
    PatchStatus,
    PodAbsent,
    PodSeen,
    TermAnswer,
    TouchPod,
    WriteEvent,
    WriteObject,
)
from eventsched.domain import records
from eventsched.domain.records import Bind, Consult, Effect, Evict, Prepare
from eventsched.domain.records.log_entry import LogEntry
from eventsched.runtime.effects.bind_tracker import BindTracker
from eventsched.runtime.effects.event_drafts import Draft
from eventsched.runtime.effects.event_outbox import EventOutbox
from eventsched.runtime.effects.eviction_tracker import EvictionTracker
from eventsched.runtime.effects.extender_call_tracker import ExtenderCallTracker
from eventsched.runtime.effects.object_write_tracker import ObjectWriteTracker
from eventsched.runtime.effects.tracker import Action, Tracker
from eventsched.runtime.leader.followed_stream import StreamState
from eventsched.runtime.reconciliation.seen_versions import POD, SeenResources, stimulus_of

TRACKED: Mapping[type, type] = {
    BindPod: Bind, GetPod: Bind, TouchPod: Bind, EvictPod: Evict, WriteObject: Prepare,
    CallExtender: Consult,
}  # fmt: skip
"""The type of each request, and the effect whose tracker makes it."""


class EffectTrackers:
    """All requests of a term to the cluster. ``outbox`` is that of Events and conditions."""

    def __init__(self, stream_state: StreamState, seen: SeenResources, outbox: EventOutbox) -> None:
        """``seen`` has the versions of the objects that were seen."""
        self.outbox = outbox
        self._state = stream_state.engine.state
        self._seen = seen
        self._trackers = self._new_trackers(stream_state)

    def _new_trackers(self, stream_state: StreamState) -> dict[type, Tracker]:
        """The trackers by effect. After a takeover the log's promises are kept in this order."""
        state, decisions = stream_state.engine.state, stream_state.decisions
        return {
            Bind: BindTracker(state, decisions, self._seen.of(POD), stream_state.engine.binder),
            Evict: EvictionTracker(state, decisions),
            Prepare: ObjectWriteTracker(state),
            Consult: ExtenderCallTracker(state),
        }

    def on_records(self, taken: Sequence[LogEntry], drafts: Iterable[Draft]) -> None:
        """Takes in the records of a step, and the drafts that follow from them."""
        self.outbox.on_records(taken, drafts)
        for tracker in self._trackers.values():
            tracker.on_records(taken)

    def resume(self) -> Iterator[Action]:
        """After a clean takeover: resumes the effects that the log promises."""
        for tracker in self._trackers.values():
            yield from tracker.resume()

    def void(self, reason: str) -> Iterator[Action]:
        """After lost history: voids all open effects. All pods have been touched by then."""
        for tracker in self._trackers.values():
            yield from tracker.void(reason)

    def committed(self, effects: Iterable[Effect], position: int) -> Iterator[Action]:
        """A batch with these effects is durable; the log now ends at ``position``."""
        self.outbox.committed(position)
        for effect in effects:
            if not self._is_of_an_earlier_life(effect):
                yield from self._trackers[type(effect)].committed(effect)

    def _is_of_an_earlier_life(self, effect: Effect) -> bool:
        """Whether the pod was deleted and added again after the decision, which a restore of etcd
        can do. What is open for it now is of a later decision, which may not be committed yet."""
        pod_state = self._state.pods.get(effect.uid)
        return pod_state is not None and pod_state.number > effect.decision

    def answered(self, answer: TermAnswer) -> Iterator[Action]:
        """The cluster has answered a request."""
        if isinstance(answer.request, PatchStatus | WriteEvent):
            yield from self._object_in(answer)
            self.outbox.answered(answer)
            return
        tracker = self._trackers[TRACKED[type(answer.request)]]
        if tracker.outcome_first:
            yield from tracker.answered(answer)
        yield from self._object_in(answer)
        if not tracker.outcome_first:
            yield from tracker.answered(answer)

    def _object_in(self, answer: TermAnswer) -> Iterator[Action]:
        """The object in an answer, unless the watch has reported its deletion meanwhile."""
        if isinstance(answer, PodAbsent):
            self._seen.of(POD).note_absence(answer.request.uid)
            yield records.PodDeleted(uid=answer.request.uid)
            return
        match getattr(answer, "seen", None):
            case PodSeen() as seen if seen.pod.uid in self._state.pods:
                if self._seen.note_answer(seen):
                    yield stimulus_of(seen)
            case ObjectSeen(object=obj) as seen if self._state.registry.knows(obj):
                if self._seen.note_answer(seen):
                    yield stimulus_of(seen)

    def unanswered(self, request: Any) -> ClusterRequest | None:
        """The follow-up to a request whose outcome is unknown; None if none is needed."""
        effect_type = TRACKED.get(type(request))
        follow_up: ClusterRequest | None = request
        if effect_type is not None:
            follow_up = self._trackers[effect_type].unanswered(request)
        return follow_up

    def awaits(self, request: ClusterRequest) -> bool:
        """Whether a request is still needed."""
        if isinstance(request, PatchStatus | WriteEvent):
            return self.outbox.awaits(request)
        effect_type = TRACKED.get(type(request))
        return effect_type is None or self._trackers[effect_type].awaits(request)
