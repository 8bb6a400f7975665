"""How new what a leader has seen of the cluster is: older news are told from newer ones."""

import sys
from collections.abc import Iterable

from eventsched.cluster.messages import (
    Gone,
    NodeGone,
    NodeSeen,
    ObjectGone,
    ObjectSeen,
    PodGone,
    PodSeen,
    Seen,
)
from eventsched.domain import records
from eventsched.domain.records import Stimulus

_FOREVER = sys.maxsize
POD, NODE = "Pod", "Node"


class SeenVersions:
    """The resourceVersions of one resource's objects, by key (uid, name, or namespace/name).

    A watch tells its events in order, but may repeat some after a reconnect; an answer to a request
    of ours can be ahead of the watch.
    """

    def __init__(self) -> None:
        self.upto = 0
        """The watch has told all changes up to this resourceVersion."""
        self._versions: dict[str, int] = {}

    def version(self, key: str) -> int:
        """The newest resourceVersion in which an object was seen; 0 where it never was."""
        return self._versions.get(key, 0)

    def watched(self, key: str, version: int) -> bool:
        """Takes in an event of the watch; whether it is news."""
        if version <= self.upto:
            return False
        self.upto = version
        return self.answered(key, version)

    def vanished(self, key: str, version: int) -> bool:
        """Takes in that the watch saw an object's end; whether that is news."""
        if version <= self.upto:
            return False
        self.upto = version
        self._versions.pop(key, None)
        return True

    def answered(self, key: str, version: int) -> bool:
        """Takes in an object that was part of an answer; whether it is news."""
        if version <= self.version(key):
            return False
        self._versions[key] = version
        return True

    def absent(self, key: str) -> None:
        """An answer said that an object is gone: what the watch still tells of it is old."""
        self._versions[key] = _FOREVER

    def relisted(self, version: int, keys: set[str]) -> list[str]:
        """Takes in that a list of a resourceVersion has these objects; returns the others that were
        seen before, and are gone."""
        gone = [key for key in self._versions if key not in keys]
        for key in gone:
            del self._versions[key]
        self.upto = max(self.upto, version)
        return gone


class SeenResources:
    """All resources, each with a sight of its own."""

    def __init__(self) -> None:
        self._seen: dict[str, SeenVersions] = {}

    def of(self, resource: str) -> SeenVersions:
        """A resource's."""
        return self._seen.setdefault(resource, SeenVersions())

    @property
    def upto(self) -> dict[str, int]:
        """How far each watch has told everything, by resource."""
        return {resource: sight.upto for resource, sight in sorted(self._seen.items())}

    def watched(self, event: Seen | Gone) -> Stimulus | None:
        """Takes in an event of a watch; None where it is no news."""
        resource, key = place_of(event)
        sight, version = self.of(resource), event.resource_version
        match event:
            case PodSeen() | NodeSeen() | ObjectSeen():
                return stimulus_of(event) if sight.watched(key, version) else None
            case PodGone() | NodeGone() | ObjectGone():
                return end_of(event) if sight.vanished(key, version) else None

    def answered(self, seen: Seen) -> bool:
        """Takes in an object that was part of an answer; whether it is news."""
        resource, key = place_of(seen)
        return self.of(resource).answered(key, seen.resource_version)

    def news(self, seen: Iterable[Seen]) -> list[Stimulus]:
        """Takes in a list; what of it is news."""
        return [stimulus_of(each) for each in seen if self.answered(each)]


def key_of_object(namespace: str, name: str) -> str:
    """The key of an object that is neither a pod nor a node."""
    return f"{namespace}/{name}"


def place_of(event: Seen | Gone) -> tuple[str, str]:
    """The resource and key of what an event is about."""
    match event:
        case PodSeen(pod=pod):
            return POD, pod.uid
        case PodGone(uid=uid):
            return POD, uid
        case NodeSeen(node=node):
            return NODE, node.name
        case NodeGone(name=name):
            return NODE, name
        case ObjectSeen(object=found):
            return type(found).__name__, key_of_object(found.namespace, found.name)
        case ObjectGone(type=kind, namespace=namespace, name=name):
            return kind, key_of_object(namespace, name)


def stimulus_of(seen: Seen) -> Stimulus:
    """What the engine is told of an object."""
    match seen:
        case PodSeen(pod=pod):
            return records.PodUpdated(pod=pod)
        case NodeSeen(node=node):
            return records.NodeUpdated(node=node)
        case ObjectSeen(object=found):
            return records.ObjectChanged(object=found)


def end_of(gone: Gone) -> Stimulus:
    """What the engine is told of an object's end."""
    match gone:
        case PodGone(uid=uid):
            return records.PodDeleted(uid=uid)
        case NodeGone(name=name):
            return records.NodeDeleted(name=name)
        case ObjectGone(type=kind, namespace=namespace, name=name):
            return records.ObjectDeleted(type=kind, namespace=namespace, name=name)
