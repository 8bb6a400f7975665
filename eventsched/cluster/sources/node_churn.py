"""Nodes that are replaced and changed while a simulation runs, as in an autoscaled cluster."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import msgspec

from eventsched.domain.objects import Node, Taint

HOSTNAME = "kubernetes.io/hostname"
CHANGE = "example.com/change"
"""The label that a change sets, and the key of the taint that every other change adds."""


@dataclass(frozen=True)
class NodeChurn:
    """When the nodes of a load are replaced and changed: a function of the node's index and the
    time, so nothing has to be remembered.

    ``life`` is how long a node lives, ``change_every`` the time between two changes of a node, in
    µs; None for never. ``draw`` spreads both over the nodes (see ``Load.number``). Nothing happens
    after ``until`` (µs).
    """

    nodes: Sequence[Node]
    draw: Callable[[str, int], int]
    life: int | None
    change_every: int | None
    until: int

    def next_end(self, index: int, after: int) -> int | None:
        """When the life of a node ends, the first time after a time; None for never."""
        return self._next("life", index, self.life, after)

    def next_change(self, index: int, after: int) -> int | None:
        """When a node changes, the first time after a time; None for never."""
        return self._next("change", index, self.change_every, after)

    def node(self, index: int, at: int) -> Node:
        """The node at a time; the new one at the time of a replacement."""
        node = self.nodes[index]
        generation = self._count("life", index, self.life, at)
        changes = self._count("change", index, self.change_every, at)
        name = f"{node.name}-{generation}" if generation else node.name
        labels, taints = {**node.labels, HOSTNAME: name}, node.taints
        if changes:
            labels[CHANGE] = str(changes)
        if changes % 2:
            taints = (*taints, Taint(key=CHANGE, value=str(changes), effect="PreferNoSchedule"))
        return msgspec.structs.replace(node, name=name, labels=labels, taints=taints)

    def index(self, name: str) -> int:
        """The index of a node, or of the node that it replaces."""
        index = self._index.get(name, -1)
        return index if index >= 0 else self._index[name.rpartition("-")[0]]

    @cached_property
    def _index(self) -> dict[str, int]:
        return {node.name: index for index, node in enumerate(self.nodes)}

    def _first(self, what: str, index: int, every: int) -> int:
        return 1 + self.draw(what, index) % every

    def _count(self, what: str, index: int, every: int | None, at: int) -> int:
        """How often it has happened up to a time."""
        if every is None:
            return 0
        return max(0, (at - self._first(what, index, every)) // every + 1)

    def _next(self, what: str, index: int, every: int | None, after: int) -> int | None:
        if every is None:
            return None
        at = self._first(what, index, every) + every * self._count(what, index, every, after)
        return at if at <= self.until else None
