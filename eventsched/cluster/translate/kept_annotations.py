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
    """``patterns`` are names, or prefixes of names, which end with ``/`` or ``*``."""

    def __init__(self, patterns: Iterable[str] = ()) -> None:
        self.patterns: Sequence[str] = tuple(sorted(set(patterns)))
        self._names = frozenset(name for name in self.patterns if not name.endswith(("/", "*")))
        prefixes = [name.removesuffix("*") for name in self.patterns if name not in self._names]
        self._prefixes = tuple(prefixes)
        self._object_prefixes = (*prefixes, *BINDING)

    def of(self, annotations: Mapping[str, str]) -> dict[str, str]:
        """The annotations of a pod or a node that are kept."""
        return self._kept(annotations, self._prefixes)

    def seen(self, found: Object) -> Object:
        """A pod, node or other object without the rest; the same object if nothing is dropped."""
        annotations: Mapping[str, str] | None = getattr(found, "annotations", None)
        if not annotations:
            return found
        of_pods = isinstance(found, Pod | Node)
        kept = self._kept(annotations, self._prefixes if of_pods else self._object_prefixes)
        if len(kept) == len(annotations):
            return found
        changed: Any = msgspec.structs.replace(found, annotations=kept)  # type: ignore[type-var]
        return changed  # type: ignore[no-any-return]

    def within(self, seen: Seen) -> Seen:
        """The same for a message that carries an object."""
        found: Any
        match seen:
            case PodSeen(pod=pod):
                found = self.seen(pod)
                return seen if found is pod else PodSeen(found, seen.resource_version)
            case NodeSeen(node=node):
                found = self.seen(node)
                return seen if found is node else NodeSeen(found, seen.resource_version)
            case ObjectSeen(object=other):
                found = self.seen(other)
                return seen if found is other else ObjectSeen(found, seen.resource_version)

    def _kept(self, annotations: Mapping[str, str], prefixes: tuple[str, ...]) -> dict[str, str]:
        return {
            name: value
            for name, value in annotations.items()
            if name in self._names or name.startswith(prefixes)
        }


EVERYTHING = KeptAnnotations("*")
"""All annotations."""
