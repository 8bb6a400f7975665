"""Carries out a leader's requests to an API server and returns their outcomes.

After a refusal the pod is read. Without an answer, or after one that does not show what was done
(5xx), the outcome is unknown and the leader repeats the request. No decision depends on Events and
status reports: they get fewer slots, and are dropped if the server refuses them.

| answer to a Binding | outcome |
| --- | --- |
| 201 | ``Bound`` |
| 409 (uid, resourceVersion, already bound, being deleted, gated), 404, 400, 403, 422 | the result
  of a read of the pod: ``PodShown`` or ``PodAbsent`` |
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
from eventsched.cluster.kube.http.api import STRATEGIC_PATCH, ApiClient, HttpAnswer, UnansweredError
from eventsched.cluster.kube.http.refusals import Refusals, is_done, is_refused
from eventsched.cluster.kube.http.request_limiter import RequestLimiter
from eventsched.cluster.kube.watch.object_decoding import Decoder
from eventsched.cluster.kube.watch.resources import POD
from eventsched.cluster.messages import (
    BindPod,
    Bound,
    EvictPod,
    GetPod,
    PatchStatus,
    PodAbsent,
    PodAnswer,
    PodRequest,
    PodShown,
    Reported,
    TouchPod,
    Unknown,
    WriteAnswer,
    WriteEvent,
    WriteObject,
)

CONCURRENCY = 64
"""Default number of concurrent requests."""


def _microseconds() -> int:
    return time.time_ns() // 1000


class RequestDispatcher:
    """Carries out requests, each in the task that calls it. ``counts`` counts them by the names of
    the request's and the answer's type; ``gate`` limits how many are sent at a time."""

    def __init__(
        self,
        api: ApiClient,
        *,
        host: str,
        concurrency: int = CONCURRENCY,
        now: Callable[[], int] = _microseconds,
        clock: Callable[[], float] = time.monotonic,
        nonce: Callable[[], str] = secrets.token_urlsafe,
        decoders: Mapping[str, Decoder] = MappingProxyType({}),
    ) -> None:
        """``host`` names this process in Events; ``now`` gives microseconds since 1970, ``clock``
        monotonic seconds, ``nonce`` a new text at each call. ``decoders`` are those of the watches,
        by type. With them an object in an answer keeps the same annotations as in a watch, and is
        not translated again if the watch has decoded it already."""
        self.gate = RequestLimiter(concurrency)
        self.refusals = Refusals(clock)
        self.counts: Counter[tuple[str, str]] = Counter()
        self._pods = PodCalls(api, self.refusals, decoders.get(POD))
        self._reports = StatusCalls(self._pods)
        self._volumes = VolumeCalls(api, self.refusals, decoders)
        self._event_calls = EventCalls(api, self.refusals, host)
        self._now = now
        self._nonce = nonce

    def decode_with(self, decoders: Mapping[str, Decoder]) -> None:
        """Decodes with others from now on: those of another watch."""
        self._pods.decoder = decoders[POD]
        self._volumes.decode_with(decoders)

    async def carry_out(
        self, request: PodRequest | WriteEvent | WriteObject
    ) -> PodAnswer | Reported | WriteAnswer | Unknown:
        """Sends a request once a slot is free, and returns its outcome. Raises only CancelledError;
        the outcome is unknown then."""
        answer: PodAnswer | Reported | WriteAnswer | Unknown
        name = type(request).__name__
        try:
            match request:
                case WriteEvent():
                    async with self.gate.report():
                        answer = await self._event_calls.write_event(request)
                case PatchStatus():
                    async with self.gate.report():
                        answer = await self._reports.patch_status(request)
                case WriteObject():
                    async with self.gate.urgent():
                        answer = await self._volumes.write(request)
                case _:
                    async with self.gate.urgent():
                        answer = await self._carry_out_urgent(request)
        except UnansweredError as error:
            self.refusals.unanswered(name, error.reason, pod=f"{request.namespace}/{request.name}")
            answer = Unknown(request)
        else:
            self.refusals.accepted(name)
        self.counts[name, type(answer).__name__] += 1
        return answer

    async def _carry_out_urgent(
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
        """Returns ``PodShown`` only if the patch succeeded, because the caller takes it as proof
        that older binds of the pod will fail."""
        answer = await self._patch(request, request_bodies.touch(request, self._nonce()))
        if is_done(answer):
            return self._pods.shown(request, answer)
        outcome = await self._after(request, answer)
        return outcome if isinstance(outcome, PodAbsent) else Unknown(request)

    async def _evict(self, request: EvictPod) -> PodAnswer | Unknown:
        """As in upstream (framework/preemption executor.go): writes the condition, then deletes the
        pod. If the condition cannot be written, the pod is not deleted. A pod that is being deleted
        already is left alone."""
        read = await self._pods.read(request)
        outcome = self._pods.shown(request, read)
        if not isinstance(outcome, PodShown) or outcome.seen.pod.deleting:
            return outcome
        if not outcome.seen.pod.displaced:
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
        """The outcome after an answer without success: the pod as it is now if the request was
        refused, otherwise unknown."""
        if is_refused(answer):
            return await self._pods.look(request)
        return Unknown(request)
