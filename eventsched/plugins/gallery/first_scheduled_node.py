"""FirstScheduledNode: a pod that comes back goes to the node it was on before.

The memory is in the log: it changes through MemoryChanged events only, and a restart has it again.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple

import numpy as np

from eventsched.domain.errors import InputError
from eventsched.domain.objects import Pod
from eventsched.domain.units import nanoseconds
from eventsched.scheduling.config.pluginargs import Arguments, out_of_range
from eventsched.scheduling.framework import (
    Change,
    ClusterEvent,
    Cycle,
    IntColumn,
    NodeView,
    PreFilterResult,
    Status,
)

_HASH = "pod-template-hash"
"""The label by which a Deployment tells the pods of its ReplicaSets apart."""


class FirstScheduledNodeArgs(Arguments, frozen=True):
    """With ``mode`` required the pod waits for its node, with preferred its node scores 100 and the
    others 0.

    ``key`` is what makes two pods the same one: their ``name`` and namespace, their ``owner``, or
    the value of the annotation ``key_annotation``. ``ttl`` is how long a node is remembered after a
    pod was last bound there ("0s": for ever). ``when_gone``: a node that is not in the cluster is
    waited for, or forgotten."""

    mode: Literal["required", "preferred"] = "required"
    key: Literal["name", "owner", "annotation"] = "name"
    key_annotation: str = ""
    ttl: str = "0s"
    when_gone: Literal["wait", "forget"] = "wait"

    def problems(self) -> Iterator[InputError]:
        """An annotation that is missing or idle, and what is no span of time."""
        if self.key == "annotation" and not self.key_annotation:
            problem = "key: annotation needs the annotation's key"
            yield InputError("keyAnnotation", problem, "name one such as example.com/sticky")
        if self.key != "annotation" and self.key_annotation:
            problem = f"has no effect with key: {self.key}"
            yield InputError("keyAnnotation", problem, "write key: annotation, or remove it")
        if nanoseconds(self.ttl, "ttl") < 0 or 0 < nanoseconds(self.ttl, "ttl") < 1_000_000_000:
            yield out_of_range("ttl", self.ttl, "1s or more, or 0s")


class Home(NamedTuple):
    """A remembered node, and when (µs) a pod was last bound there."""

    node: str
    at: int


class FirstScheduledNode:
    """Remembers a node at PostBind; narrows to it or prefers it afterwards.

    Pods of one owner share a node: a Deployment's next pod has another name, and its caches are
    where the last one was; a ReplicaSet stands for its Deployment, so a rollout does not forget.
    Those of a StatefulSet are told apart by name, or all of them would have to fit on one node.
    A DaemonSet's have their nodes already, and are left alone.
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
        given = args or FirstScheduledNodeArgs()
        self._required = given.mode == "required"
        self._key_by, self._annotation = given.key, given.key_annotation
        self.annotations = (self._annotation,) if self._annotation else ()
        self._lasts = nanoseconds(given.ttl) // 1_000
        self._forgets_gone = given.when_gone == "forget"

    def pre_filter(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> PreFilterResult | None:
        """The remembered node alone, in mode required. Forgets one that is gone, where it is told
        to."""
        key = self._key(pod)
        home = self._home(cycle, key)
        if home is None or key is None:
            return None
        if self._is_lost(home, nodes):
            cycle.remember(key, None)
            return None
        return PreFilterResult(frozenset([home.node])) if self._required else None

    def pre_score(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> Status | None:
        """Nothing to prefer for a pod that was never placed, or in mode required."""
        home = None if self._required else self._home(cycle, self._key(pod))
        return Status.skip() if home is None or self._is_lost(home, nodes) else None

    def score(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> IntColumn:
        """100 for the remembered node."""
        home = self._home(cycle, self._key(pod))
        return np.where(nodes.is_named(home.node if home else ""), 100, 0)

    def post_bind(self, cycle: Cycle, pod: Pod, node: str) -> None:
        """Remembers the first node, and that a pod was there again. One that was placed elsewhere
        changes nothing."""
        key = self._key(pod)
        home = self._home(cycle, key)
        if key is not None and (home is None or home.node == node):
            cycle.remember(key, {"node": node, "at": cycle.now})

    def hint(self, cycle: Cycle, pod: Pod, change: Change) -> bool:
        """Its node is there, or need not be waited for any more."""
        home = self._home(cycle, self._key(pod))
        if home is None:
            return True
        if change.old_pod is not None:
            return self._key(pod) != self._key(change.old_pod)
        if change.event is ClusterEvent.NODE_DELETE:
            return self._forgets_gone and change.old is not None and change.old.name == home.node
        return change.node is not None and change.node.name == home.node

    def hint_sign(self, pod: Pod) -> str | None:
        """What pods wake together by."""
        return self._key(pod)

    def _is_lost(self, home: Home, nodes: NodeView) -> bool:
        """Whether a node is gone that is not waited for."""
        return self._forgets_gone and home.node not in nodes.table.rows

    def _key(self, pod: Pod) -> str | None:
        """The key of a pod's memory; it begins with the namespace. None: it has none."""
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
        ending = f"-{pod.labels.get(_HASH, '')}"
        if kind == "ReplicaSet" and len(ending) > 1 and name.endswith(ending):
            kind, name = "Deployment", name.removesuffix(ending)
        return f"{pod.namespace}/{kind}/{name}"

    def _home(self, cycle: Cycle, key: str | None) -> Home | None:
        """The node that is remembered, unless that was too long ago."""
        kept = None if key is None else cycle.memory.get(key)
        home = None if kept is None else _read(kept)
        if home is None or (self._lasts and cycle.now - home.at >= self._lasts):
            return None
        return home


def _read(kept: Any) -> Home:
    """A remembered value; logs from before there was a time hold the node's name alone."""
    if isinstance(kept, Mapping):
        return Home(str(kept["node"]), int(kept["at"]))
    return Home(str(kept), 0)
