"""Nodes as columns: one row per node, numpy arrays over all rows, derived indexes over their
values.

Part of SchedulerState, changed only by its ``apply``. Plugins see it through a NodeView
(node_views.py): all rows or some of them. A new node may get the row of a deleted one: a row number
in the log means the node that has the row at that position.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eventsched.domain.int64 import wrapped
from eventsched.domain.journal import Journal, Rows
from eventsched.domain.nodes.dictionary_column import DictionaryColumn
from eventsched.domain.nodes.host_ports import HostPortUse
from eventsched.domain.nodes.image_holders import ImageHolders
from eventsched.domain.nodes.pod_counts import DomainIndex, PodQuery, RowCounts, Tallies
from eventsched.domain.nodes.resource_columns import ResourceColumns
from eventsched.domain.nodes.samples import Samples
from eventsched.domain.nodes.volumes_in_use import VolumeUse
from eventsched.domain.objects import (
    CPU,
    EPHEMERAL_STORAGE,
    MEMORY,
    PODS,
    Node,
    Pod,
    PodSpec,
    Resources,
    is_scalar,
)
from eventsched.domain.objects.pod_requests import of as requests_of

Int64s = NDArray[np.int64]
Bools = NDArray[np.bool_]

_FIRST_CAPACITY = 64
OFFERS = "offers"
"""With a resource's name the key of the derived column of the nodes that offer it."""

ALLOCATABLE, REQUESTED, NONZERO = range(3)
"""The books of a NodeTable: what nodes offer; what their pods request; the same, with defaults for
containers that request no cpu or memory (upstream: NodeInfo.NonZeroRequested)."""


