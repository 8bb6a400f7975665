"""What makes a bind wait: answers that Permit and PreBind may give, part of the framework."""

from dataclasses import dataclass

from eventsched.domain.objects.registry import TYPES, ClusterObject
from eventsched.domain.records.object_writes import Write

ObjectKey = tuple[str, str, str]
"""Type, namespace and name of an object: ("PersistentVolumeClaim", "shop", "data"). The types are
those of domain/objects/registry.py, and Node."""
NODE = "Node"


@dataclass(frozen=True)
class Wait:
    """Permit's answer: hold the pod for so many seconds at most; then it is refused. Raises
    ValueError for what is no length of time."""

    seconds: float

    def __post_init__(self) -> None:
        _check_seconds(self.seconds)


@dataclass(frozen=True)
class Preparation:
    """PreBind's answer: ask the cluster for these changes, and hold the pod until they are made and
    the plugin's ``prepared`` has nothing against its bind, so many seconds at most. Raises
    ValueError for what is no length of time, TypeError for what is no change."""

    writes: tuple[Write, ...]
    seconds: float

    def __post_init__(self) -> None:
        _check_seconds(self.seconds)
        for each in self.writes:
            if not isinstance(each, Write):
                raise TypeError(f"{each!r} is no change to ask the cluster for")
        object.__setattr__(self, "writes", tuple(dict.fromkeys(self.writes)))


@dataclass(frozen=True)
class Awaiting:
    """The answer of ``prepared`` that it is not yet time: ask again when one of these objects has
    come, changed or gone. The pod's node counts as named."""

    objects: frozenset[ObjectKey]

    def __post_init__(self) -> None:
        object.__setattr__(self, "objects", frozenset(self.objects))
        unknown = {kind for kind, _, _ in self.objects} - TYPES.keys() - {NODE}
        if unknown:
            raise ValueError(f"no objects are of type {', '.join(sorted(unknown))}")


def key_of(kept: ClusterObject) -> ObjectKey:
    """An object's key."""
    return type(kept).__name__, kept.namespace, kept.name


def _check_seconds(seconds: float) -> None:
    if not 0 <= seconds < 2**40:
        raise ValueError(f"a wait of {seconds} seconds")
