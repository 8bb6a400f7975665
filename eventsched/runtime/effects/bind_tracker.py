"""Tracks the open intents of a stream, until each bind has succeeded or cannot succeed any more.

    committed ─▶ bind ─▶ bound                                         gone: 404, at any point
                  │ ╲ refused ───────────▶ the pod now ─▶ bound (by this or another scheduler)
                  ╰─▶ no answer ─▶ get ─▶       │ ╲─▶ changed: BindRetried ─▶ committed
                                                ╰─▶ given up ─▶ touch ─▶ BindVoided

A committed intent is a promise: its bind is repeated, to the same node and with the same decision
id, also by the next leader. An intent is given up in this order only:

1. The pod is touched, so that a bind that is still on its way fails.
2. That is recorded, and frees the room.

A newer resourceVersion is used only after a record of the same term says so (ADR 8). A replaced
leader cannot write such a record, and so cannot overcome the touch of its successor.
"""

from collections.abc import Callable, Iterator, Sequence

from eventsched.cluster.messages import (
    BindPod,
    Bound,
    GetPod,
    PodAbsent,
    PodAnswer,
    PodRequest,
    PodShown,
    TouchPod,
)
from eventsched.domain import records
from eventsched.domain.objects import Pod
from eventsched.domain.records import Bind, Outcome, Stimulus
from eventsched.domain.records.log_entry import LogEntry
from eventsched.domain.state.scheduler_state import SchedulerState
from eventsched.runtime.effects.decision_names import OpenDecisions
from eventsched.runtime.effects.tracker import Action
from eventsched.runtime.reconciliation import takeover
from eventsched.runtime.reconciliation.seen_versions import SeenVersions
from eventsched.scheduling.framework.extender import Extender

MAX_TRIES = 4
"""Binds sent for one intent before it is given up."""


class Intent:
    """An intent and its progress. ``resource_version`` is the precondition of its next bind,
    ``call`` the request under way for it, ``give_up_reason`` why it is to be given up."""

    __slots__ = (
        "attempt",
        "call",
        "decision",
        "give_up_reason",
        "node",
        "resource_version",
        "tries",
    )

    def __init__(self, node: str, attempt: int, decision: str, resource_version: int) -> None:
        self.node = node
        self.attempt = attempt
        self.decision = decision
        self.resource_version = resource_version
        self.tries = 0
        self.call: PodRequest | None = None
        self.give_up_reason = ""


