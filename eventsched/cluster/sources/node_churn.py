"""Nodes that are replaced and changed while a simulation runs, as in an autoscaled cluster."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import msgspec

from eventsched.cluster.sources.recurrence import Recurrence
from eventsched.domain.objects import Node, Taint
from eventsched.domain.units import SECOND

HOSTNAME = "kubernetes.io/hostname"
CHANGE = "example.com/change"
"""The label that a change sets, and the key of the taint that every other change adds."""
NOT_READY = "node.kubernetes.io/not-ready"
"""The key of the taint of a node that is not ready (Kubernetes, well-known taints)."""
FLAP = 60 * SECOND
"""How long (µs) a node is not ready, or half the time between two flaps if that is shorter."""


@dataclass(frozen=True)
class NodeChurn:
    """When the nodes of a load are replaced and changed: a function of the node's index and the
    time, so nothing has to be remembered.

    ``life`` is how long a node lives, ``change_every`` the time between two changes of a node,
    ``flap_every`` the time between two flaps, in µs; None for never. ``draw`` spreads them over the
    nodes (see ``Load.number``). Nothing begins after ``until`` (µs).
    """

    nodes: Sequence[Node]
    draw: Callable[[str, int], int]
    life: int | None
    change_every: int | None
    until: int
    flap_every: int | None = None

    def next_end(self, index: int, after: int) -> int | None:
        """When the life of a node ends, the first time after a time; None for never."""
        return self._lives.next(index, after)

    def next_change(self, index: int, after: int) -> int | None:
        """When a node changes, the first time after a time; None for never."""
        flap_end = self._flap_end(index, after)
        if flap_end is None:
            flap_end = self._flaps.next(index, after)
        times = (self._changes.next(index, after), flap_end)
        return min((at for at in times if at is not None), default=None)

    def node(self, index: int, at: int) -> Node:
        """The node at a time; the new one at the time of a replacement."""
        node = self.nodes[index]
        generation = self._lives.count(index, at)
        changes = self._changes.count(index, at)
        name = f"{node.name}-{generation}" if generation else node.name
        labels, taints = {**node.labels, HOSTNAME: name}, node.taints
        if changes:
            labels[CHANGE] = str(changes)
        if changes % 2:
            taints = (*taints, Taint(key=CHANGE, value=str(changes), effect="PreferNoSchedule"))
        if self._flap_end(index, at) is not None:
            taints = (*taints, Taint(key=NOT_READY, effect="NoSchedule"))
        return msgspec.structs.replace(node, name=name, labels=labels, taints=taints)

    def index(self, name: str) -> int:
        """The index of a node, or of the node that it replaces."""
        index = self._index.get(name, -1)
        return index if index >= 0 else self._index[name.rpartition("-")[0]]

    @cached_property
    def _index(self) -> dict[str, int]:
        return {node.name: index for index, node in enumerate(self.nodes)}

    @cached_property
    def _lives(self) -> Recurrence:
        return Recurrence("life", self.draw, self.life, self.until)

    @cached_property
    def _changes(self) -> Recurrence:
        return Recurrence("change", self.draw, self.change_every, self.until)

    @cached_property
    def _flaps(self) -> Recurrence:
        return Recurrence("flap", self.draw, self.flap_every, self.until)

    def _flap_end(self, index: int, at: int) -> int | None:
        """When a flap that is under way ends; None if the node is ready."""
        began = self._flaps.last(index, at)
        if began is None or self.flap_every is None:
            return None
        ends_at = began + min(FLAP, max(1, self.flap_every // 2))
        return ends_at if ends_at > at else None
