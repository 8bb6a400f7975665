"""What a plugin is: the extension points, the status codes and what a cycle lets it do.

A plugin is any object with a ``name`` and a method for each extension point it serves (upstream's
names in snake case). It gets no client and no clock: it reads its arguments and its own memory, and
returns what it thinks. Points, in the order in which they run:

    pre_enqueue(pod) -> Status | None                       may the pod enter the active queue?
    sort_key(queued) -> tuple                               QueueSort; smaller goes first
    pre_filter(cycle, pod, nodes) -> PreFilterResult | Status | None
    filter(cycle, pod, nodes) -> integer codes, 0 = passes; None = all pass
                                                            (or filter_node(pod, node), see adapter)
    explain(cycle, pod, code) -> Status                     what a code of filter means
    post_filter(cycle, pod, refused) -> PostFilterResult | Status | None   only without a node left
    pre_score(cycle, pod, nodes) -> Status | None           Skip leaves out this plugin's score
    score(cycle, pod, nodes) -> int64 array                 (or score_node(pod, node))
    normalization = Normalization.…  or  normalize_score(cycle, pod, scores) -> int64 array 0..100
    reserve(cycle, pod, node) / unreserve(cycle, pod, node)
    permit(cycle, pod, node) -> Status | Wait | None
    pre_bind(cycle, pod, node) -> Status | Preparation | None
    prepared(cycle, pod, node, nodes) -> Status | Awaiting | None   is what it asked for there?
    bind(cycle, pod, node) -> Status | None                 Skip leaves it to the next one
    post_bind(cycle, pod, node) -> None

``sign(pod)`` (upstream's SignPlugin) returns what of a pod the plugin's filter and score depend on,
as a hashable value: pods of equal signature share their columns. Without it, or for None, they are
computed anew for every pod. ``depends_on`` says what of a node they depend on. ``hint_sign(pod)``
is what of a pod the hint depends on, for plugins without such a signature. ``names_node`` is a node
that the arguments name: whoever runs the scheduler says so where it is not there. ``reads_objects``
are types of objects that are watched only for plugins that name them; ``replaces`` is a plugin that
should not run before this one at PostFilter. ``annotations`` are those of pods and nodes that the
plugin reads, by name or by a beginning that ends with ``/`` or ``*``: others are not kept, so it
does not see them.

A ``Preparation`` of PreBind is for what the cluster has to do before the bind: its changes leave
when they are in the log, and ``prepared`` is asked when they are made, and again when what it waits
for changes; ``nodes`` is the row of the pod's node, empty where that is gone. ``overdue`` are the
words for a preparation that takes too long. All plugins prepare at the same time.
"""

from collections.abc import Collection, Hashable, Iterator, Mapping
from dataclasses import dataclass
from enum import Flag, StrEnum, auto
from typing import Any, ClassVar, NamedTuple, Protocol

import msgspec
from numpy.typing import NDArray

from eventsched.domain.nodes.node_views import NodeView
from eventsched.domain.objects import Node, Pod, canonical
from eventsched.domain.objects.registry import ClusterObject, Registry
from eventsched.domain.records.verdicts import Code, Normalization
from eventsched.domain.state.numa_zones import Topologies, no_topologies
from eventsched.domain.state.preemptions import Preemptions
from eventsched.domain.state.quota_usage import Quotas
from eventsched.scheduling.framework.pod_groups import Group, PodGroups
from eventsched.scheduling.framework.wait_results import Awaiting, Preparation, Wait

__all__ = [
    "Awaiting",
    "Change",
    "ClusterEvent",
    "Code",
    "Cycle",
    "DependsOn",
    "NodeView",
    "Normalization",
    "Plugin",
    "PluginError",
    "PostFilterResult",
    "PreFilterResult",
    "Preparation",
    "QueuedPod",
    "Status",
    "Wait",
    "points_of",
    "signed_by_spec",
]

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
        """Not there, and evicting pods would not change that."""
        return cls(Code.UNRESOLVABLE, reasons)

    @classmethod
    def error(cls, *reasons: str) -> "Status":
        """Something is broken; the attempt ends."""
        return cls(Code.ERROR, reasons)

    @classmethod
    def pending(cls, *reasons: str) -> "Status":
        """Not now; the plugin itself will wake the pod, without backoff."""
        return cls(Code.PENDING, reasons)

    @classmethod
    def skip(cls) -> "Status":
        """This plugin has nothing to say about this pod."""
        return cls(Code.SKIP)

    @property
    def rejected(self) -> bool:
        """Whether the pod was refused (rather than let through, or broken)."""
        return self.code in (Code.UNSCHEDULABLE, Code.UNRESOLVABLE, Code.PENDING)


