"""The versions in which a leader has seen the objects of the cluster: what is old is recognized."""

import sys
from collections.abc import Iterable, Iterator

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

    A watch reports its events in order, but may repeat some after a reconnect. An answer to a
    request can be ahead of the watch. The entry of an object goes when the watch reports its
    deletion, and no answer adds one after that: there are no more entries than objects.
    """

    def __init__(self) -> None:
        self.upto = 0
        """The watch has reported all changes up to this resourceVersion."""
        self._versions: dict[str, int] = {}

    def version(self, key: str) -> int:
        """The newest resourceVersion in which an object was seen; 0 if it never was."""
        return self._versions.get(key, 0)

    def note_event(self, key: str, version: int) -> bool:
        """Takes in a watch event. True if it is new."""
        if version <= self.upto:
            return False
        self.upto = version
        return self.note_listed(key, version)

    def note_deletion(self, key: str, version: int) -> bool:
        """Takes in the end of an object, from the watch. True if it is new."""
        if version <= self.upto:
            return False
        self.upto = version
        self._versions.pop(key, None)
        return True

    def note_answer(self, key: str, version: int) -> bool:
        """Takes in an object from an answer to a request. True if it is new. The watch has reported
        the deletion of an object that was not seen, but is as old as the last event."""
        if key not in self._versions and version <= self.upto:
            return False
        return self.note_listed(key, version)

    def note_listed(self, key: str, version: int) -> bool:
        """Takes in an object of a list. True if it is new."""
        if version <= self.version(key):
            return False
        self._versions[key] = version
        return True

    def note_absence(self, key: str) -> None:
        """An answer said that an object is gone: later events of the watch about it are old. There
        are none if the watch has reported the deletion already."""
        if key in self._versions:
            self._versions[key] = _FOREVER

    def note_list(self, version: int, keys: set[str]) -> None:
        """Takes in a list of the resourceVersion ``version`` with these objects."""
        for key in [key for key in self._versions if key not in keys]:
            del self._versions[key]
        self.upto = max(self.upto, version)


class SeenResources:
    """The seen versions of all resources."""

    def __init__(self) -> None:
        self._seen: dict[str, SeenVersions] = {}

    def of(self, resource: str) -> SeenVersions:
        """The versions of one resource's objects."""
        return self._seen.setdefault(resource, SeenVersions())

    @property
    def upto(self) -> dict[str, int]:
        """The resourceVersion up to which each watch has reported all changes, by resource."""
        return {resource: versions.upto for resource, versions in sorted(self._seen.items())}

    def note_event(self, event: Seen | Gone) -> Stimulus | None:
        """Takes in an event of a watch, as a stimulus; None if nothing is new."""
        resource, key = resource_and_key(event)
        versions, version = self.of(resource), event.resource_version
        match event:
            case PodSeen() | NodeSeen() | ObjectSeen():
                return stimulus_of(event) if versions.note_event(key, version) else None
            case PodGone() | NodeGone() | ObjectGone():
                return end_of(event) if versions.note_deletion(key, version) else None

    def note_answer(self, seen: Seen) -> bool:
        """Takes in an object from an answer to a request. True if it is new."""
        resource, key = resource_and_key(seen)
        return self.of(resource).note_answer(key, seen.resource_version)

    def note_listed(self, seen: Iterable[Seen]) -> Iterator[Stimulus | None]:
        """Takes in listed objects. For each its stimulus, or None if it is not new."""
        for listed in seen:
            yield stimulus_of(listed) if self._note_listed(listed) else None

    def _note_listed(self, listed: Seen) -> bool:
        resource, key = resource_and_key(listed)
        return self.of(resource).note_listed(key, listed.resource_version)


def key_of_object(namespace: str, name: str) -> str:
    """The key of an object that is neither a pod nor a node."""
    return f"{namespace}/{name}"


def resource_and_key(event: Seen | Gone) -> tuple[str, str]:
    """The resource and key of an event's object."""
    match event:
        case PodSeen(pod=pod):
            return POD, pod.uid
        case PodGone(uid=uid):
            return POD, uid
        case NodeSeen(node=node):
            return NODE, node.name
        case NodeGone(name=name):
            return NODE, name
        case ObjectSeen(object=cluster_object):
            key = key_of_object(cluster_object.namespace, cluster_object.name)
            return type(cluster_object).__name__, key
        case ObjectGone(type=kind, namespace=namespace, name=name):
            return kind, key_of_object(namespace, name)


def stimulus_of(seen: Seen) -> Stimulus:
    """The stimulus that takes an object into the engine."""
    match seen:
        case PodSeen(pod=pod):
            return records.PodUpdated(pod=pod)
        case NodeSeen(node=node):
            return records.NodeUpdated(node=node)
        case ObjectSeen(object=cluster_object):
            return records.ObjectChanged(object=cluster_object)


def end_of(gone: Gone) -> Stimulus:
    """The stimulus that takes an object's end into the engine."""
    match gone:
        case PodGone(uid=uid):
            return records.PodDeleted(uid=uid)
        case NodeGone(name=name):
            return records.NodeDeleted(name=name)
        case ObjectGone(type=kind, namespace=namespace, name=name):
            return records.ObjectDeleted(type=kind, namespace=namespace, name=name)
