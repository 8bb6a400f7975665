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
    """Logs an event of a watch: a level (``info``, ``warning``, ``error``), the event's name and
    its fields."""

    def __call__(self, level: str, event: str, **fields: object) -> None: ...


@dataclass(frozen=True, slots=True)
class UndecodableObject:
    """An object that cannot be decoded. If ``kept``, scheduling continues with an earlier version
    of it."""

    resource: str
    name: str
    reason: str
    version: int
    kept: bool


@dataclass(slots=True)
class WatchProgress:
    """The state of a resource's watch. ``last_line`` is the monotonic time (s) of the last line,
    including bookmarks, or of the watch's start. ``problem`` says why there is no watch now; "" if
    there is one."""

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
        publish: Callable[[WatchEvent], None],
        report: ReportProblem,
        keeps: Keeps | None = None,
        annotations: KeptAnnotations | None = None,
    ) -> None:
        """``publish`` gets all changes after the first list. ``keeps`` selects the objects whose
        bytes are kept, ``annotations`` the annotations that are kept."""
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
        self._publish = publish
        self._report = report
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []

    def known(self, key: str) -> Seen | None:
        """The object with this key as last seen; None if it does not exist."""
        return self.seen.get(key)

    @property
    def listing(self) -> Listing:
        """All objects as currently known."""
        return Listing(self.resource.type, self.version, list(self.seen.values()))

    def take(self, decoded: Decoded) -> None:
        """Applies an event of a watch, unless its version has been reached already."""
        if decoded.version > self.version:
            self.version = decoded.version
            if decoded.problem:
                self._add_undecodable(decoded, self.undecodable.get(decoded.key))
            elif decoded.seen is not None:
                self._keep_bytes(decoded)
                self._put(decoded.key, decoded.seen)
            elif decoded.key:
                self._remove(decoded.key, decoded.version)
            if self._waiting:
                self._wake()
        elif decoded.problem and not decoded.version:
            self._add_undecodable(decoded, self.undecodable.get(decoded.key))

    def replace(self, version: int, objects: Iterable[Decoded]) -> None:
        """Replaces all objects by those of a list at a resourceVersion."""
        version_before, seen_before = self.version, self.seen
        undecodable_before, self.undecodable = self.undecodable, {}
        self.seen = {}
        for decoded in objects:
            old = seen_before.get(decoded.key)
            if decoded.problem:
                if old is not None:
                    self.seen[decoded.key] = old
                self._add_undecodable(decoded, undecodable_before.get(decoded.key))
            elif decoded.seen is not None:
                self._keep_bytes(decoded)
                self.seen[decoded.key] = decoded.seen if old is None else _shared(old, decoded.seen)
        for key in self.raw.keys() - self.seen.keys():
            del self.raw[key]
        self.version = version
        if version_before:
            self._publish(Relisted(self.listing, version_before))
        self._wake()

    async def reached(self, version: int) -> None:
        """Returns when everything up to a resourceVersion is known."""
        if self.version < version:
            future = asyncio.get_running_loop().create_future()
            self._waiting.append((version, future))
            await future

    # --- changes --------------------------------------------------------------------------

    def _keep_bytes(self, decoded: Decoded) -> None:
        if decoded.raw:
            self.raw[decoded.key] = decoded.raw
        else:
            self.raw.pop(decoded.key, None)

    def _put(self, key: str, seen: Seen) -> None:
        if self.undecodable.pop(key, None) is not None:
            self._report("info", "object_readable_again", resource=self.resource.type, object=key)
        old = self.seen.get(key)
        if old is None:
            self.seen[key] = seen
            self._publish(seen)
            return
        self.seen[key] = seen = _shared(old, seen)
        if not _is_idle(old, seen):
            self._publish(seen)

    def _remove(self, key: str, version: int) -> None:
        self.undecodable.pop(key, None)
        self.raw.pop(key, None)
        old = self.seen.pop(key, None)
        if old is not None:
            self._publish(_gone(old, version))

    def _add_undecodable(self, decoded: Decoded, before: UndecodableObject | None) -> None:
        """Records an object that cannot be decoded. Its last decodable version stays in the store,
        because the object still exists. It is logged only if ``before``, its last entry, had
        another reason."""
        undecodable = UndecodableObject(
            self.resource.type,
            decoded.name,
            decoded.problem,
            decoded.version,
            decoded.key in self.seen,
        )
        self.undecodable[decoded.key] = undecodable
        if before is None or before.reason != undecodable.reason:
            self._report(
                "warning",
                "object_not_readable",
                resource=undecodable.resource,
                object=undecodable.name,
                reason=undecodable.reason,
                kept=undecodable.kept,
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
    """``new``, but with the object of ``old`` if the two are equal: then only one of them stays in
    memory, and comparing them by identity is enough."""
    match old, new:
        case PodSeen(), PodSeen() if old.pod == new.pod:
            return PodSeen(old.pod, new.resource_version)
        case NodeSeen(), NodeSeen() if old.node == new.node:
            return NodeSeen(old.node, new.resource_version)
        case ObjectSeen(), ObjectSeen() if old.object == new.object:
            return ObjectSeen(old.object, new.resource_version)
    return new


def _is_idle(old: Seen, new: Seen) -> bool:
    """Whether scheduling reads nothing of what changed, as in a node's heartbeat or the status of a
    running pod. For a pod without a node the resourceVersion matters too, because binds contain
    it."""
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
        case ObjectSeen(object=obj):
            return ObjectGone(type(obj).__name__, obj.namespace, obj.name, version)