@dataclass(frozen=True)
class PreFilterResult:
    """PreFilter's answer that only these nodes need to be looked at."""

    node_names: frozenset[str]

    def __post_init__(self) -> None:
        if isinstance(self.node_names, str):
            raise TypeError("node_names is one name; a set of names is due")
        object.__setattr__(self, "node_names", frozenset(self.node_names))


class PostFilterResult(NamedTuple):
    """PostFilter's answer where it is about a nomination. ``nominated`` is the node that the pod is
    nominated to, "" for none any more, None to leave that as it is; ``preemption`` what was decided
    of other pods for it (see preemption.py). ``plugin`` is filled in by whoever asks."""

    status: Status
    nominated: str | None = None
    preemption: Any = None
    plugin: str = ""


class DependsOn(Flag):
    """What of a node, besides the pod's signature, a plugin's filter and score depend on."""

    NODE = auto()
    """The node object: labels, taints, allocatable…"""
    USAGE = auto()
    """What its pods hold: requests, ports, their number."""
    IMAGES = auto()
    """Which images are on which nodes, and how many nodes there are."""
    SAMPLES = auto()
    """The newest samples (``nodes.sampled``)."""


class ClusterEvent(StrEnum):
    """Changes that can make a refused pod schedulable (upstream: framework/events.go)."""

    NODE_ADD = "NodeAdd"
    NODE_UPDATE_ALLOCATABLE = "NodeUpdateAllocatable"
    NODE_UPDATE_LABEL = "NodeUpdateLabel"
    NODE_UPDATE_TAINT = "NodeUpdateTaint"
    NODE_UPDATE_DECLARED_FEATURE = "NodeUpdateDeclaredFeature"
    NODE_UPDATE_OTHER = "NodeUpdateOther"
    NODE_DELETE = "NodeDelete"
    ASSIGNED_POD_ADD = "AssignedPodAdd"
    ASSIGNED_POD_UPDATE = "AssignedPodUpdate"
    ASSIGNED_POD_DELETE = "AssignedPodDelete"
    OBJECT_CHANGE = "ObjectChange"
    """An object other than a pod or a node came, changed or went: a plugin's ``wakes_on_objects``
    are the types that it wants to know of."""
    POD_UPDATE = "PodUpdate"
    """The waiting pod itself has changed."""
    MEMORY_CHANGE = "MemoryChange"
    """The plugin's own memory has changed."""
    MEMORY_FORGOTTEN = "MemoryForgotten"
    """People had the plugin forget something."""
    GROUP_CHANGE = "GroupChange"
    """A pod has left the waiting pod's group, or is another than before. Only those hear of it
    that ask for it in ``wakes_on``; a hint is asked once for all that one plugin refused."""
    SAMPLES_TAKEN = "SamplesTaken"
    """There are newer samples of the plugin's own source, or none."""


@dataclass(frozen=True)
class Change:
    """What happened, for a hint to look at. ``nodes`` is the one row concerned, after the change
    (empty where no node is); ``old`` is the node before an update, ``pod`` the other pod (the
    waiting one for POD_UPDATE) and ``old_pod`` what it was before an update;
    ``old_object`` and ``new_object`` are the object of another type before and after."""

    event: ClusterEvent
    nodes: NodeView
    node: Node | None = None
    old: Node | None = None
    pod: Pod | None = None
    old_pod: Pod | None = None
    old_object: ClusterObject | None = None
    new_object: ClusterObject | None = None


@dataclass(frozen=True)
class QueuedPod:
    """What QueueSort sees: the pod, and when (µs) it was added or last failed."""

    pod: Pod
    since: int
    attempts: int
    group: Group | None = None


class Memory(Mapping[str, Any]):
    """A plugin's memory, which changes through events only: what is taken out is a copy."""

    __slots__ = ("_kept",)

    def __init__(self, kept: Mapping[str, Any]) -> None:
        self._kept = kept

    def __getitem__(self, key: str) -> Any:
        return plain(self._kept[key])

    def __iter__(self) -> Iterator[str]:
        return iter(self._kept)

    def __len__(self) -> int:
        return len(self._kept)