class BindTracker:
    """The open intents by pod; a Tracker (tracker.py) of Bind effects."""

    outcome_first = False

    def __init__(
        self,
        state: SchedulerState,
        decisions: OpenDecisions,
        seen_versions: SeenVersions,
        binder: Callable[[Pod], Extender | None] = lambda pod: None,
    ) -> None:
        """``seen_versions`` are those of pods. ``binder`` returns the extender that binds a pod,
        if one does."""
        self._state = state
        self._binder = binder
        self._decisions = decisions
        self._seen_versions = seen_versions
        self._intents: dict[str, Intent] = {}

    def on_records(self, logged: Sequence[LogEntry]) -> None:
        """Takes in the records of a step. The resourceVersion of a bind was seen before its record
        is committed, so a touch by a later leader is newer."""
        for entry in logged:
            match entry.record:
                case records.PodDecided(outcome=Outcome.SCHEDULED) | records.BindIntended():
                    intended = entry.record
                    version = self._seen_versions.version(intended.uid)
                    self._add(intended.uid, intended.node, intended.attempt, version)
                case records.BindRetried(uid=uid, resource_version=version):
                    if (intent := self._open(uid)) is not None:
                        intent.resource_version = version
                case records.PodBound(uid=uid) | records.PodUnreserved(uid=uid):
                    self._intents.pop(uid, None)
                case records.PodDeleted(uid=uid):
                    self._intents.pop(uid, None)
                case records.PodUpdated(pod=pod):
                    self._open(pod.uid)

    def resume(self) -> Iterator[Action]:
        """Resumes the open intents; gives up those whose room has been taken."""
        for uid, reservation in list(self._state.reservations.items()):
            if self._state.reservations.get(uid) is not reservation:
                continue  # it ended with another one
            is_crowded = takeover.is_crowded(self._state, uid)
            if reservation.intended:
                intent = self._add(uid, reservation.node, reservation.attempt, 0)
                if is_crowded:
                    yield self.give_up(uid, intent, takeover.CROWDED)
                else:
                    yield self.retry(uid, intent, self._seen_versions.version(uid))
            elif is_crowded:  # no bind was requested yet
                yield takeover.void(self._state, uid, takeover.CROWDED)

    def void(self, reason: str) -> Iterator[Action]:
        """Voids all reservations: every pod has been touched."""
        for uid in list(self._state.reservations):
            if uid in self._state.reservations:
                yield takeover.void(self._state, uid, reason, self._seen_versions.version(uid))

    def committed(self, effect: Bind) -> list[Action]:
        """The record of an intent is durable: the bind may be requested."""
        intent = self._open(effect.uid)
        if intent is None or intent.call is not None:
            return []
        return [self._bind_or_give_up(effect.uid, intent)]

    def answered(self, answer: PodAnswer) -> list[Action]:
        """The cluster has answered. The pod in the answer was observed before."""
        uid = answer.request.uid
        intent = self._open(uid)
        if intent is None or intent.call != answer.request:
            return []
        intent.call = None
        match answer:
            case Bound():
                return [records.BindSucceeded(uid=uid, node=intent.node)]
            case PodShown(request=TouchPod()):
                return [self._void(uid, intent, answer.seen.resource_version)]
            case PodShown():
                return [self._not_bound(uid, intent, answer)]
            case PodAbsent():
                return []

    def unanswered(self, request: PodRequest) -> PodRequest | None:
        """The follow-up to a request whose outcome is unknown. After a bind the pod is read."""
        intent = self._open(request.uid)
        if intent is None or intent.call != request:
            return None
        if isinstance(request, BindPod):
            intent.call = GetPod(request.uid, request.namespace, request.name)
        return intent.call

    def awaits(self, request: PodRequest) -> bool:
        """Whether a request is still the next one for its intent."""
        intent = self._open(request.uid)
        return intent is not None and intent.call == request

    def give_up(self, uid: str, intent: Intent, reason: str) -> PodRequest:
        """Begins to give an intent up: after the touch no bind of it can succeed."""
        pod = self._pod(uid)
        intent.give_up_reason = reason
        intent.call = TouchPod(uid, pod.namespace, pod.name)
        return intent.call

    def retry(self, uid: str, intent: Intent, version: int) -> PodRequest | Stimulus:
        """Records a newer resourceVersion; the bind is requested once that is committed."""
        return records.BindRetried(
            uid=uid, node=intent.node, attempt=intent.attempt, resource_version=version
        )

    def _not_bound(self, uid: str, intent: Intent, shown: PodShown) -> PodRequest | Stimulus:
        """The pod is on no node: the bind was refused or has not arrived."""
        changed = shown.seen.resource_version != intent.resource_version
        if isinstance(shown.request, BindPod) and (shown.message or not changed):
            return self.give_up(uid, intent, shown.message or "the bind is refused")
        if changed and not self._reason_to_give_up(uid, intent):
            return self.retry(uid, intent, shown.seen.resource_version)
        return self._bind_or_give_up(uid, intent)

    def _bind_or_give_up(self, uid: str, intent: Intent) -> PodRequest:
        reason = self._reason_to_give_up(uid, intent)
        return self.give_up(uid, intent, reason) if reason else self.bind(uid, intent)

    def bind(self, uid: str, intent: Intent) -> PodRequest:
        """Requests the bind."""
        pod = self._pod(uid)
        intent.tries += 1
        extender = self._binder(pod)
        intent.call = BindPod(
            uid, pod.namespace, pod.name, intent.node, intent.resource_version, intent.decision,
            -1 if extender is None else extender.index,
        )  # fmt: skip
        return intent.call

    def _void(self, uid: str, intent: Intent, version: int) -> Stimulus:
        return records.BindVoided(
            uid=uid,
            node=intent.node,
            attempt=intent.attempt,
            reason=intent.give_up_reason,
            resource_version=version,
        )

    def _reason_to_give_up(self, uid: str, intent: Intent) -> str:
        if intent.give_up_reason:
            return intent.give_up_reason
        if intent.node not in self._state.nodes.rows:
            return "the node is gone"
        if self._pod(uid).deleting:
            return "the pod is being deleted"
        return f"{MAX_TRIES} binds did not come through" if intent.tries >= MAX_TRIES else ""

    def _add(self, uid: str, node: str, attempt: int, version: int) -> Intent:
        decision = self._decisions.intents[uid]
        intent = self._intents[uid] = Intent(node, attempt, decision, version)
        return intent

    def _open(self, uid: str) -> Intent | None:
        intent, reservation = self._intents.get(uid), self._state.reservations.get(uid)
        if intent is None:
            return None
        if reservation is None or reservation.attempt != intent.attempt:
            del self._intents[uid]
            return None
        return intent

    def _pod(self, uid: str) -> Pod:
        return self._state.pods[uid].pod
