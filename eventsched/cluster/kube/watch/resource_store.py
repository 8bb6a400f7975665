"""The state of one resource: its objects, the version reached, and the watch's problems."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from eventsched.cluster.kube.watch.decoded import Decoded
from eventsched.cluster.kube.watch.object_decoding import Keeps
from eventsched.cluster.kube.watch.resources import Resource
from eventsched.cluster.messages import (
    Gone,
    Listing,
    NodeGone,
    NodeSeen,
    ObjectGone,
    ObjectSeen,
    PodGone,
    PodSeen,
    Relisted,
    Seen,
    WatchEvent,
)
from eventsched.cluster.translate.kept_annotations import KeptAnnotations


class ReportProblem(Protocol):
    """Takes what people should know: a level (``info``, ``warning``, ``error``), the name of what
    happened, and what belongs to it."""

    def __call__(self, level: str, event: str, **fields: object) -> None: ...


@dataclass(frozen=True, slots=True)
class UndecodableObject:
    """An object that cannot be read. ``kept`` says that scheduling goes on with what it was like at
    an earlier version."""

    resource: str
    name: str
    reason: str
    version: int
    kept: bool


@dataclass(slots=True)
class WatchProgress:
    """How the watch of a resource gets on. ``last_line`` is the clock's time (s) of the last line
    (bookmarks among them), or when the watch began; ``problem`` is why there is no watch now, ""
    while there is one."""

    lines: int = 0
    relists: int = 0
    reconnects: int = 0
    last_line: float | None = None
    problem: str = "not listed yet"


class ResourceStore:
    """The objects of one resource, by the keys of ``Decoded``."""

    def __init__(
        self,
        resource: Resource,
        tell: Callable[[WatchEvent], None],
        report: ReportProblem,
        keeps: Keeps | None = None,
        annotations: KeptAnnotations | None = None,
    ) -> None:
        """``tell`` gets all news after the first list; ``keeps`` says of which objects the bytes
        are kept as well, ``annotations`` which of an object's are."""
        self.resource = resource
        self.keeps = keeps
        self.annotations = annotations
        self.raw: dict[str, bytes] = {}
        """The bytes of objects, by the same keys."""
        self.seen: dict[str, Seen] = {}
        self.undecodable: dict[str, UndecodableObject] = {}
        self.version = 0
        """Everything up to this resourceVersion is known; 0 before the first list."""
        self.progress = WatchProgress()
        self._tell = tell
        self._report = report
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []

    def known(self, key: str) -> Seen | None:
        """The object last seen under a key, if it still exists."""
        return self.seen.get(key)

    @property
    def listing(self) -> Listing:
        """All objects as currently known."""
        return Listing(self.resource.type, self.version, list(self.seen.values()))

    def take(self, told: Decoded) -> None:
        """Applies an event of a watch; one that is already known is ignored."""
        if told.version > self.version:
            self.version = told.version
            if told.problem:
                self._refuse(told)
            elif told.seen is not None:
                self._keep(told)
                self._put(told.key, told.seen)
            elif told.key:
                self._remove(told.key, told.version)
            if self._waiting:
                self._wake()
        elif told.problem and not told.version:
            self._refuse(told)

    def replace(self, version: int, told: Iterable[Decoded]) -> None:
        """Replaces all objects by those of a list."""
        since, before = self.version, self.seen
        known, self.undecodable = self.undecodable, {}
        self.seen = {}
        for each in told:
            old = before.get(each.key)
            if each.problem:
                if old is not None:
                    self.seen[each.key] = old
                self._refuse(each, known)
            elif each.seen is not None:
                self._keep(each)
                self.seen[each.key] = each.seen if old is None else _shared(old, each.seen)
        for key in self.raw.keys() - self.seen.keys():
            del self.raw[key]
        self.version = version
        if since:
            self._tell(Relisted(self.listing, since))
        self._wake()

    async def reached(self, version: int) -> None:
        """Returns when everything up to a resourceVersion is known."""
        if self.version < version:
            future = asyncio.get_running_loop().create_future()
            self._waiting.append((version, future))
            await future

    # --- changes --------------------------------------------------------------------------

    def _keep(self, told: Decoded) -> None:
        if told.raw:
            self.raw[told.key] = told.raw
        else:
            self.raw.pop(told.key, None)

    def _put(self, key: str, seen: Seen) -> None:
        if self.undecodable.pop(key, None) is not None:
            self._report("info", "object_readable_again", resource=self.resource.type, object=key)
        old = self.seen.get(key)
        if old is None:
            self.seen[key] = seen
            self._tell(seen)
            return
        self.seen[key] = seen = _shared(old, seen)
        if not _is_idle(old, seen):
            self._tell(seen)

    def _remove(self, key: str, version: int) -> None:
        self.undecodable.pop(key, None)
        self.raw.pop(key, None)
        old = self.seen.pop(key, None)
        if old is not None:
            self._tell(_gone(old, version))

    def _refuse(self, told: Decoded, known: dict[str, UndecodableObject] | None = None) -> None:
        """What cannot be read is told to people once for each reason; what it was like before stays
        as it is, for it still is there."""
        found = UndecodableObject(
            self.resource.type, told.name, told.problem, told.version, told.key in self.seen
        )
        before = (self.undecodable if known is None else known).get(told.key)
        self.undecodable[told.key] = found
        if before is None or before.reason != found.reason:
            self._report(
                "warning",
                "object_not_readable",
                resource=found.resource,
                object=found.name,
                reason=found.reason,
                kept=found.kept,
            )

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for version, future in waiting:
            if future.done():
                continue
            if version <= self.version:
                future.set_result(None)
            else:
                self._waiting.append((version, future))


def _shared(old: Seen, new: Seen) -> Seen:
    """What was seen; of equal objects only the first is kept, so that all hold the same one."""
    match old, new:
        case PodSeen(), PodSeen() if old.pod == new.pod:
            return PodSeen(old.pod, new.resource_version)
        case NodeSeen(), NodeSeen() if old.node == new.node:
            return NodeSeen(old.node, new.resource_version)
        case ObjectSeen(), ObjectSeen() if old.object == new.object:
            return ObjectSeen(old.object, new.resource_version)
    return new


def _is_idle(old: Seen, new: Seen) -> bool:
    """Whether a change is none to scheduling: heartbeats of nodes, the status of running pods. Of a
    pod without a node also the resourceVersion counts: binds name it."""
    match old, new:
        case PodSeen(), PodSeen():
            return old.pod is new.pod and bool(new.pod.node_name)
        case NodeSeen(), NodeSeen():
            return old.node is new.node
        case ObjectSeen(), ObjectSeen():
            return old.object is new.object
    return False


def _gone(old: Seen, version: int) -> Gone:
    match old:
        case PodSeen(pod=pod):
            return PodGone(pod.uid, version)
        case NodeSeen(node=node):
            return NodeGone(node.name, version)
        case ObjectSeen(object=found):
            return ObjectGone(type(found).__name__, found.namespace, found.name, version)
