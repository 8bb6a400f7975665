"""FirstScheduledNode: a recreated pod goes to the node on which it ran before.

The memory is in the log: only MemoryChanged records change it, and it survives a restart.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Literal, NamedTuple

import numpy as np

from eventsched.domain.behaviours import Behaviour
from eventsched.domain.errors import InputError
from eventsched.domain.objects import Pod
from eventsched.domain.units import nanoseconds
from eventsched.scheduling.config.pluginargs import Arguments, out_of_range, outside
from eventsched.scheduling.config.sections import Int64
from eventsched.scheduling.framework import (
    Change,
    ClusterEvent,
    Cycle,
    IntColumn,
    MemoryBounds,
    NodeView,
    PreFilterResult,
    Status,
)

_TTL = "720h"
_MAX_ENTRIES = 100_000
"""The default bounds: after 30 days what a pod has left on a node is seldom of use, and 100,000
entries take about 50 MB of memory."""

_TEMPLATE_HASH_LABEL = "pod-template-hash"
"""The label by which a Deployment distinguishes the pods of its ReplicaSets."""


class FirstScheduledNodeArgs(Arguments, frozen=True):
    """``mode`` required: the pod waits for its node; preferred: its node scores 100, all others 0.

    ``key`` identifies a recreated pod: by ``name`` and namespace, by ``owner``, or by the value of
    the annotation ``key_annotation``. ``ttl`` is how long a node is remembered after the pod that
    was bound there last is gone ("0s": forever; None stands for the default, 720h). ``max_entries``
    is how many nodes are remembered for pods that are gone (0: any number). ``when_gone`` says
    whether pods wait for a node that is not in the cluster, or forget it."""

    mode: Literal["required", "preferred"] = "required"
    key: Literal["name", "owner", "annotation"] = "name"
    key_annotation: str = ""
    ttl: str | None = None
    max_entries: Int64 = _MAX_ENTRIES
    when_gone: Literal["wait", "forget"] = "wait"

    def problems(self) -> Iterator[InputError]:
        """A missing or unused annotation key, and bounds out of range."""
        if self.key == "annotation" and not self.key_annotation:
            problem = "key: annotation needs the annotation's key"
            yield InputError("keyAnnotation", problem, "name one such as example.com/sticky")
        if self.key != "annotation" and self.key_annotation:
            problem = f"has no effect with key: {self.key}"
            yield InputError("keyAnnotation", problem, "write key: annotation, or remove it")
        ttl = nanoseconds(self.ttl or "0s", "ttl")
        if ttl < 0 or 0 < ttl < 1_000_000_000:
            yield out_of_range("ttl", self.ttl, "1s or more, or 0s")
        yield from outside("maxEntries", self.max_entries, 0, 1_000_000_000)


class RememberedNode(NamedTuple):
    """A remembered node, and the time (µs) of the last bind there."""

    node: str
    at: int


class FirstScheduledNode:
    """Remembers the node at PostBind; from then on PreFilter restricts to it, or Score prefers it.

    With ``key: owner``, pods of one owner share a node: a Deployment's next pod has another name,
    but its caches are where the last pod ran. A ReplicaSet counts as its Deployment, so a rollout
    keeps the node. Pods of a StatefulSet have a node each, because not all of them may fit on one.
    Pods of a DaemonSet are ignored: they have their nodes already.
    """

    name = "FirstScheduledNode"
    wakes_on = (
        ClusterEvent.NODE_ADD,
        ClusterEvent.NODE_DELETE,
        ClusterEvent.POD_UPDATE,
        ClusterEvent.MEMORY_FORGOTTEN,
    )
    Args = FirstScheduledNodeArgs

    def __init__(self, args: FirstScheduledNodeArgs | None = None) -> None:
        args = args or FirstScheduledNodeArgs()
        self._required = args.mode == "required"
        self._key_by, self._annotation = args.key, args.key_annotation
        self.annotations = (self._annotation,) if self._annotation else ()
        self._forgets_missing = args.when_gone == "forget"
        self._args_ttl = args.ttl
        self._ttl_since_bind = 0
        ttl = nanoseconds(_TTL if args.ttl is None else args.ttl)
        self.memory_bounds = MemoryBounds(ttl=ttl / 10**9, max_entries=args.max_entries)

    def as_of(self, flags: Collection[int]) -> None:
        """In a stream without bounds of memory, ``ttl`` counts from the last bind, and the default
        is forever."""
        if Behaviour.BOUNDS_MEMORY not in flags:
            self._ttl_since_bind = nanoseconds(self._args_ttl or "0s") // 1_000

    def pre_filter(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> PreFilterResult | None:
        """Restricts the pod to its remembered node in mode required. Forgets a node that is gone if
        ``when_gone`` says so."""
        key = self._key(pod)
        remembered = self._remembered(cycle, key)
        if remembered is None or key is None:
            return None
        if self._is_forgotten(remembered, nodes):
            cycle.remember(key, None)
            return None
        return PreFilterResult(frozenset([remembered.node])) if self._required else None

    def pre_score(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> Status | None:
        """Skips a pod without a remembered node, and in mode required."""
        remembered = None if self._required else self._remembered(cycle, self._key(pod))
        return (
            Status.skip() if remembered is None or self._is_forgotten(remembered, nodes) else None
        )

    def score(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> IntColumn:
        """100 for the remembered node."""
        remembered = self._remembered(cycle, self._key(pod))
        return np.where(nodes.is_named(remembered.node if remembered else ""), 100, 0)

    def post_bind(self, cycle: Cycle, pod: Pod, node: str) -> None:
        """Remembers the first node, which the pod uses from now on. A bind elsewhere changes
        nothing."""
        key = self._key(pod)
        remembered = self._remembered(cycle, key)
        if key is not None and (remembered is None or remembered.node == node):
            cycle.remember(key, {"node": node, "at": cycle.now}, used_by=pod.uid)

    def hint(self, cycle: Cycle, pod: Pod, change: Change) -> bool:
        """True if the pod's node is back, or is no longer waited for."""
        remembered = self._remembered(cycle, self._key(pod))
        if remembered is None:
            return True
        if change.old_pod is not None:
            return self._key(pod) != self._key(change.old_pod)
        if change.event is ClusterEvent.NODE_DELETE:
            return (
                self._forgets_missing
                and change.old is not None
                and change.old.name == remembered.node
            )
        return change.node is not None and change.node.name == remembered.node

    def hint_sign(self, pod: Pod) -> str | None:
        """The key: pods with the same one wake together."""
        return self._key(pod)

    def _is_forgotten(self, remembered: RememberedNode, nodes: NodeView) -> bool:
        """Whether the node is gone and not waited for."""
        return self._forgets_missing and remembered.node not in nodes.table.rows

    def _key(self, pod: Pod) -> str | None:
        """The key of a pod's memory, which begins with the namespace; None if nothing is
        remembered."""
        if self._key_by == "annotation":
            value = pod.annotations.get(self._annotation)
            return None if value is None else f"{pod.namespace}/{self._annotation}={value}"
        if self._key_by == "name" or pod.owner is None:
            return pod.full_name
        kind, name = pod.owner.kind, pod.owner.name
        if kind == "DaemonSet":
            return None
        if kind == "StatefulSet":
            return f"{pod.namespace}/{kind}/{name}/{pod.name}"
        ending = f"-{pod.labels.get(_TEMPLATE_HASH_LABEL, '')}"
        if kind == "ReplicaSet" and len(ending) > 1 and name.endswith(ending):
            kind, name = "Deployment", name.removesuffix(ending)
        return f"{pod.namespace}/{kind}/{name}"

    def _remembered(self, cycle: Cycle, key: str | None) -> RememberedNode | None:
        """The remembered node."""
        stored = None if key is None else cycle.memory.get(key)
        remembered = None if stored is None else _decoded(stored)
        ttl = self._ttl_since_bind
        is_expired = remembered is not None and ttl and cycle.now - remembered.at >= ttl
        return None if is_expired else remembered


def _decoded(stored: Any) -> RememberedNode:
    """A stored value. Old logs hold only the node's name, without a time."""
    if isinstance(stored, Mapping):
        return RememberedNode(str(stored["node"]), int(stored["at"]))
    return RememberedNode(str(stored), 0)
