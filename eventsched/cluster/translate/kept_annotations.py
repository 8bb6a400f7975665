"""Which annotations of objects are kept: only those that are declared to be read.

Annotations may hold secrets, and the log keeps them forever. So pods and nodes keep only those that
a plugin declares (its attribute ``annotations``) or the settings name (``keepAnnotations``). All
other objects also keep those of volume binding.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from eventsched.cluster.messages import NodeSeen, ObjectSeen, PodSeen, Seen
from eventsched.domain.objects import Node, Pod

BINDING = ("pv.kubernetes.io/", "volume.beta.kubernetes.io/", "volume.kubernetes.io/")
"""Prefixes of the annotations that VolumeBinding and the volume controllers read."""

Object = TypeVar("Object")


class KeptAnnotations:
    """Selects annotations by name. ``patterns`` are names or prefixes; a prefix ends with ``/`` or
    ``*``."""

    def __init__(self, patterns: Iterable[str] = ()) -> None:
        self.patterns: Sequence[str] = tuple(sorted(set(patterns)))
        self._names = frozenset(name for name in self.patterns if not name.endswith(("/", "*")))
        prefixes = [name.removesuffix("*") for name in self.patterns if name not in self._names]
        self._prefixes = tuple(prefixes)
        self._object_prefixes = (*prefixes, *BINDING)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KeptAnnotations) and other.patterns == self.patterns

    def __hash__(self) -> int:
        return hash(self.patterns)

    def select(self, annotations: Mapping[str, str]) -> dict[str, str]:
        """The annotations of a pod or a node that are kept."""
        return self._select(annotations, self._prefixes)

    def stripped(self, obj: Object) -> Object:
        """A pod, node or other object without the annotations that are not kept; the same object if
        nothing is dropped."""
        annotations: Mapping[str, str] | None = getattr(obj, "annotations", None)
        if not annotations:
            return obj
        prefixes = self._prefixes if isinstance(obj, Pod | Node) else self._object_prefixes
        selected = self._select(annotations, prefixes)
        if len(selected) == len(annotations):
            return obj
        changed: Object = msgspec.structs.replace(obj, annotations=selected)  # type: ignore[type-var]
        return changed

    def stripped_message(self, seen: Seen) -> Seen:
        """The same for a message that carries an object."""
        stripped: Any
        match seen:
            case PodSeen(pod=pod):
                stripped = self.stripped(pod)
                return seen if stripped is pod else PodSeen(stripped, seen.resource_version)
            case NodeSeen(node=node):
                stripped = self.stripped(node)
                return seen if stripped is node else NodeSeen(stripped, seen.resource_version)
            case ObjectSeen(object=obj):
                stripped = self.stripped(obj)
                return seen if stripped is obj else ObjectSeen(stripped, seen.resource_version)

    def _select(self, annotations: Mapping[str, str], prefixes: tuple[str, ...]) -> dict[str, str]:
        return {
            name: value
            for name, value in annotations.items()
            if name in self._names or name.startswith(prefixes)
        }


EVERYTHING = KeptAnnotations("*")
"""Keeps all annotations."""
