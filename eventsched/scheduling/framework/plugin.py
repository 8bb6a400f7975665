"""What a plugin is: its extension points, what they may answer, and what a plugin declares.

A plugin is any object with a ``name`` and a method for each extension point it serves (upstream's
names in snake case). It has no client and no clock: it reads its arguments and its own memory, and
returns an answer. Extension points, in the order in which they run:

    pre_enqueue(pod) -> Status | None                       may the pod enter the active queue?
    sort_key(queued) -> tuple                               QueueSort; smaller goes first
    pre_filter(cycle, pod, nodes) -> PreFilterResult | Status | None
    filter(cycle, pod, nodes) -> integer codes, 0 = passes; None = all pass
                                                            (or filter_node, see per_node_plugins)
    explain(cycle, pod, code) -> Status                     what a code of filter means
    post_filter(cycle, pod, refused) -> PostFilterResult | Status | None   only if no node is left
    pre_score(cycle, pod, nodes) -> Status | None           Skip leaves out this plugin's score
    score(cycle, pod, nodes) -> int64 array                 (or score_node(pod, node))
    normalization = Normalization.…  or  normalize_score(cycle, pod, scores) -> int64 array 0..100
    reserve(cycle, pod, node) / unreserve(cycle, pod, node)
    permit(cycle, pod, node) -> Status | Wait | None
    pre_bind(cycle, pod, node) -> Status | Preparation | None
    prepared(cycle, pod, node, nodes) -> Status | Awaiting | None   has the cluster done it?
    bind(cycle, pod, node) -> Status | None                 Skip leaves it to the next plugin
    post_bind(cycle, pod, node) -> None

Arguments and what a plugin may read:

- ``Args`` is the msgspec struct of the plugin's arguments (``pluginConfig``). A plugin with it is
  made with one value, the decoded arguments; a plugin without it is made with none.
- ``cycle`` (cycle_context.py) has the time, ``data`` and ``scratch`` of the attempt, the plugin's
  ``memory`` (changed by ``remember``), and ``registry``: the objects that are neither nodes nor
  pods, as ``cycle.registry.get(type, name, namespace)``.
- ``reads_objects`` are types of the registry that are watched only for plugins that list them.
- ``annotations`` are those of pods and nodes that the plugin reads, each a name or a prefix that
  ends with ``/`` or ``*``. Others are not stored, so the plugin does not see them.
- ``memory_bounds`` is a ``MemoryBounds`` below: for how long, and how many entries of
  the plugin's memory are kept. Without it an entry stays until the plugin or a user removes it.
- ``samples`` is a ``Sampling`` (sampling.py): a query whose results, one number per node, are
  logged at intervals. ``nodes.sampled(source)`` reads the newest ones.

What lets results be shared between pods and kept between attempts:

- ``sign(pod)`` (upstream's SignPlugin) returns what filter and score depend on of a pod, as a
  hashable value. Pods with equal signatures share their columns; without it, or for None, the
  columns are computed for every pod.
- ``depends_on`` says what filter and score depend on of a node (``DependsOn``); the node and its
  usage if there is none.

- ``normalization``: without it scores are 0..100 already; ``Normalization``
  (domain/records/verdicts.py) says what each value makes of which raw scores.

What wakes a pod that the plugin has refused:

- ``wakes_on`` are the events (``ClusterEvent``) that may let such a pod pass; without it all of
  them except GROUP_CHANGE. OBJECT_CHANGE is not listed there: ``wakes_on_objects`` lists the types,
  and without it there is none.
- ``hint(cycle, pod, change) -> bool`` says whether this ``Change`` may let the pod pass. Without it
  each of these events wakes the pod.
- ``hint_sign(pod)`` is what the hint depends on of a pod; without it ``sign`` is used.

Less common:

- ``drop_codes() -> bool`` is for a plugin that gives each new answer of its filter a new code. It
  is called between attempts. If it returns True, the plugin has begun its numbering again, and
  earlier codes are no longer used.
- ``names_node`` is a node that the arguments name: a missing node is reported.
- ``replaces`` is a plugin that should not run before this one at PostFilter.
- ``overdue`` is the message for a preparation that takes too long.
- ``as_of(flags)`` is for in-tree plugins whose decisions have changed: it is called once, with the
  behaviours (domain/behaviours.py) of the stream, and restores the decisions of that time.

A ``Preparation`` of PreBind lists changes that the cluster has to make before the bind. They are
sent once they are in the log. ``prepared`` is called when they are made, and again when an object
that it waits for changes; its ``nodes`` is the row of the pod's node, empty if that is gone. All
plugins prepare at the same time.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from enum import Flag, auto
from typing import Any, ClassVar, NamedTuple, Protocol

import msgspec
from numpy.typing import NDArray

from eventsched.domain.errors import InputError
from eventsched.domain.objects import Pod
from eventsched.domain.records.verdicts import Code
from eventsched.domain.units import SECOND
from eventsched.scheduling.framework.pod_groups import Group

IntColumn = NDArray[Any]


class Status(NamedTuple):
    """A plugin's answer: one of upstream's seven codes and its reasons."""

    code: Code
    reasons: tuple[str, ...] = ()

    @classmethod
    def unschedulable(cls, *reasons: str) -> "Status":
        """Not now; evicting pods or waiting may help."""
        return cls(Code.UNSCHEDULABLE, reasons)

    @classmethod
    def unresolvable(cls, *reasons: str) -> "Status":
        """Not on this node, and evicting pods would not change that."""
        return cls(Code.UNRESOLVABLE, reasons)

    @classmethod
    def error(cls, *reasons: str) -> "Status":
        """Something is broken; the attempt ends."""
        return cls(Code.ERROR, reasons)

    @classmethod
    def pending(cls, *reasons: str) -> "Status":
        """Not now; the plugin will wake the pod itself, without backoff."""
        return cls(Code.PENDING, reasons)

    @classmethod
    def skip(cls) -> "Status":
        """This plugin does not apply to this pod."""
        return _SKIP

    @property
    def rejected(self) -> bool:
        """Whether the pod was refused: neither success nor an error."""
        return self.code in (Code.UNSCHEDULABLE, Code.UNRESOLVABLE, Code.PENDING)


_SKIP = Status(Code.SKIP)


@dataclass(frozen=True)
class PreFilterResult:
    """PreFilter's answer that only these nodes can be feasible."""

    node_names: frozenset[str]

    def __post_init__(self) -> None:
        if isinstance(self.node_names, str):
            raise TypeError("node_names is one name; a set of names is due")
        object.__setattr__(self, "node_names", frozenset(self.node_names))


