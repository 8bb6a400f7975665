"""NodeHardware: a pod that lists hardware in an annotation fits only on nodes that have it.

    hardware.eventsched.io/needs: gpu-model=A100|H100, gpu=2, fast-disk

Each part is a need: ``name`` must be present, ``name=value`` must have that value, ``name=a|b`` one
of these values. The plugin's arguments map a name to a node label or to an extended resource; the
value of a resource is the minimum that the node must have (default: 1). Any other name is itself
the label key.
"""

from collections.abc import Hashable, Iterator
from typing import NamedTuple

import numpy as np

from eventsched.domain.errors import InputError
from eventsched.domain.objects import Pod, labels
from eventsched.domain.objects.integers import integer
from eventsched.scheduling.config.pluginargs import Arguments
from eventsched.scheduling.framework import (
    Change,
    ClusterEvent,
    Cycle,
    DependsOn,
    IntColumn,
    NodeView,
    Status,
)


class Hardware(Arguments, frozen=True):
    """Maps a ``name`` in the annotation to a node ``label`` or to a ``resource``."""

    name: str
    label: str = ""
    resource: str = ""

    def problems(self) -> Iterator[InputError]:
        """Neither or both, or an invalid key."""
        if bool(self.label) == bool(self.resource):
            problem = "stands for one thing: a label or a resource"
            yield InputError("name", problem, "give label or resource")
        for field, key in (("label", self.label), ("resource", self.resource)):
            if key and not labels.is_key(key):
                yield InputError(
                    field, f"{key!r} is not a qualified name", "such as example.com/gpu"
                )


class NodeHardwareArgs(Arguments, frozen=True):
    """``annotation`` is the key of the pods' needs; ``hardware`` maps the names in it."""

    annotation: str = "hardware.eventsched.io/needs"
    hardware: tuple[Hardware, ...] = ()

    def problems(self) -> Iterator[InputError]:
        """A duplicate name."""
        names = [hardware.name for hardware in self.hardware]
        for i, name in enumerate(names):
            if name in names[:i]:
                yield InputError(f"hardware[{i}].name", f"{name!r} comes twice", "keep one of them")


class Need(NamedTuple):
    """One part of the annotation: a label that must exist (``values`` None) or have one of
    ``values``, or a resource of which the node must have at least ``least``."""

    text: str
    label: str = ""
    values: frozenset[str] | None = None
    resource: str = ""
    least: int = 0


class NodeHardware:
    """PreFilter parses the annotation, Filter compares. It checks what nodes have, not what is
    free: requests do that."""

    name = "NodeHardware"
    depends_on = DependsOn.NODE
    wakes_on = (
        ClusterEvent.NODE_ADD,
        ClusterEvent.NODE_UPDATE_LABEL,
        ClusterEvent.NODE_UPDATE_ALLOCATABLE,
        ClusterEvent.POD_UPDATE,
    )
    Args = NodeHardwareArgs

    def __init__(self, args: NodeHardwareArgs | None = None) -> None:
        args = args or NodeHardwareArgs()
        self._annotation = args.annotation
        self.annotations = (self._annotation,)
        self._known = {hardware.name: hardware for hardware in args.hardware}

    def sign(self, pod: Pod) -> Hashable:
        """The pod's needs."""
        return pod.annotations.get(self._annotation, "")

    def pre_filter(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> Status | None:
        """Skips a pod without needs; refuses a pod whose annotation cannot be parsed."""
        text = pod.annotations.get(self._annotation, "")
        if not text:
            return Status.skip()
        try:
            self._needs(text)
        except ValueError as problem:
            return Status.unresolvable(f"annotation {self._annotation}: {problem}")
        return None

    def filter(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> IntColumn:
        """The number of the first need that the node does not meet, counted from 1."""
        codes = np.zeros(len(nodes), dtype=np.int64)
        for number, need in enumerate(self._needs(pod.annotations[self._annotation]), 1):
            codes[(codes == 0) & ~_meets(nodes, need)] = number
        return codes

    def explain(self, cycle: Cycle, pod: Pod, code: int) -> Status:
        """The need that is not met."""
        need = self._needs(pod.annotations[self._annotation])[code - 1]
        return Status.unresolvable(f"node(s) didn't have the hardware {need.text}")

    def hint(self, cycle: Cycle, pod: Pod, change: Change) -> bool:
        """True if the node meets all needs, or if the annotation has changed."""
        text = pod.annotations.get(self._annotation, "")
        if change.old_pod is not None:
            return text != change.old_pod.annotations.get(self._annotation, "")
        try:
            return all(_meets(change.nodes, need).all() for need in self._needs(text))
        except ValueError:
            return False

    def _needs(self, text: str) -> tuple[Need, ...]:
        """The parsed annotation. Raises ValueError, with a message for users, if it is wrong."""
        return tuple(self._need(part.strip()) for part in text.split(","))

    def _need(self, text: str) -> Need:
        name, equals, value = (part.strip() for part in text.partition("="))
        known = self._known.get(name)
        if known is not None and known.resource:
            least = integer(value) if equals else 1
            if least is None or least < 1:
                raise ValueError(f"{text!r} asks for no number of {known.resource}")
            return Need(text, resource=known.resource, least=least)
        label = name if known is None else known.label
        if not labels.is_key(label):
            raise ValueError(f"{text!r} names no hardware; write name or name=value")
        values = frozenset(choice.strip() for choice in value.split("|")) if equals else None
        return Need(text, label=label, values=values)


def _meets(nodes: NodeView, need: Need) -> IntColumn:
    """bool[n]: whether each node meets the need."""
    if need.resource:
        return np.asarray(nodes.allocatable((need.resource,))[0] >= need.least)
    if need.values is None:
        return nodes.label(need.label, lambda value: value is not None) > 0
    wanted = need.values
    return nodes.label(need.label, lambda value: value in wanted) > 0
