"""A node as scheduling reads it."""

from eventsched.domain.objects.frozen import Frozen
from eventsched.domain.objects.resource_names import Resources


class Taint(Frozen, frozen=True):
    """A node's taint (core/v1 Taint); effect is NoSchedule, PreferNoSchedule or NoExecute."""

    key: str
    value: str = ""
    effect: str = ""


class Image(Frozen, frozen=True):
    """A container image that is on a node, with all its names; size in bytes."""

    names: tuple[str, ...]
    size: int


class Node(Frozen, frozen=True):
    """A node. ``allocatable`` includes ``pods``, the largest number of pods it takes."""

    name: str
    uid: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    allocatable: Resources = {}
    images: tuple[Image, ...] = ()
    declared_features: tuple[str, ...] = ()
