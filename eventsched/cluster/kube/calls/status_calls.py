"""Writes the result of a failed attempt into a pod's status: PodScheduled, nominatedNodeName.

As in upstream (schedule_one.go updatePod, api/v1/pod UpdatePodCondition), a patch has only the
fields that differ, and lastTransitionTime changes only with the condition's status. Upstream
compares with the pod of its watch. Here the comparison is with the last status that the API server
returned, which is cached by uid. If the pod has another resourceVersion, it is read first.
"""

from typing import NamedTuple

from eventsched.cluster.kube.calls import request_bodies
from eventsched.cluster.kube.calls.pod_calls import PodCalls, WrittenPod, outline
from eventsched.cluster.kube.calls.request_bodies import PodCondition
from eventsched.cluster.kube.http.api import STRATEGIC_PATCH, HttpAnswer
from eventsched.cluster.kube.http.refusals import is_done, is_refused, words
from eventsched.cluster.messages import PatchStatus, PodAbsent, PodSeen, PodShown, Reported, Unknown

MAX_CACHED_PODS = 10_000
"""Pods whose status is cached. Beyond that the least recently used is dropped."""
_SCHEDULED = "PodScheduled"


class _KnownStatus(NamedTuple):
    """A pod's status at a resourceVersion."""

    version: int
    generation: int
    condition: PodCondition | None
    nominated: str


class StatusCalls:
    """Carries out ``PatchStatus``."""

    def __init__(self, pods: PodCalls) -> None:
        self._pods = pods
        self._known: dict[str, _KnownStatus] = {}

    async def patch_status(self, request: PatchStatus) -> Reported | PodShown | PodAbsent | Unknown:
        """Writes the fields of a report that differ from the pod's. Raises UnansweredError."""
        known = self._known.pop(request.uid, None)
        if known is None or known.version != request.resource_version:
            answer = await self._pods.read(request)
            pod = self._pods.shown(request, answer)
            if not isinstance(pod, PodShown):
                return self._without_pod(request, answer, pod)
            if pod.seen.resource_version != request.resource_version:
                return pod
            known = _known_status(outline(answer.body), pod.seen)
        condition, nominated = _changes(request, known)
        if condition is None and nominated is None:
            self._remember(request.uid, known)
            return Reported(request)
        return await self._write(request, condition, nominated)

    async def _write(
        self, request: PatchStatus, condition: PodCondition | None, nominated: str | None
    ) -> Reported | PodShown | PodAbsent | Unknown:
        body = request_bodies.report(request.uid, request.resource_version, condition, nominated)
        answer = await self._pods.ask("PATCH", request, "status", body, STRATEGIC_PATCH)
        pod = self._pods.shown(request, answer)
        if isinstance(pod, PodShown):
            self._remember(request.uid, _known_status(outline(answer.body), pod.seen))
            return Reported(request, pod.seen)
        return await self._after_failed_write(request, answer, pod)

    async def _after_failed_write(
        self, request: PatchStatus, answer: HttpAnswer, outcome: PodAbsent | Unknown
    ) -> Reported | PodShown | PodAbsent | Unknown:
        """Drops the report after a refusal, unless the pod has changed or is gone (409, 404; 422
        for its uid): then the pod is returned."""
        if not is_refused(answer):
            return self._without_pod(request, answer, outcome)
        pod = await self._pods.look(request)
        same = isinstance(pod, PodShown) and pod.seen.resource_version == request.resource_version
        return Reported(request, refused=words(answer)) if same else pod

    def _without_pod(
        self, request: PatchStatus, answer: HttpAnswer, outcome: PodAbsent | Unknown
    ) -> Reported | PodAbsent | Unknown:
        """Drops the report if the server refuses the request or the pod cannot be decoded: no
        decision depends on it."""
        if isinstance(outcome, Unknown) and (is_refused(answer) or is_done(answer)):
            return Reported(request, refused=words(answer))
        return outcome

    def _remember(self, uid: str, known: _KnownStatus) -> None:
        self._known[uid] = known
        if len(self._known) > MAX_CACHED_PODS:
            del self._known[next(iter(self._known))]


def _known_status(written: WrittenPod, seen: PodSeen) -> _KnownStatus:
    return _KnownStatus(
        seen.resource_version,
        written.metadata.generation,
        written.condition(_SCHEDULED),
        seen.pod.nominated_node,
    )


def _changes(request: PatchStatus, known: _KnownStatus) -> tuple[PodCondition | None, str | None]:
    """The condition and the nomination to write; None for one that does not change."""
    nominated = request.nominated_node if request.nominated_node != known.nominated else None
    old = known.condition
    wanted = ("False", request.reason, request.message)
    if not request.reason or (old and (old.status, old.reason, old.message) == wanted):
        return None, nominated
    if old and old.status == "False":
        since = old.last_transition_time
    else:
        since = request_bodies.seconds_text(request.at)
    return PodCondition(_SCHEDULED, *wanted, since, known.generation), nominated
