"""Writes into the status of a pod why it is on no node yet: PodScheduled, nominatedNodeName.

Upstream (schedule_one.go updatePod, api/v1/pod UpdatePodCondition) patches only what differs from
the pod that its watch shows, and lastTransitionTime moves with the condition's status alone. Here
what the API server showed last is remembered by uid, and holds for that resourceVersion only;
otherwise the pod is read first.
"""

from typing import NamedTuple

from eventsched.cluster.kube.calls import request_bodies
from eventsched.cluster.kube.calls.pod_calls import PodCalls, WrittenPod, outline
from eventsched.cluster.kube.calls.request_bodies import PodCondition
from eventsched.cluster.kube.http.api import STRATEGIC_PATCH, HttpAnswer
from eventsched.cluster.kube.http.refusals import is_done, is_refused, words
from eventsched.cluster.messages import PodAbsent, PodSeen, PodShown, Reported, ReportPod, Unknown

REMEMBERED = 10_000
"""Pods whose status is remembered; the one longest unused is forgotten first."""
_SCHEDULED = "PodScheduled"


class _Known(NamedTuple):
    """A pod's status at a resourceVersion."""

    version: int
    generation: int
    condition: PodCondition | None
    nominated: str


class StatusCalls:
    """Carries out ``ReportPod``."""

    def __init__(self, pods: PodCalls) -> None:
        self._pods = pods
        self._known: dict[str, _Known] = {}

    async def report(self, request: ReportPod) -> Reported | PodShown | PodAbsent | Unknown:
        """Writes what is new of a report. Raises UnansweredError."""
        known = self._known.pop(request.uid, None)
        if known is None or known.version != request.resource_version:
            read = await self._pods.read(request)
            found = self._pods.shown(request, read)
            if not isinstance(found, PodShown):
                return self._unshown(request, read, found)
            if found.seen.resource_version != request.resource_version:
                return found
            known = _known(outline(read.body), found.seen)
        condition, nominated = _news(request, known)
        if condition is None and nominated is None:
            self._remember(request.uid, known)
            return Reported(request)
        return await self._write(request, condition, nominated)

    async def _write(
        self, request: ReportPod, condition: PodCondition | None, nominated: str | None
    ) -> Reported | PodShown | PodAbsent | Unknown:
        body = request_bodies.report(request.uid, request.resource_version, condition, nominated)
        answer = await self._pods.ask("PATCH", request, "status", body, STRATEGIC_PATCH)
        found = self._pods.shown(request, answer)
        if isinstance(found, PodShown):
            self._remember(request.uid, _known(outline(answer.body), found.seen))
            return Reported(request, found.seen)
        return await self._unwritten(request, answer, found)

    async def _unwritten(
        self, request: ReportPod, answer: HttpAnswer, found: PodAbsent | Unknown
    ) -> Reported | PodShown | PodAbsent | Unknown:
        """A refusal is final, but where the pod has changed or gone (409, 404; 422 for its uid)."""
        if not is_refused(answer):
            return self._unshown(request, answer, found)
        now = await self._pods.look(request)
        same = isinstance(now, PodShown) and now.seen.resource_version == request.resource_version
        return Reported(request, refused=words(answer)) if same else now

    def _unshown(
        self, request: ReportPod, answer: HttpAnswer, found: PodAbsent | Unknown
    ) -> Reported | PodAbsent | Unknown:
        """A pod that may not be read, or cannot be, is not reported: nothing depends on it."""
        if isinstance(found, Unknown) and (is_refused(answer) or is_done(answer)):
            return Reported(request, refused=words(answer))
        return found

    def _remember(self, uid: str, known: _Known) -> None:
        self._known[uid] = known
        if len(self._known) > REMEMBERED:
            del self._known[next(iter(self._known))]


def _known(seen: WrittenPod, pod: PodSeen) -> _Known:
    return _Known(
        pod.resource_version,
        seen.metadata.generation,
        seen.condition(_SCHEDULED),
        pod.pod.nominated_node,
    )


def _news(request: ReportPod, known: _Known) -> tuple[PodCondition | None, str | None]:
    """The condition and the nomination that are to be written; None for what stays."""
    nominated = request.nominated_node if request.nominated_node != known.nominated else None
    old = known.condition
    wanted = ("False", request.reason, request.message)
    if not request.reason or (old and (old.status, old.reason, old.message) == wanted):
        return None, nominated
    stays = old and old.status == "False"
    since = old.last_transition_time if old and stays else request_bodies.seconds_text(request.at)
    return PodCondition(_SCHEDULED, *wanted, since, known.generation), nominated
