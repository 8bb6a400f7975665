"""Which annotations of objects are kept: those that somebody has said are read.

Annotations hold anything, secrets too, and what is kept stays in the log for ever. So of pods and
nodes only what a plugin declares (its attribute ``annotations``) or the settings name
(``keepAnnotations``) is kept; of claims and volumes, and of all other objects, also what says how
they are bound.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from eventsched.cluster.messages import NodeSeen, ObjectSeen, PodSeen, Seen
from eventsched.domain.objects import Node, Pod

BINDING = ("pv.kubernetes.io/", "volume.beta.kubernetes.io/", "volume.kubernetes.io/")
"""Prefixes of the annotations that VolumeBinding and the controllers of volumes go by."""

Object = TypeVar("Object")


class KeptAnnotations:
    """``patterns`` are names, or beginnings of names: those end with ``/`` or with ``*``."""

    def __init__(self, patterns: Iterable[str] = ()) -> None:
        self.patterns: Sequence[str] = tuple(sorted(set(patterns)))
        self._names = frozenset(each for each in self.patterns if not each.endswith(("/", "*")))
        beginnings = [each.removesuffix("*") for each in self.patterns if each not in self._names]
        self._beginnings = tuple(beginnings)
        self._of_objects = (*beginnings, *BINDING)

    def of(self, annotations: Mapping[str, str]) -> dict[str, str]:
        """What is kept of a pod's or a node's."""
        return self._kept(annotations, self._beginnings)

    def seen(self, found: Object) -> Object:
        """A pod, a node or another object with what is kept; itself where that is all."""
        annotations: Mapping[str, str] | None = getattr(found, "annotations", None)
        if not annotations:
            return found
        of_pods = isinstance(found, Pod | Node)
        kept = self._kept(annotations, self._beginnings if of_pods else self._of_objects)
        if len(kept) == len(annotations):
            return found
        changed: Any = msgspec.structs.replace(found, annotations=kept)  # type: ignore[type-var]
        return changed  # type: ignore[no-any-return]

    def within(self, seen: Seen) -> Seen:
        """What was seen of a cluster, with what is kept; itself where that is all."""
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

    def _kept(self, annotations: Mapping[str, str], beginnings: tuple[str, ...]) -> dict[str, str]:
        return {
            name: value
            for name, value in annotations.items()
            if name in self._names or name.startswith(beginnings)
        }


EVERYTHING = KeptAnnotations("*")
"""All annotations."""
