"""Requests to an API server about single pods, and the pods in its answers."""

import msgspec
import structlog

from eventsched.cluster.kube.calls.request_bodies import PodCondition
from eventsched.cluster.kube.http.api import JSON, ApiClient, HttpAnswer, path
from eventsched.cluster.kube.http.refusals import Refusals, is_absent, is_done
from eventsched.cluster.kube.watch.object_decoding import Decoder
from eventsched.cluster.kube.watch.resources import POD, RESOURCES
from eventsched.cluster.messages import PodAbsent, PodRequest, PodSeen, PodShown, Unknown

_NAMESPACES = path("api", "v1", "namespaces")

logger = structlog.get_logger()


class _Metadata(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str = ""
    generation: int = 0
    deletion_grace_period_seconds: int | None = None


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    conditions: list[PodCondition] | None = None
    nominated_node_name: str | None = None


class WrittenPod(msgspec.Struct, frozen=True):
    """The fields of a pod that writes need, but scheduling does not read."""

    metadata: _Metadata = _Metadata()
    status: _Status = _Status()

    def condition(self, type_: str) -> PodCondition | None:
        """The pod's condition of a type, if it has one."""
        conditions = self.status.conditions or ()
        return next((condition for condition in conditions if condition.type == type_), None)


outline = msgspec.json.Decoder(WrittenPod).decode
"""Decodes the body of an answer. Raises msgspec.DecodeError."""


class PodCalls:
    """Requests about single pods. A finished pod counts as absent, as in a watch."""

    def __init__(self, api: ApiClient, refusals: Refusals, decoder: Decoder | None = None) -> None:
        """``decoder`` decodes the pods of answers. The watch's own decoder is the fastest, because
        it knows most pods already."""
        self._api = api
        self.decoder = decoder or Decoder(
            next(resource for resource in RESOURCES if resource.type == POD)
        )
        self._refusals = refusals

    async def ask(
        self,
        method: str,
        request: PodRequest,
        part: str = "",
        body: bytes | None = None,
        content_type: str = JSON,
    ) -> HttpAnswer:
        """Sends a request about a pod, or a ``part`` of it (binding, status). Raises
        UnansweredError."""
        target = _NAMESPACES + path(request.namespace, "pods", request.name)
        answer = await self._api.call(
            method, f"{target}/{part}" if part else target, body=body, content_type=content_type
        )
        resource = f"pods/{part}" if part else "pods"
        self._refusals.saw(
            f"{_VERBS[method]} {resource}", answer, pod=f"{request.namespace}/{request.name}"
        )
        return answer

    async def read(self, request: PodRequest) -> HttpAnswer:
        """Reads the pod. The read is consistent, because the query has no resourceVersion. Raises
        UnansweredError."""
        return await self.ask("GET", request)

    async def look(self, request: PodRequest) -> PodShown | PodAbsent | Unknown:
        """Reads and decodes the pod. Raises UnansweredError."""
        return self.shown(request, await self.read(request))

    def shown(self, request: PodRequest, answer: HttpAnswer) -> PodShown | PodAbsent | Unknown:
        """The pod in an answer; Unknown if the answer does not show whether it exists."""
        if is_absent(answer):
            return PodAbsent(request)
        if not is_done(answer):
            return Unknown(request)
        decoded = self.decoder.answer(answer.body)
        if decoded.key and decoded.key != request.uid:
            return PodAbsent(request)
        if decoded.problem:
            pod = f"{request.namespace}/{request.name}"
            logger.error("a pod cannot be read", pod=pod, problem=decoded.problem)
            return Unknown(request)
        seen = decoded.seen
        return PodShown(request, seen) if isinstance(seen, PodSeen) else PodAbsent(request)


_VERBS = {"GET": "get", "POST": "create", "PATCH": "patch", "DELETE": "delete"}