class PostFilterResult(NamedTuple):
    """PostFilter's answer about a nomination. ``nominated`` is the node that the pod is nominated
    to; "" clears the nomination, None leaves it as it is. ``preemption`` is the decision about
    other pods (scheduling/preemption). ``plugin`` is filled in by the caller."""

    status: Status
    nominated: str | None = None
    preemption: Any = None
    plugin: str = ""


class DependsOn(Flag):
    """What a plugin's filter and score depend on of a node, besides the pod's signature."""

    NODE = auto()
    """The node object: labels, taints, allocatable…"""
    USAGE = auto()
    """What its pods use: requests, ports, their number."""
    IMAGES = auto()
    """Which images are on which nodes, and how many nodes there are."""
    SAMPLES = auto()
    """The newest samples (``nodes.sampled``)."""


@dataclass(frozen=True)
class QueuedPod:
    """What QueueSort sees: the pod, and when (µs) it was added or last failed."""

    pod: Pod
    since: int
    attempts: int
    group: Group | None = None


_MAX_BOUND = 2**40
"""More seconds, and more entries, than there will ever be; their microseconds are an int64."""


class MemoryBounds(msgspec.Struct, frozen=True):
    """A plugin declares it as ``memory_bounds``. Both bounds are about entries that no pod uses
    (see ``Cycle.remember``).

    An entry that was not used for ``ttl`` seconds is gone: the plugin no longer sees it. If there
    are more than ``max_entries``, those that were not used for the longest time are removed. 0
    stands for no bound. Raises ValueError for a value out of range."""

    ttl: float = 0
    max_entries: int = 0

    def __post_init__(self) -> None:
        for name, kind in (("ttl", (int, float)), ("max_entries", int)):
            value = getattr(self, name)
            if (
                isinstance(value, bool)
                or not isinstance(value, kind)
                or not 0 <= value < _MAX_BOUND
            ):
                raise ValueError(f"MemoryBounds.{name}: {value!r} is not a number of 0 or more")

    @property
    def microseconds(self) -> int:
        """``ttl`` in the unit of the log."""
        return round(self.ttl * SECOND)


def declared_bounds(plugin: Any) -> MemoryBounds | None:
    """The bounds that a plugin declares, if any. Raises InputError for a wrong declaration."""
    bounds = getattr(plugin, "memory_bounds", None)
    if bounds is None or isinstance(bounds, MemoryBounds):
        return bounds
    raise InputError(
        f"plugin {plugin.name}: memory_bounds",
        f"{bounds!r} is not a MemoryBounds",
        "write eventsched.scheduling.framework.MemoryBounds(ttl=…, max_entries=…)",
    )


def wider(one: MemoryBounds, other: MemoryBounds) -> MemoryBounds:
    """The bounds that keep what either keeps: profiles share the memory of a plugin."""
    return MemoryBounds(
        ttl=one.ttl and other.ttl and max(one.ttl, other.ttl),
        max_entries=one.max_entries
        and other.max_entries
        and max(one.max_entries, other.max_entries),
    )


class Plugin(Protocol):
    """The least that a plugin has, besides the methods of its extension points."""

    name: ClassVar[str]


class PluginError(Exception):
    """A plugin raised an error, or returned an answer that its extension point does not allow."""

    def __init__(self, plugin: str, point: str, problem: str) -> None:
        self.plugin = plugin
        self.point = point
        self.problem = problem
        # Half a surrogate pair could not be stored.
        storable = problem.encode(errors="backslashreplace").decode()
        super().__init__(f"plugin {plugin} failed in {point}: {storable}")


POINTS: dict[str, tuple[str, ...]] = {
    "preEnqueue": ("pre_enqueue",),
    "queueSort": ("sort_key",),
    "preFilter": ("pre_filter",),
    "filter": ("filter", "filter_node"),
    "postFilter": ("post_filter",),
    "preScore": ("pre_score",),
    "score": ("score", "score_node"),
    "reserve": ("reserve", "unreserve"),
    "permit": ("permit",),
    "preBind": ("pre_bind",),
    "bind": ("bind",),
    "postBind": ("post_bind",),
}
"""Upstream's extension points in the order in which they run, and the methods that serve them."""


def points_of(plugin: object) -> list[str]:
    """The extension points that a plugin serves."""
    return [
        point
        for point, methods in POINTS.items()
        if any(callable(getattr(plugin, method, None)) for method in methods)
    ]


def depends_on(plugin: object) -> DependsOn:
    """What the plugin's columns depend on of a node; the node and its usage if it declares
    nothing."""
    declared: DependsOn = getattr(plugin, "depends_on", DependsOn.NODE | DependsOn.USAGE)
    return declared


def signed_by_spec(pod: Pod) -> Hashable:
    """A ``sign`` for plugins that read only the spec of a pod."""
    return pod.spec.key