class NodeTable:
    """All nodes as columns.

    ``books`` is int64[row, book, resource] in millicores, bytes and counts (pods are a resource).
    ``resource_index`` is the index of each resource in it; empty columns may follow. The numbers of
    a row are contiguous, because most reads are of the few rows that changed. Only resources that a
    node offers get a column: pods may name any number of resources.
    """

    def __init__(self) -> None:
        self.names: list[str] = []
        self.rows: dict[str, int] = {}
        self.nodes: list[Node | None] = []
        self.free_rows: dict[int, int] = {}
        """The rows of deleted nodes and when they became free (µs), the longest free ones first."""
        self.usage_journal = Journal()
        self.node_journal = Journal()
        self.samples = Samples()
        self.columns = ResourceColumns()
        self._frees_columns = False
        self._capacity = _FIRST_CAPACITY
        self.alive: Bools = np.zeros(self._capacity, dtype=bool)
        self.unschedulable: Bools = np.zeros(self._capacity, dtype=bool)
        self.books: Int64s = np.zeros((self._capacity, 3, 4), dtype=np.int64)
        self.totals: Int64s = np.zeros((2, 4), dtype=np.int64)
        """int64[book, resource]: the sums of the books ALLOCATABLE and REQUESTED over all rows."""
        self.unoffered: dict[int, Resources] = {}
        """Row → requests of its pods for resources without a column; int64, as in the books."""
        self._derived: dict[Hashable, DictionaryColumn] = {}
        self._readers: dict[Hashable, Callable[[Node], Hashable]] = {}
        self._label_names: dict[str, int] = {}
        """The names of labels, and how many nodes have each."""
        self.additions = 0
        """How many nodes were added."""
        self._no_label = (
            DictionaryColumn([None], self._capacity),
            DictionaryColumn([""], self._capacity),
        )
        self.images = ImageHolders()
        self.residents: list[dict[str, Pod]] = []
        """The pods on each row by uid, in the order in which they were added."""
        self.tallies = Tallies()
        self.volumes = VolumeUse()
        self.host_ports = HostPortUse()
        self._domains = DomainIndex()
        self._every_row: Rows = np.zeros(0, dtype=np.intp)

    @property
    def size(self) -> int:
        """The number of rows, those of deleted nodes included."""
        return len(self.names)

    @property
    def resource_index(self) -> dict[str, int]:
        """The index of each resource in the books."""
        return self.columns.index

    @property
    def live(self) -> int:
        """The number of existing nodes."""
        return len(self.rows)

    # --- changes, called by SchedulerState.apply only -------------------------------------

    def add(self, node: Node, free_row: int = -1) -> int:
        """Gives the node a free row, or a new one, and returns it. Raises KeyError if its name is
        in use or the row is not free."""
        if node.name in self.rows:
            raise KeyError(node.name)
        row = free_row if free_row >= 0 else self._new_row()
        del self.free_rows[row]
        self.additions += 1
        self.names[row] = node.name
        self.rows[node.name] = row
        self.alive[row] = True
        self._write(row, node)
        return row

    def update(self, node: Node) -> int:
        """Replaces a node; its pods stay. Returns its row."""
        row = self.rows[node.name]
        self._write(row, node)
        return row

    def put_back(self, name: str, node: Node | None) -> None:
        """Gives the next row to a node of a snapshot; None if it was deleted."""
        row = self._new_row()
        self.names[row] = name
        if node is not None:
            self.add(node, row)

    def rested_row(self, since: int) -> int:
        """The row that became free first, if that was at or before a time (µs); else -1."""
        row, at = next(iter(self.free_rows.items()), (-1, 0))
        return row if at <= since else -1

    def _new_row(self) -> int:
        row = len(self.names)
        if row == self._capacity:
            self._grow(self._capacity * 2)
        self.names.append("")
        self.nodes.append(None)
        self.residents.append({})
        self.free_rows[row] = 0
        return row

    def remove(self, name: str, at: int) -> int:
        """Removes a node at a time (µs); its row becomes free. Returns the row."""
        row = self.rows.pop(name)
        self.free_rows[row] = at
        self.images.put(row, self.nodes[row], None)
        self._offer(row, -1)
        self.books[row, ALLOCATABLE] = 0
        self._put_labels(row, None)
        self._put_offers(row, {})
        self.nodes[row] = None
        for dictionary in self._derived.values():
            dictionary.put(row, None)
        self.alive[row] = False
        self.node_journal.note(row)
        return row

    def place(self, row: int, pod: Pod, sign: int = 1) -> None:
        """Adds a pod to a row (``sign`` 1) or removes it (-1): its requests, its host ports, its
        volumes, and its part in all counts."""
        _, load, other = self.columns.usage_of(pod.spec)
        width = load.shape[1]
        books, totals = self.books[row, REQUESTED:, :width], self.totals[REQUESTED, :width]
        changed = np.add if sign > 0 else np.subtract
        changed(books, load, out=books)
        changed(totals, load[0], out=totals)
        self._place_rest(row, pod, other, sign)
        self.usage_journal.note(row)
        if sign < 0 and self.columns.withdrawn:
            self._free_unused(requests_of(pod.spec).effective)

    def _place_rest(self, row: int, pod: Pod, other: Resources, sign: int) -> None:
        """All of a pod but what the books have of it; ``other`` are its requests for resources
        without a column."""
        if sign > 0:
            self.residents[row][pod.uid] = pod
        else:
            del self.residents[row][pod.uid]
        if other:
            self._request_unoffered(row, other, sign)
        if pod.spec.host_ports:
            self.host_ports.place(row, pod.spec.host_ports, sign)
        self.tallies.place(row, pod, sign, self._capacity)
        if pod.volumes:
            self.volumes.place(row, pod, sign)

    def place_all(self, placed: Iterable[tuple[int, Pod]]) -> None:
        """Adds pods to rows, in this order. The same as ``place`` for each, but the books take them
        all at once, which is most of the time for the thousands of pods of a snapshot."""
        rows: list[int] = []
        loads: list[Int64s] = []
        for row, pod in placed:
            _, load, other = self.columns.usage_of(pod.spec)
            rows.append(row)
            loads.append(load)
            self._place_rest(row, pod, other, 1)
        if loads:  # all of them as wide as the columns are now
            added, width = np.array(loads), self.columns.width
            np.add.at(self.books[:, REQUESTED:, :width], np.array(rows, dtype=np.intp), added)
            self.totals[REQUESTED, :width] += added[:, 0].sum(axis=0)
        for row in dict.fromkeys(rows):
            self.usage_journal.note(row)

    def replace(self, row: int, old: Pod, new: Pod) -> None:
        """Replaces a pod on a row by a version of itself with equal spec and volumes: its requests
        stay, its part in counts may change. It becomes the last pod of the row."""
        residents = self.residents[row]
        del residents[old.uid]
        residents[new.uid] = new
        for pod, sign in ((old, -1), (new, 1)):
            self.tallies.place(row, pod, sign, self._capacity)
            if pod.volumes:
                self.volumes.place(row, pod, sign)
        self.usage_journal.note(row)

    def load(self, spec: PodSpec) -> Int64s:
        """int64[2, n]: what a pod adds to the first n columns of REQUESTED and NONZERO; it adds
        nothing to later columns."""
        return self.columns.usage_of(spec).load

    def resource(self, name: str) -> int:
        """The index of a resource in the books; adds a column for a new resource."""
        index = self.columns.index.get(name)
        if index is None:
            index = self.columns.add(name)
            self._widen()
            for row in [row for row, amounts in self.unoffered.items() if name in amounts]:
                self.books[row, REQUESTED:, index] = self.unoffered[row].pop(name)
                if not self.unoffered[row]:
                    del self.unoffered[row]
            self.totals[REQUESTED, index] = self.books[:, REQUESTED, index].sum()
        return index

    def put_back_columns(self, names: Sequence[str]) -> None:
        """Gives the resources of a snapshot their columns (``ResourceColumns.names``), before its
        nodes are put back. Raises ValueError for columns that contradict each other."""
        self.columns.put_back(names)
        self._widen()

    def free_columns(self, *, is_on: bool) -> None:
        """Says whether the column of a resource is freed once no node offers it and no pod on a
        node requests it."""
        self._frees_columns = is_on
        self._free_unused(self.columns.withdrawn)

    def _free_unused(self, names: Iterable[str]) -> None:
        for name in self.columns.withdrawn.intersection(names) if self._frees_columns else ():
            index = self.columns.index[name]
            if not self.totals[REQUESTED, index] and not self.books[:, :, index].any():
                self.columns.free(name)
                self._derived.pop((OFFERS, name), None)
                self._readers.pop((OFFERS, name), None)

    def _widen(self) -> None:
        while self.columns.width > self.books.shape[2]:
            self.books = np.concatenate([self.books, np.zeros_like(self.books)], axis=2)
            self.totals = np.concatenate([self.totals, np.zeros_like(self.totals)], axis=1)

    def overbooked(self, rows: Sequence[int]) -> int:
        """How many of these rows have pods that request more of a resource than the node has."""
        books = self.books[np.array(rows, dtype=np.intp)]
        over: list[bool] = np.any(books[:, REQUESTED] > books[:, ALLOCATABLE], axis=1).tolist()
        return sum(
            is_over or any(amount > 0 for amount in self.unoffered.get(row, {}).values())
            for row, is_over in zip(rows, over, strict=True)
        )

    def selection(self, resources: tuple[str, ...]) -> slice | Rows | None:
        """The index of resources along an axis of ``books``; None if one has no column."""
        return self.columns.selection(resources)

    def _request_unoffered(self, row: int, amounts: Resources, sign: int) -> None:
        requested = self.unoffered.setdefault(row, {})
        for name, amount in amounts.items():
            requested[name] = wrapped(requested.get(name, 0) + sign * amount)
            if not requested[name]:
                del requested[name]
        if not requested:
            del self.unoffered[row]

    def _write(self, row: int, node: Node) -> None:
        self._offer(row, -1)
        self.books[row, ALLOCATABLE] = 0
        for name, amount in node.allocatable.items():
            if name in (CPU, MEMORY, EPHEMERAL_STORAGE, PODS) or is_scalar(name):
                index = self.resource(name)
                # A number of pods that has wrapped around below 0 means 0.
                room = max(amount, 0) if name == PODS else amount
                self.books[row, ALLOCATABLE, index] = room
        self._offer(row, 1)
        self.unschedulable[row] = node.unschedulable
        self.images.put(row, self.nodes[row], node)
        self._put_labels(row, node)
        self._put_offers(row, node.allocatable)
        self.nodes[row] = node
        for key, dictionary in self._derived.items():
            dictionary.put(row, self._readers[key](node))
        self.node_journal.note(row)

    def _offer(self, row: int, sign: int) -> None:
        self.totals[ALLOCATABLE] += sign * self.books[row, ALLOCATABLE]

    def _put_labels(self, row: int, node: Node | None) -> None:
        """Counts the names of labels. The columns of a label that no node has any longer go."""
        before = self.nodes[row]
        old, new = before.labels if before else {}, node.labels if node else {}
        if old.keys() == new.keys():
            return
        for name in new:
            self._label_names[name] = self._label_names.get(name, 0) + 1
        for name in old:
            self._label_names[name] -= 1
            if not self._label_names[name]:
                del self._label_names[name]
                for key in (("label", name), ("label", name, "")):
                    self._derived.pop(key, None)
                    self._readers.pop(key, None)

    def _put_offers(self, row: int, offers: Resources) -> None:
        """Counts the resources that nodes offer. The books are those of the new offers."""
        before = self.nodes[row]
        old: Resources = before.allocatable if before else {}
        self.columns.offer(old, offers)
        if self.columns.withdrawn:
            self._free_unused(old)

    def _grow(self, capacity: int) -> None:
        def wider(old: NDArray[Any]) -> NDArray[Any]:
            new = np.zeros((*old.shape[:-1], capacity), dtype=old.dtype)
            new[..., : old.shape[-1]] = old
            return new

        self.alive, self.unschedulable = wider(self.alive), wider(self.unschedulable)
        books = np.zeros((capacity, *self.books.shape[1:]), dtype=np.int64)
        books[: len(self.books)] = self.books
        self.books = books
        for dictionary in (*self._derived.values(), *self._no_label):
            dictionary.ids = wider(dictionary.ids)
        self.tallies.grow(capacity)
        self._capacity = capacity

    @property
    def every_row(self) -> Rows:
        """intp[size]: 0, 1, 2…; read only."""
        if len(self._every_row) != self.size:
            self._every_row = np.arange(self.size, dtype=np.intp)
        return self._every_row

    # --- questions ------------------------------------------------------------------------

    def dictionary(self, key: Hashable, read: Callable[[Node], Hashable]) -> DictionaryColumn:
        """The derived column ``key``, whose value on each node is ``read(node)``. Built when first
        asked for and kept up to date from then on."""
        column = self._derived.get(key)
        if column is None:
            values = [read(node) if node is not None else None for node in self.nodes]
            column = self._derived[key] = DictionaryColumn(values, self._capacity)
            self._readers[key] = read
        return column

    def count(self, query: PodQuery) -> RowCounts:
        """How many pods of each row a query selects; kept up to date once asked for."""
        residents = ((row, pods.values()) for row, pods in enumerate(self.residents) if pods)
        return self.tallies.count(query, residents, self._capacity)

    def label(self, name: str, *, blank: bool = False) -> DictionaryColumn:
        """The column of a label's values; for nodes without the label None, or with ``blank`` the
        empty text. Labels that no node has share one column: pods may name any label."""
        if name not in self._label_names:
            return self._no_label[blank]
        if blank:
            return self.dictionary(("label", name, ""), lambda node: node.labels.get(name, ""))
        return self.dictionary(("label", name), lambda node: node.labels.get(name))

    def domain_sums(
        self, key: Hashable, tally: RowCounts, label: str, eligible: Bools | None = None,
        *, blank: bool = False,
    ) -> Int64s:  # fmt: skip
        """int64[values of the label]: the tally's sums over the rows of each topology domain, only
        over rows that are ``eligible`` (bool[size]). ``key`` identifies the tally and the
        eligibility: the sums are cached under it, and follow each placement until a node changes.
        ``blank`` is that of ``label``."""
        domains = self.label(label, blank=blank)
        return self._domains.sums(
            (key, label, blank), self.node_journal.end, tally, domains.ids[: self.size],
            len(domains.values), eligible,
        )  # fmt: skip
