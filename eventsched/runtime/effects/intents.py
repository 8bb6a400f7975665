"""The open intents of a stream: each is followed until its bind has landed or can land no more.

    committed ─▶ bind ─▶ bound                                              gone: 404, anywhere
                  │ ╲ refused ───────────▶ as it is now ─▶ bound (by us, by somebody else)
                  ╰─▶ no answer ─▶ get ─▶       │ ╲─▶ changed: BindRetried ─▶ committed
                                                ╰─▶ hopeless ─▶ touch ─▶ BindVoided

A committed intent is a promise: its bind is repeated, to the same node and with the
same decision id, also by the next leader. It is given up in one order only: the pod is touched, so
that no bind that is still on its way can land; that is recorded; and then its room is free. A newer
resourceVersion is used only when a record of one's own term says so (ADR 8): a leader that has been
replaced cannot write one, and so cannot step over the touch of its successor.
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
from eventsched.domain.records.logged import Logged
from eventsched.domain.state.scheduler_state import SchedulerState
from eventsched.runtime.effects.decision_names import OpenDecisions
from eventsched.runtime.effects.tracker import Step
from eventsched.runtime.reconciliation import takeover
from eventsched.runtime.reconciliation.seen_versions import SeenVersions
from eventsched.scheduling.framework.extender import Extender

TRIES = 4
"""Binds sent for one intent before it is given up."""


class Intent:
    """An intent, and how far it has come. ``resource_version`` is the precondition of its next
    bind, ``call`` the request under way for it, ``hopeless`` why it is to be given up."""

    __slots__ = ("attempt", "call", "decision", "hopeless", "node", "resource_version", "tries")

    def __init__(self, node: str, attempt: int, decision: str, resource_version: int) -> None:
        self.node = node
        self.attempt = attempt
        self.decision = decision
        self.resource_version = resource_version
        self.tries = 0
        self.call: PodRequest | None = None
        self.hopeless = ""


class Intents:
    """The open intents by pod; a Tracker (tracker.py) of Bind effects."""

    outcome_first = False

    def __init__(
        self,
        state: SchedulerState,
        decisions: OpenDecisions,
        sight: SeenVersions,
        binder: Callable[[Pod], Extender | None] = lambda pod: None,
    ) -> None:
        """``sight`` is how new the pods are that were seen; ``binder`` gives the extender that
        binds a pod."""
        self._state = state
        self._binder = binder
        self._decisions = decisions
        self._seen_versions = sight
        self._intents: dict[str, Intent] = {}

    def follow(self, logged: Sequence[Logged]) -> None:
        """Takes in the records of a step. The resourceVersion of a bind is one that was seen before
        its record is committed: a touch by a later leader is newer."""
        for each in logged:
            match each.record:
                case records.PodDecided(outcome=Outcome.SCHEDULED) | records.BindIntended():
                    made, version = each.record, self._seen_versions.version(each.record.uid)
                    self._add(made.uid, made.node, made.attempt, version)
                case records.BindRetried(uid=uid, resource_version=version):
                    if (intent := self._open(uid)) is not None:
                        intent.resource_version = version
                case records.PodBound(uid=uid) | records.PodUnreserved(uid=uid):
                    self._intents.pop(uid, None)
                case records.PodDeleted(uid=uid):
                    self._intents.pop(uid, None)
                case records.PodUpdated(pod=pod):
                    self._open(pod.uid)

    def resume(self) -> Iterator[Step]:
        """Goes on with what the log intends, but where the room has been taken."""
        for uid, held in list(self._state.reservations.items()):
            if self._state.reservations.get(uid) is not held:
                continue  # it ended with another one
            crowded = takeover.is_crowded(self._state, uid)
            if held.intended:
                intent = self._add(uid, held.node, held.attempt, 0)
                if crowded:
                    yield self.give_up(uid, intent, takeover.CROWDED)
                else:
                    yield self.retry(uid, intent, self._seen_versions.version(uid))
            elif crowded:  # nothing was sent that would bind it
                yield takeover.void(self._state, uid, takeover.CROWDED)

    def void(self, reason: str) -> Iterator[Step]:
        """Gives all reservations up: every pod has been touched."""
        for uid in list(self._state.reservations):
            if uid in self._state.reservations:
                yield takeover.void(self._state, uid, reason, self._seen_versions.version(uid))

    def committed(self, effect: Bind) -> list[Step]:
        """The record that lets a pod's bind leave is durable."""
        intent = self._open(effect.uid)
        if intent is None or intent.call is not None:
            return []
        return [self._go_on(effect.uid, intent)]

    def answered(self, answer: PodAnswer) -> list[Step]:
        """The cluster has answered. The pod as the answer shows it was observed before."""
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
        """What to ask, a little later, after a request whose outcome is not known."""
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
        """Begins to give an intent up: nothing of it may land any more."""
        pod = self._pod(uid)
        intent.hopeless = reason
        intent.call = TouchPod(uid, pod.namespace, pod.name)
        return intent.call

    def retry(self, uid: str, intent: Intent, version: int) -> PodRequest | Stimulus:
        """Goes on with a newer resourceVersion, when that is committed."""
        return records.BindRetried(
            uid=uid, node=intent.node, attempt=intent.attempt, resource_version=version
        )

    def _not_bound(self, uid: str, intent: Intent, shown: PodShown) -> PodRequest | Stimulus:
        """The pod is on no node: the bind was refused or has not arrived."""
        changed = shown.seen.resource_version != intent.resource_version
        if isinstance(shown.request, BindPod) and (shown.message or not changed):
            return self.give_up(uid, intent, shown.message or "the bind is refused")
        if changed and not self._hopeless(uid, intent):
            return self.retry(uid, intent, shown.seen.resource_version)
        return self._go_on(uid, intent)

    def _go_on(self, uid: str, intent: Intent) -> PodRequest:
        reason = self._hopeless(uid, intent)
        return self.give_up(uid, intent, reason) if reason else self.bind(uid, intent)

    def bind(self, uid: str, intent: Intent) -> PodRequest:
        """The bind itself."""
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
            reason=intent.hopeless,
            resource_version=version,
        )

    def _hopeless(self, uid: str, intent: Intent) -> str:
        if intent.hopeless:
            return intent.hopeless
        if intent.node not in self._state.nodes.rows:
            return "the node is gone"
        if self._pod(uid).deleting:
            return "the pod is being deleted"
        return f"{TRIES} binds did not come through" if intent.tries >= TRIES else ""

    def _add(self, uid: str, node: str, attempt: int, version: int) -> Intent:
        decision = self._decisions.intents[uid]
        intent = self._intents[uid] = Intent(node, attempt, decision, version)
        return intent

    def _open(self, uid: str) -> Intent | None:
        intent, held = self._intents.get(uid), self._state.reservations.get(uid)
        if intent is not None and (held is None or held.attempt != intent.attempt):
            del self._intents[uid]
            return None
        return intent

    def _pod(self, uid: str) -> Pod:
        return self._state.pods[uid].pod
