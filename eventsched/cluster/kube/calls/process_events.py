"""Events about this process itself: on its pod, or on the Lease of its election outside a cluster.

Upstream's recorder puts the Events of the election on the Lease (client-go
tools/leaderelection/resourcelock). The pod is where people look first.
"""

import time
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec
import structlog

from eventsched.cluster.kube.calls import request_bodies
from eventsched.cluster.kube.http import service_account
from eventsched.cluster.kube.http.api import ApiClient, UnansweredError, path
from eventsched.cluster.kube.http.refusals import Refusals, explained, is_done

CONTROLLER = "eventsched"

logger = structlog.get_logger()


class _Metadata(msgspec.Struct):
    uid: str = ""


class _Outline(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


class Regarding(NamedTuple):
    """The object of an Event."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str


class ProcessEvents:
    """Creates Events about a process."""

    def __init__(
        self,
        api: ApiClient,
        refusals: Refusals,
        host: str,
        lease: tuple[str, str] | None,
        namespace_file: str = service_account.NAMESPACE_FILE,
    ) -> None:
        """``host`` is the pod's name, if the process runs in a pod; ``lease`` the namespace and
        name of the Lease of its election."""
        self._api, self._refusals, self._host = api, refusals, host
        self._lease, self._namespace_file = lease, Path(namespace_file)

    async def announce(self, type_: Literal["Normal", "Warning"], reason: str, note: str) -> None:
        """Creates an Event. What cannot be written is only logged."""
        try:
            regarding = await self._regarding()
            if regarding is not None:
                await self._create(regarding, type_, reason, note)
        except UnansweredError as error:
            logger.warning("an Event was not written", reason=error.reason, event_reason=reason)

    async def _create(self, regarding: Regarding, type_: str, reason: str, note: str) -> None:
        at = time.time_ns()
        body = request_bodies.process_event(
            regarding, type_, reason, note, controller=CONTROLLER, host=self._host, at=at
        )
        events = path("apis", "events.k8s.io", "v1", "namespaces", regarding.namespace, "events")
        answer = await self._api.call("POST", events, body=body)
        self._refusals.saw("create events.k8s.io events", answer)
        if not is_done(answer):
            logger.warning(
                "an Event was not written", reason=explained(answer), event_reason=reason
            )

    async def _regarding(self) -> Regarding | None:
        """This process's pod, else its Lease, else nothing."""
        namespace = _text(self._namespace_file)
        if namespace:
            target = path("api", "v1", "namespaces", namespace, "pods", self._host)
            if (uid := await self._uid(target)) is not None:
                return Regarding("v1", "Pod", namespace, self._host, uid)
        if self._lease is None:
            return None
        namespace, name = self._lease
        group = ("apis", "coordination.k8s.io", "v1")
        uid = await self._uid(path(*group, "namespaces", namespace, "leases", name))
        return (
            None if uid is None else Regarding("/".join(group[1:]), "Lease", namespace, name, uid)
        )

    async def _uid(self, target: str) -> str | None:
        """The uid of an object; None if it cannot be read."""
        answer = await self._api.call("GET", target)
        if not is_done(answer):
            return None
        try:
            return msgspec.json.decode(answer.body, type=_Outline).metadata.uid
        except msgspec.DecodeError:
            return None


def _text(file: Path) -> str:
    try:
        return file.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""
