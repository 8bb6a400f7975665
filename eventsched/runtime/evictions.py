"""The open evictions of a stream: each is followed until the pod is being deleted, or is gone.

    committed ─▶ evict ─▶ being deleted: EvictionSucceeded        gone: 404, anywhere
                  ╲─▶ no answer ─▶ evict again
                   ╲─▶ refused: EvictionFailed

Like a bind's intent a committed eviction is a promise, also of the next leader; it is repeated
without harm, as it is for one uid. It is given up where nobody needs the room any more. One that is
still on its way when history is lost may land all the same: it only ends a pod, and the log learns
of that as it would of any other end.
"""

from collections.abc import Sequence

from eventsched.domain import records
from eventsched.domain.records import Stimulus
from eventsched.domain.state import SchedulerState
from eventsched.runtime.messages import EvictPod, PodAnswer, PodShown
from eventsched.scheduling.ledger import Logged

NEEDLESS = "nobody needs the room any more"
REFUSED = "the cluster did not delete the pod"


class Evictions:
    """The open evictions by the victim's uid. What is to be done next comes back as a request, or
    as a stimulus for the engine."""

    def __init__(self, state: SchedulerState, stream: str) -> None:
        self._state = state
        self._stream = stream
        self._token = ""
        self._decisions: dict[str, str] = {}
        self._calls: dict[str, EvictPod] = {}

    def follow(self, logged: Sequence[Logged]) -> None:
        """Takes in records, live ones or those of the log."""
        for each in logged:
            match each.record:
                case records.TermBegan(token=token):
                    self._token = token
                case records.PreemptionDecided():
                    decision = f"{self._stream}/{each.position}@{self._token}"
                    self._decisions.update(dict.fromkeys(each.record.evicted, decision))
                case (
                    records.EvictionSucceeded(uid=uid)
                    | records.EvictionFailed(uid=uid)
                    | records.PodDeleted(uid=uid)
                ):
                    self._decisions.pop(uid, None)
                    self._calls.pop(uid, None)

    def open(self) -> list[str]:
        """The victims of all open evictions."""
        return list(self._state.preemptions.evicting)

    def evict(self, uid: str) -> EvictPod | Stimulus | None:
        """The next step of an eviction whose record is committed."""
        eviction = self._state.preemptions.evicting.get(uid)
        if eviction is None or uid in self._calls:
            return None
        if not self._state.preemptions.needed(self._state.pods[uid].pod):
            return records.EvictionFailed(uid=uid, message=NEEDLESS)
        pod = self._state.pods[uid].pod
        call = EvictPod(uid, pod.namespace, pod.name, self._decisions[uid])
        self._calls[uid] = call
        return call

    def answered(self, answer: PodAnswer) -> Stimulus | None:
        """The cluster has answered; the pod as the answer shows it is observed after this."""
        uid = answer.request.uid
        if self._calls.get(uid) != answer.request:
            return None
        del self._calls[uid]
        if not isinstance(answer, PodShown):
            return None
        if answer.seen.pod.deleting:
            return records.EvictionSucceeded(uid=uid)
        return records.EvictionFailed(uid=uid, message=REFUSED)

    def awaits(self, request: EvictPod) -> bool:
        """Whether a request is still needed."""
        is_open = request.uid in self._state.preemptions.evicting
        return is_open and self._calls.get(request.uid) == request

    def void(self, uid: str, reason: str) -> Stimulus:
        """Gives an eviction up."""
        return records.EvictionFailed(uid=uid, message=reason)
