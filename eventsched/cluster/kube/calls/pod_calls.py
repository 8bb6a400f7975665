"""Single pods at an API server: requests about one, and what the answers show of it."""

import msgspec
import structlog

from eventsched.cluster.kube.calls.request_bodies import PodCondition
from eventsched.cluster.kube.http.api import JSON, Api, HttpAnswer, path
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
    """What writing needs to know of a pod, and scheduling does not."""

    metadata: _Metadata = _Metadata()
    status: _Status = _Status()

    def condition(self, type_: str) -> PodCondition | None:
        """The pod's condition of a type."""
        found = (each for each in self.status.conditions or () if each.type == type_)
        return next(found, None)


outline = msgspec.json.Decoder(WrittenPod).decode
"""The outline of a pod in an answer's body."""


class PodCalls:
    """Requests about single pods. A pod that has run to its end counts as absent, as in a watch."""

    def __init__(self, api: Api, refusals: Refusals, decoder: Decoder | None = None) -> None:
        """``decoder`` reads the pods of answers: that of the watch knows most of them already."""
        self._api = api
        self._decoder = decoder or Decoder(next(each for each in RESOURCES if each.type == POD))
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
        """The pod as it is now: without a resourceVersion in the query the read is a consistent
        one. Raises UnansweredError."""
        return await self.ask("GET", request)

    async def look(self, request: PodRequest) -> PodShown | PodAbsent | Unknown:
        """Reads the pod. Raises UnansweredError."""
        return self.shown(request, await self.read(request))

    def shown(self, request: PodRequest, answer: HttpAnswer) -> PodShown | PodAbsent | Unknown:
        """What an answer says of the pod; Unknown where it says nothing of it."""
        if is_absent(answer):
            return PodAbsent(request)
        if not is_done(answer):
            return Unknown(request)
        told = self._decoder.answer(answer.body)
        if told.key and told.key != request.uid:
            return PodAbsent(request)
        if told.problem:
            pod = f"{request.namespace}/{request.name}"
            logger.error("a pod cannot be read", pod=pod, problem=told.problem)
            return Unknown(request)
        return (
            PodShown(request, told.seen) if isinstance(told.seen, PodSeen) else PodAbsent(request)
        )


_VERBS = {"GET": "get", "POST": "create", "PATCH": "patch", "DELETE": "delete"}
