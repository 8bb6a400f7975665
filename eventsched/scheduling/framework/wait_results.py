"""Answers of Permit and PreBind that make a bind wait."""

from dataclasses import dataclass

from eventsched.domain.objects.registry import TYPES, ClusterObject
from eventsched.domain.records.object_writes import Write

ObjectKey = tuple[str, str, str]
"""Type, namespace and name of an object: ("PersistentVolumeClaim", "shop", "data"). The types are
those of domain/objects/registry.py, and Node."""
NODE = "Node"


@dataclass(frozen=True)
class Wait:
    """Permit's answer: hold the pod for at most ``seconds``, then reject it. Raises ValueError
    for a negative or too large number."""

    seconds: float

    def __post_init__(self) -> None:
        _check_seconds(self.seconds)


@dataclass(frozen=True)
class Preparation:
    """PreBind's answer: ask the cluster for these changes, and hold the pod for at most ``seconds``
    until they are made and the plugin's ``prepared`` allows the bind. Raises ValueError for a
    negative or too large number of seconds, TypeError for a value that is not a Write."""

    writes: tuple[Write, ...]
    seconds: float

    def __post_init__(self) -> None:
        _check_seconds(self.seconds)
        for write in self.writes:
            if not isinstance(write, Write):
                raise TypeError(f"{write!r} is no change to ask the cluster for")
        object.__setattr__(self, "writes", tuple(dict.fromkeys(self.writes)))


@dataclass(frozen=True)
class Awaiting:
    """The answer of ``prepared`` that the bind has to wait: call it again when one of these
    objects, or the pod's node, is added, changed or deleted. Raises ValueError for an unknown
    type."""

    objects: frozenset[ObjectKey]

    def __post_init__(self) -> None:
        object.__setattr__(self, "objects", frozenset(self.objects))
        unknown = {kind for kind, _, _ in self.objects} - TYPES.keys() - {NODE}
        if unknown:
            raise ValueError(f"no objects are of type {', '.join(sorted(unknown))}")


def key_of(changed: ClusterObject) -> ObjectKey:
    """An object's key."""
    return type(changed).__name__, changed.namespace, changed.name


def _check_seconds(seconds: float) -> None:
    if not 0 <= seconds < 2**40:
        raise ValueError(f"a wait of {seconds} seconds")
