"""How many CSI volumes are attached to each node, by driver, and how many may be.

Upstream: plugins/nodevolumelimits/csi.go, which counts again for each pod and node. Here a row is
counted again when its pods with volumes, or an object that its count depends on, have changed.
Derived: rebuilding gives the same counts.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from eventsched.domain.nodes.node_table import NodeTable
from eventsched.domain.objects import Pod
from eventsched.domain.objects.registry import CSINode, PersistentVolume, Registry, VolumeAttachment
from eventsched.scheduling.rules.volumes.csi_volumes import (
    Source,
    UncountableError,
    Unique,
    VolumeReader,
)

Int64s = NDArray[np.int64]
Bools = NDArray[np.bool_]
UNLIMITED = 2**62


class Count(NamedTuple):
    """The count of a row: the pods' volumes, how many volumes each driver has attached there,
    and why the pods cannot be counted, if they cannot."""

    volumes: Mapping[Unique, None]
    attached: Mapping[str, int]
    problem: str = ""


_EMPTY = Count({}, {})


class Attachments:
    """The counts of all rows of a table whose nodes limit any driver."""

    def __init__(self, table: NodeTable, registry: Registry) -> None:
        self.table, self.registry = table, registry
        self.problems: dict[int, str] = {}
        """Row → why its pods cannot be counted."""
        self._seen: tuple[int, int, int] | None = None
        self._counts: dict[int, Count] = {}
        self._looked_at: dict[int, set[Source]] = {}
        self._lookers: dict[Source, set[int]] = {}
        self._holders: dict[Unique, set[int]] = {}
        self._attached: dict[str, Int64s] = {}
        self._limits: dict[str, Int64s] = {}
        self._known: Bools = np.zeros(0, dtype=bool)
        self._limited: Bools = np.zeros(0, dtype=bool)
        self._row_limits: dict[int, dict[str, int]] = {}
        self._by_node: dict[str, dict[str, None]] = {}
        self._node_of: dict[str, str] = {}

    # --- questions ------------------------------------------------------------------------

    @property
    def known(self) -> Bools:
        """bool[size]: whether the node has a CSINode object."""
        return self._known[: self.table.size]

    @property
    def limited(self) -> Bools:
        """bool[size]: whether the CSINode object limits any driver."""
        return self._limited[: self.table.size]

    def attached(self, driver: str) -> Int64s:
        """int64[size]: volumes of a driver attached to each node, if the node limits any driver."""
        return self._column(self._attached, driver, 0)[: self.table.size]

    def limit(self, driver: str) -> Int64s:
        """int64[size]: how many there may be, UNLIMITED if no limit is reported."""
        return self._column(self._limits, driver, UNLIMITED)[: self.table.size]

    def holders(self, volume: Unique) -> Iterable[int]:
        """The rows whose pods have a volume."""
        return self._holders.get(volume, ())

    def count(self, row: int, pods: Iterable[Pod]) -> Count:
        """The count of a row as it would be with these pods on it."""
        reader = VolumeReader(self.registry, csi=True)
        return self._counted(self.table.names[row], pods, reader)

    # --- following ------------------------------------------------------------------------

    def refresh(self) -> None:
        """Applies the changes since the last refresh."""
        table, registry = self.table, self.registry
        now = (table.volumes.journal.end, table.node_journal.end, registry.end)
        if self._seen == now:
            return
        dirty = self._dirty()
        self._seen = now
        self._grow()
        for row in dirty:
            self._recount(row)

    def _dirty(self) -> set[int]:
        table = self.table
        if self._seen is not None:
            pods = table.volumes.journal.since(self._seen[0])
            nodes = table.node_journal.since(self._seen[1])
            changes = self.registry.since(self._seen[2])
            if pods is not None and nodes is not None and changes is not None:
                dirty = {*pods.tolist(), *nodes.tolist()}
                for kind, key in changes:
                    dirty |= self._lookers.get((kind, key), set())
                    if kind is CSINode and key[1] in table.rows:
                        dirty.add(table.rows[key[1]])
                    if kind is VolumeAttachment:
                        dirty |= self._moved(key[1])
                return dirty
        self._by_node, self._node_of = {}, {}
        for _, name in self.registry.all(VolumeAttachment):
            self._moved(name)
        return set(range(table.size))

    def _moved(self, name: str) -> set[int]:
        """Indexes an attachment by its node. Returns the affected rows."""
        old = self._node_of.pop(name, None)
        if old is not None:
            del self._by_node[old][name]
        attachment = self.registry.get(VolumeAttachment, name)
        if attachment is not None:
            self._node_of[name] = attachment.node
            self._by_node.setdefault(attachment.node, {})[name] = None
        concerned = {old, attachment.node if attachment else None}
        return {self.table.rows[node] for node in concerned if node in self.table.rows}

    def _grow(self) -> None:
        size = max(self.table.size, len(self._known))
        if size > len(self._known):
            size += size // 2
            self._known = _longer(self._known, size)
            self._limited = _longer(self._limited, size)
            self._attached = {d: _longer(c, size) for d, c in self._attached.items()}
            self._limits = {d: _longer(c, size, UNLIMITED) for d, c in self._limits.items()}

    def _recount(self, row: int) -> None:
        name = self.table.names[row]
        node = self.registry.get(CSINode, name) if name in self.table.rows else None
        here = node is not None and self.table.rows[name] == row
        drivers = node.drivers if node is not None and here else ()
        limits = {driver.name: driver.limit for driver in drivers if driver.limit is not None}
        self._known[row], self._limited[row] = here, bool(limits)
        for driver in self._row_limits.pop(row, {}):
            self._limits[driver][row] = UNLIMITED
        for driver, limit in limits.items():
            self._column(self._limits, driver, UNLIMITED)[row] = limit
        if limits:
            self._row_limits[row] = limits
        reader = VolumeReader(self.registry, csi=True)
        pods = self.table.volumes.mounting(row)
        count = self._counted(name, pods, reader) if limits else _EMPTY
        self._remove(row)
        self._add(row, count, reader.looked_at)

    def _remove(self, row: int) -> None:
        """Takes a row's count out of the columns and indexes."""
        old = self._counts.pop(row, _EMPTY)
        self.problems.pop(row, None)
        for driver in old.attached:
            self._attached[driver][row] = 0
        for volume in old.volumes:
            self._holders[volume].discard(row)
            if not self._holders[volume]:
                del self._holders[volume]
        for source in self._looked_at.pop(row, ()):
            self._lookers[source].discard(row)
            if not self._lookers[source]:
                del self._lookers[source]

    def _add(self, row: int, count: Count, looked_at: set[Source]) -> None:
        """Puts a row's count, and the objects that it depends on, into the columns and indexes."""
        if looked_at:
            self._looked_at[row] = looked_at
        for source in looked_at:
            self._lookers.setdefault(source, set()).add(row)
        if count is _EMPTY:
            return
        self._counts[row] = count
        if count.problem:
            self.problems[row] = count.problem
        for driver, number in count.attached.items():
            self._column(self._attached, driver, 0)[row] = number
        for volume in count.volumes:
            self._holders.setdefault(volume, set()).add(row)

    def _counted(self, node: str, pods: Iterable[Pod], reader: VolumeReader) -> Count:
        volumes: dict[Unique, None] = {}
        problem = ""
        for pod in pods:
            if not pod.volumes:
                continue
            try:
                volumes |= reader.volumes(pod, new=False)
            except UncountableError as error:
                problem = problem or str(error)
        attached: dict[str, int] = {}
        for driver, _, _ in (*volumes, *self._others(node, volumes, reader)):
            attached[driver] = attached.get(driver, 0) + 1
        return Count(volumes, attached, problem)

    def _others(
        self, node: str, volumes: Mapping[Unique, None], reader: VolumeReader
    ) -> dict[Unique, None]:
        """Volumes that are attached to a node, or will be, besides those of its pods (upstream:
        getNodeVolumeAttachmentInfo)."""
        others: dict[Unique, None] = {}
        for name in self._by_node.get(node, ()):
            attachment = self.registry.get(VolumeAttachment, name)
            if attachment is None or not attachment.attacher or not attachment.volume:
                continue
            reader.looked_at.add((PersistentVolume, ("", attachment.volume)))
            volume = self.registry.get(PersistentVolume, attachment.volume)
            if volume is None or not (volume.driver or volume.handle):
                continue
            unique = (attachment.attacher, True, volume.handle)
            if unique not in volumes:
                others[unique] = None
        return others

    def _column(self, columns: dict[str, Int64s], driver: str, fill: int) -> Int64s:
        column = columns.get(driver)
        if column is None:
            column = columns[driver] = np.full(len(self._known), fill, dtype=np.int64)
        return column


def _longer(column: NDArray[Any], size: int, fill: int = 0) -> NDArray[Any]:
    longer = np.full(size, fill, dtype=column.dtype)
    longer[: len(column)] = column
    return longer
