"""Carries out a leader's requests to an API server and returns their outcomes.

After a refusal the pod is read. Without an answer, or with one that leaves it open (5xx), the
outcome is unknown and the leader asks again. Events and status reports change no decision: they
have fewer slots, and are given up when the server refuses them.

| answer to a Binding | outcome |
| --- | --- |
| 201 | ``Bound`` |
| 409 (uid, resourceVersion, already bound, being deleted, gated), 404, 400, 403, 422 | what a read
  of the pod shows: ``PodShown``, ``PodAbsent`` |
| 401, 429, 5xx, timeout, connection broken | ``Unknown`` |
"""

import secrets
import time
from collections import Counter
from collections.abc import Callable, Mapping
from types import MappingProxyType

from eventsched.cluster.kube.calls import request_bodies
from eventsched.cluster.kube.calls.event_calls import EventCalls
from eventsched.cluster.kube.calls.pod_calls import PodCalls, outline
from eventsched.cluster.kube.calls.status_calls import StatusCalls
from eventsched.cluster.kube.calls.volume_calls import VolumeCalls
from eventsched.cluster.kube.http.api import STRATEGIC_PATCH, Api, HttpAnswer, UnansweredError
from eventsched.cluster.kube.http.refusals import Refusals, is_done, is_refused
from eventsched.cluster.kube.http.request_limiter import RequestLimiter
from eventsched.cluster.kube.watch.object_decoding import Decoder
from eventsched.cluster.kube.watch.resources import POD
from eventsched.cluster.messages import (
    Announce,
    BindPod,
    Bound,
    EvictPod,
    GetPod,
    PodAbsent,
    PodAnswer,
    PodRequest,
    PodShown,
    Reported,
    ReportPod,
    TouchPod,
    Unknown,
    WriteAnswer,
    WriteObject,
)

CONCURRENCY = 64
"""Default number of concurrent requests."""


def _microseconds() -> int:
    return time.time_ns() // 1000


class Calls:
    """Carries requests out, each in the task that asks for it. ``counts`` has how many ended how,
    by the names of request and answer; ``gate`` how many wait."""

    def __init__(
        self,
        api: Api,
        *,
        host: str,
        concurrency: int = CONCURRENCY,
        now: Callable[[], int] = _microseconds,
        clock: Callable[[], float] = time.monotonic,
        nonce: Callable[[], str] = secrets.token_urlsafe,
        decoders: Mapping[str, Decoder] = MappingProxyType({}),
    ) -> None:
        """``host`` names this process in Events; ``now`` gives microseconds since 1970, ``clock``
        seconds that only grow, ``nonce`` a text that never comes twice. ``decoders`` are those of
        the watches, by type: an object in an answer is read as a watch reads it, with the same
        annotations, and one that a watch has shown already is not translated again."""
        self.gate = RequestLimiter(concurrency)
        self.refusals = Refusals(clock)
        self.counts: Counter[tuple[str, str]] = Counter()
        self._pods = PodCalls(api, self.refusals, decoders.get(POD))
        self._reports = StatusCalls(self._pods)
        self._volumes = VolumeCalls(api, self.refusals, decoders)
        self._event_calls = EventCalls(api, self.refusals, host)
        self._now = now
        self._nonce = nonce

    async def carry_out(
        self, request: PodRequest | Announce | WriteObject
    ) -> PodAnswer | Reported | WriteAnswer | Unknown:
        """Sends a request when there is room, and answers it. Raises nothing but CancelledError;
        then the outcome is not known."""
        answer: PodAnswer | Reported | WriteAnswer | Unknown
        name = type(request).__name__
        try:
            match request:
                case Announce():
                    async with self.gate.report():
                        answer = await self._event_calls.announce(request)
                case ReportPod():
                    async with self.gate.report():
                        answer = await self._reports.report(request)
                case WriteObject():
                    async with self.gate.urgent():
                        answer = await self._volumes.write(request)
                case _:
                    async with self.gate.urgent():
                        answer = await self._decisive(request)
        except UnansweredError as error:
            self.refusals.unanswered(name, error.reason, pod=f"{request.namespace}/{request.name}")
            answer = Unknown(request)
        else:
            self.refusals.accepted(name)
        self.counts[name, type(answer).__name__] += 1
        return answer

    async def _decisive(
        self, request: BindPod | GetPod | TouchPod | EvictPod
    ) -> PodAnswer | Unknown:
        match request:
            case BindPod():
                return await self._bind(request)
            case GetPod():
                return await self._pods.look(request)
            case TouchPod():
                return await self._touch(request)
            case EvictPod():
                return await self._evict(request)

    async def _bind(self, request: BindPod) -> PodAnswer | Unknown:
        answer = await self._pods.ask("POST", request, "binding", request_bodies.binding(request))
        if is_done(answer):
            return Bound(request)
        return await self._after(request, answer)

    async def _touch(self, request: TouchPod) -> PodAnswer | Unknown:
        """A pod is shown only when it was touched for certain: it means that a fence stands."""
        answer = await self._patch(request, request_bodies.touch(request, self._nonce()))
        if is_done(answer):
            return self._pods.shown(request, answer)
        found = await self._after(request, answer)
        return found if isinstance(found, PodAbsent) else Unknown(request)

    async def _evict(self, request: EvictPod) -> PodAnswer | Unknown:
        """Upstream's order (framework/preemption executor.go): nothing where the pod is being
        deleted already; the condition, and without that no deletion; the deletion."""
        read = await self._pods.read(request)
        found = self._pods.shown(request, read)
        if not isinstance(found, PodShown) or found.seen.pod.deleting:
            return found
        if not found.seen.pod.displaced:
            generation = outline(read.body).metadata.generation
            body = request_bodies.disruption(request, generation, self._now())
            answer = await self._patch(request, body)
            if not is_done(answer):
                return await self._after(request, answer)
        answer = await self._pods.ask("DELETE", request, body=request_bodies.deletion(request.uid))
        if is_done(answer):
            return await self._pods.look(request)
        return await self._after(request, answer)

    async def _patch(self, request: TouchPod | EvictPod, body: bytes) -> HttpAnswer:
        return await self._pods.ask("PATCH", request, "status", body, STRATEGIC_PATCH)

    async def _after(self, request: PodRequest, answer: HttpAnswer) -> PodAnswer | Unknown:
        """After a refusal: the pod as it is. Otherwise it is not known what was done."""
        if is_refused(answer):
            return await self._pods.look(request)
        return Unknown(request)