def plain(value: Any) -> Any:
    """A copy of a JSON value that shares nothing with it. Raises TypeError for what is none."""
    if value is None or isinstance(value, int):
        return value
    return msgspec.json.decode(canonical(value))


class Cycle(msgspec.Struct, eq=False):
    """What a plugin may know and say beyond its arguments, during one attempt of one pod.

    ``now`` is in microseconds. ``data`` is shared between the plugins of this attempt; what is in
    it after Permit is stored with the decision and is there again at PreBind, also after a restart,
    so it must be JSON values under string keys. ``scratch`` is for the calling plugin's own use
    between its extension points in the attempt, under its name, and is never stored. ``registry``
    holds the cluster's other objects, ``groups`` the known pods by group, ``quotas`` what
    namespaces use, ``topologies`` what is known of NUMA zones, ``preemptions`` the pods nominated
    to nodes: all to be read. ``schedulers`` are the names of the profiles. At Unreserve ``sender``
    is the plugin that has rejected the pod while it waited. ``is_strict`` says that a score out of
    range fails the attempt, as in streams of 0.1.
    """

    now: int
    seed: str
    attempt: int = 0
    data: dict[str, Any] = msgspec.field(default_factory=dict)
    registry: Registry = msgspec.field(default_factory=Registry)
    memories: Mapping[str, Mapping[str, Any]] = msgspec.field(default_factory=dict)
    waits: Mapping[str, Mapping[str, str]] = msgspec.field(default_factory=dict)
    scratch: dict[str, Any] = msgspec.field(default_factory=dict)
    plugin: str = ""
    remembered: list[tuple[str, str, Any]] = msgspec.field(default_factory=list)
    released: list[tuple[str, str, str | None]] = msgspec.field(default_factory=list)
    activated: list[tuple[str, str]] = msgspec.field(default_factory=list)
    groups: PodGroups = msgspec.field(default_factory=PodGroups)
    sender: str = ""
    quotas: Quotas = msgspec.field(default_factory=lambda: Quotas(Registry(), {}))
    preemptions: Preemptions = msgspec.field(default_factory=Preemptions)
    is_strict: bool = False
    topologies: Topologies = msgspec.field(default_factory=no_topologies)
    schedulers: Collection[str] = ()

    @property
    def memory(self) -> Mapping[str, Any]:
        """The calling plugin's memory, to be read; ``remember`` changes it. Lists and maps in it
        are copies."""
        kept = self.memories.get(self.plugin)
        return _NOTHING if kept is None else Memory(kept)

    @property
    def waiting(self) -> Mapping[str, str]:
        """Pod uid → node, of the pods that wait at the calling plugin's Permit."""
        return self.waits.get(self.plugin, _NOTHING)

    def remember(self, key: str, value: Any) -> None:
        """Sets a key of the calling plugin's memory to a JSON value, through an event; None forgets
        it. Raises TypeError or ValueError for what is no JSON."""
        canonical([key, value])
        self.remembered.append((self.plugin, key, plain(value)))

    def allow(self, uid: str) -> None:
        """Lets a pod that waits at the calling plugin's Permit go on."""
        self.released.append((self.plugin, uid, None))

    def activate(self, uid: str) -> None:
        """Has a pod that waits in a queue tried at once, its backoff notwithstanding."""
        self.activated.append((self.plugin, uid))

    def reject(self, uid: str, message: str) -> None:
        """Refuses a pod that waits at the calling plugin's Permit. Raises ValueError for a message
        that is no text."""
        canonical(message)
        self.released.append((self.plugin, uid, message))


_NOTHING: Mapping[str, Any] = {}


class Plugin(Protocol):
    """The least a plugin is; the methods of its extension points come on top."""

    name: ClassVar[str]


class PluginError(Exception):
    """A plugin raised, or returned what its extension point does not allow."""

    def __init__(self, plugin: str, point: str, problem: str) -> None:
        self.plugin = plugin
        self.point = point
        self.problem = problem
        # Half a surrogate pair could not be stored.
        told = problem.encode(errors="backslashreplace").decode()
        super().__init__(f"plugin {plugin} failed in {point}: {told}")


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
    """What of a node the plugin's columns depend on; the node and its usage if it does not say."""
    declared: DependsOn = getattr(plugin, "depends_on", DependsOn.NODE | DependsOn.USAGE)
    return declared


def signed_by_spec(pod: Pod) -> Hashable:
    """A ``sign`` for plugins that read nothing of a pod but its spec."""
    return pod.spec.key
