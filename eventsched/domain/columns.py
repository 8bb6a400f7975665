"""Nodes as columns: one row a node, numpy arrays over all rows, derived indexes over their values.

Part of SchedulerState, changed only by its ``apply``. Plugins see it through a NodeView, which is
either all rows or some of them. A row is never used again after its node is gone, so a row number
in the log means the same node for ever.
"""

from collections.abc import Callable, Hashable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eventsched.domain.journal import Journal, Rows
from eventsched.domain.objects import (
    CPU,
    EPHEMERAL_STORAGE,
    MEMORY,
    PODS,
    HostPort,
    Node,
    PodSpec,
    is_scalar,
)
from eventsched.domain.requests import of as requests_of

Int64s = NDArray[np.int64]
Bools = NDArray[np.bool_]

_FIRST_CAPACITY = 64

ALLOCATABLE, REQUESTED, NONZERO = range(3)
"""The books of a NodeTable: what nodes offer; what their pods request; the same, but for cpu and
memory a container that asks for nothing counts with the default (upstream:
NodeInfo.NonZeroRequested)."""


class Vocabulary:
    """A column of hashable values stored as small numbers: a question about a value is answered
    once for each distinct value and then spread over the rows."""

    def __init__(self, values: list[Hashable], capacity: int) -> None:
        self.values: list[Hashable] = []
        self._known: dict[Hashable, int] = {}
        self.ids = np.zeros(capacity, dtype=np.intp)
        for row, value in enumerate(values):
            self.put(row, value)

    def put(self, row: int, value: Hashable) -> None:
        """Sets the row's value."""
        number = self._known.setdefault(value, len(self._known))
        if number == len(self.values):
            self.values.append(value)
        self.ids[row] = number

    def answer(self, rows: Rows, question: Callable[[Any], int]) -> Int64s:
        """int64[n]: the question's answer for each row's value."""
        ids = self.ids[rows]
        if len(rows) < len(self.values):
            answers = {number: question(self.values[number]) for number in set(ids.tolist())}
            return np.array([answers[number] for number in ids.tolist()], dtype=np.int64)
        return np.array([question(value) for value in self.values], dtype=np.int64)[ids]


class NodeTable:
    """All nodes as columns. ``books`` is int64[row, book, resource] in millicores, bytes and counts
    (pods count as a resource); ``resource_index`` finds a resource in it. A row's numbers lie
    together, because most questions are about the few rows that changed."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.rows: dict[str, int] = {}
        self.nodes: list[Node | None] = []
        self.usage_journal = Journal()
        self.node_journal = Journal()
        self.image_version = 0
        self.resource_index: dict[str, int] = {CPU: 0, MEMORY: 1, EPHEMERAL_STORAGE: 2, PODS: 3}
        self._capacity = _FIRST_CAPACITY
        self.alive: Bools = np.zeros(self._capacity, dtype=bool)
        self.unschedulable: Bools = np.zeros(self._capacity, dtype=bool)
        self.books: Int64s = np.zeros((self._capacity, 3, 4), dtype=np.int64)
        self.totals: Int64s = np.zeros((2, 4), dtype=np.int64)
        """int64[book, resource]: the sums of the books ALLOCATABLE and REQUESTED over all rows."""
        self._loads: dict[bytes, Int64s] = {}
        self._selections: dict[tuple[str, ...], slice | Rows] = {}
        self._ports: dict[tuple[str, int], dict[str, Int64s]] = {}
        self._derived: dict[Hashable, Vocabulary] = {}
        self._readers: dict[Hashable, Callable[[Node], Hashable]] = {}
        self._images: dict[str, dict[int, int]] = {}

    @property
    def size(self) -> int:
        """Rows in use, those of nodes that are gone included."""
        return len(self.names)

    @property
    def live(self) -> int:
        """Nodes that exist."""
        return len(self.rows)

    # --- changes, called by SchedulerState.apply only -------------------------------------

    def add(self, node: Node) -> int:
        """Gives the node a new row and returns it. Raises KeyError if its name is in use."""
        if node.name in self.rows:
            raise KeyError(node.name)
        row = len(self.names)
        if row == self._capacity:
            self._grow(self._capacity * 2)
        self.names.append(node.name)
        self.nodes.append(None)
        self.rows[node.name] = row
        self.alive[row] = True
        self._write(row, node)
        return row

    def update(self, node: Node) -> int:
        """Replaces what is known of a node; its pods stay. Returns its row."""
        row = self.rows[node.name]
        self._write(row, node)
        return row

    def remove(self, name: str) -> int:
        """Takes a node out; its row stays, dead. Returns the row."""
        row = self.rows.pop(name)
        self._put_images(row, None)
        self._offer(row, -1)
        self.books[row, ALLOCATABLE] = 0
        self.nodes[row] = None
        self.alive[row] = False
        self.node_journal.touch(row)
        return row

    def place(self, row: int, spec: PodSpec, sign: int = 1) -> None:
        """Books a pod's requests and host ports on a row, or takes them off (``sign`` -1)."""
        load = self._loads.get(spec.key)
        if load is None:
            load = self._loads[spec.key] = self._load(spec)
        if sign < 0:
            load = -load
        self.books[row, REQUESTED:, : load.shape[1]] += load
        self.totals[REQUESTED, : load.shape[1]] += load[0]
        for port in spec.host_ports:
            self._port_column(port)[row] += sign
        self.usage_journal.touch(row)

    def resource(self, name: str) -> int:
        """The index of a resource in ``allocatable`` and ``requested``, made on first use."""
        index = self.resource_index.get(name)
        if index is None:
            index = self.resource_index[name] = len(self.resource_index)
            grown = np.zeros((self._capacity, 3, 1), dtype=np.int64)
            self.books = np.concatenate([self.books, grown], axis=2)
            self.totals = np.concatenate([self.totals, np.zeros((2, 1), dtype=np.int64)], axis=1)
        return index

    def selection(self, resources: tuple[str, ...]) -> slice | Rows | None:
        """How to find resources along an axis of ``books``; None where one is unknown."""
        found = self._selections.get(resources)
        if found is None and all(name in self.resource_index for name in resources):
            index = [self.resource_index[name] for name in resources]
            if index == list(range(index[0], index[0] + len(index))):
                found = slice(index[0], index[-1] + 1)
            else:
                found = np.array(index, dtype=np.intp)
            self._selections[resources] = found
        return found

    def _load(self, spec: PodSpec) -> Int64s:
        """int64[2, resource]: what a pod adds to the books REQUESTED and NONZERO."""
        requests = requests_of(spec)
        amounts = {self.resource(name): amount for name, amount in requests.effective.items()}
        load = np.zeros((2, len(self.resource_index)), dtype=np.int64)
        for index, amount in amounts.items():
            load[:, index] = amount
        load[1, self.resource_index[CPU]] = requests.nonzero_cpu
        load[1, self.resource_index[MEMORY]] = requests.nonzero_memory
        load[:, self.resource_index[PODS]] = 1
        return load

    def _write(self, row: int, node: Node) -> None:
        self._offer(row, -1)
        self.books[row, ALLOCATABLE] = 0
        for name, amount in node.allocatable.items():
            if name in (CPU, MEMORY, EPHEMERAL_STORAGE, PODS) or is_scalar(name):
                index = self.resource(name)
                self.books[row, ALLOCATABLE, index] = amount
        self._offer(row, 1)
        self.unschedulable[row] = node.unschedulable
        self._put_images(row, node)
        self.nodes[row] = node
        for key, vocabulary in self._derived.items():
            vocabulary.put(row, self._readers[key](node))
        self.node_journal.touch(row)

    def _offer(self, row: int, sign: int) -> None:
        self.totals[ALLOCATABLE] += sign * self.books[row, ALLOCATABLE]

    def _put_images(self, row: int, node: Node | None) -> None:
        before = self.nodes[row]
        if (before.images if before else ()) == (node.images if node else ()):
            if node is None or before is None:
                self.image_version += 1  # a node more or less changes how far images have spread
            return
        self.image_version += 1
        for image in before.images if before else ():
            for name in image.names:
                self._images.get(name, {}).pop(row, None)
        for image in node.images if node else ():
            for name in image.names:
                self._images.setdefault(name, {})[row] = image.size

    def _port_column(self, port: HostPort) -> Int64s:
        by_ip = self._ports.setdefault((port.protocol, port.port), {})
        if port.ip not in by_ip:
            by_ip[port.ip] = np.zeros(self._capacity, dtype=np.int64)
        return by_ip[port.ip]

    def _grow(self, capacity: int) -> None:
        def wider(old: NDArray[Any]) -> NDArray[Any]:
            new = np.zeros((*old.shape[:-1], capacity), dtype=old.dtype)
            new[..., : old.shape[-1]] = old
            return new

        self.alive, self.unschedulable = wider(self.alive), wider(self.unschedulable)
        books = np.zeros((capacity, *self.books.shape[1:]), dtype=np.int64)
        books[: len(self.books)] = self.books
        self.books = books
        for by_ip in self._ports.values():
            for ip in by_ip:
                by_ip[ip] = wider(by_ip[ip])
        for vocabulary in self._derived.values():
            vocabulary.ids = wider(vocabulary.ids)
        self._capacity = capacity

    # --- questions ------------------------------------------------------------------------

    def ports_in_use(self, port: HostPort) -> list[Int64s]:
        """The columns of counts that a host port would collide with (upstream: framework
        HostPortInfo.CheckConflict): all addresses for 0.0.0.0, else that address and 0.0.0.0."""
        by_ip = self._ports.get((port.protocol, port.port), {})
        if port.ip == "0.0.0.0":
            return list(by_ip.values())
        return [by_ip[ip] for ip in ("0.0.0.0", port.ip) if ip in by_ip]

    def image_holders(self, name: str) -> dict[int, int]:
        """Row → size in bytes, for the nodes that hold the image of that exact name."""
        return self._images.get(name, {})

    def vocabulary(self, key: Hashable, read: Callable[[Node], Hashable]) -> Vocabulary:
        """The derived column ``key`` whose value on each node is ``read(node)``; built at the first
        question and kept up to date from then on."""
        found = self._derived.get(key)
        if found is None:
            values = [read(node) if node is not None else None for node in self.nodes]
            found = self._derived[key] = Vocabulary(values, self._capacity)
            self._readers[key] = read
        return found


class NodeView:
    """The rows a plugin is asked about: all of a table's, or some. Arrays have one element a row,
    in the order of ``rows``; they are copies or must not be written to."""

    __slots__ = ("_books", "_table", "rows")

    def __init__(self, table: NodeTable, rows: Rows | None = None) -> None:
        self._table = table
        self.rows: Rows = np.arange(table.size, dtype=np.intp) if rows is None else rows
        self._books: Int64s | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def is_named(self, name: str) -> Bools:
        """bool[n]: whether this is the node of that name."""
        return np.asarray(self.rows == self._table.rows.get(name, -1))

    @property
    def names(self) -> list[str]:
        """The nodes' names."""
        return [self._table.names[row] for row in self.rows]

    @property
    def nodes(self) -> list[Node | None]:
        """The nodes themselves, None for one that is gone: for per-node code, not for loops over
        all rows in a hot path."""
        return [self._table.nodes[row] for row in self.rows]

    @property
    def total_nodes(self) -> int:
        """Nodes in the cluster, whatever rows this view has."""
        return self._table.live

    @property
    def unschedulable(self) -> Bools:
        """bool[n]: cordoned."""
        return self._table.unschedulable[self.rows]

    @property
    def pods(self) -> Int64s:
        """int64[n]: pods on the node, assumed ones included."""
        return np.asarray(self.requested((PODS,))[0])

    @property
    def allowed_pods(self) -> Int64s:
        """int64[n]: pods that the node takes at most."""
        return np.asarray(self.allocatable((PODS,))[0])

    def allocatable(self, resources: tuple[str, ...]) -> Int64s:
        """int64[k, n]: what the nodes offer of each resource (millicores, bytes, counts; ``pods``
        is a resource here)."""
        return self._book(ALLOCATABLE, resources)

    def requested(self, resources: tuple[str, ...]) -> Int64s:
        """int64[k, n]: what the pods on the nodes request of each resource."""
        return self._book(REQUESTED, resources)

    def nonzero_requested(self, resources: tuple[str, ...]) -> Int64s:
        """int64[k, n]: like ``requested``, with the defaults of cpu and memory for containers that
        ask for none."""
        return self._book(NONZERO, resources)

    def books(self, resources: tuple[str, ...]) -> tuple[Int64s, Int64s, Int64s]:
        """``allocatable``, ``requested`` and ``nonzero_requested`` at once: int64[k, n] each."""
        selection = self._table.selection(resources)
        if selection is None:
            return (
                self.allocatable(resources),
                self.requested(resources),
                self.nonzero_requested(resources),
            )
        if self._books is None:
            self._books = self._table.books[self.rows]
        chosen = self._books[:, :, selection].T
        return chosen[:, ALLOCATABLE], chosen[:, REQUESTED], chosen[:, NONZERO]

    def ports_in_use(self, port: HostPort) -> Bools:
        """bool[n]: whether the host port collides with one in use on the node."""
        taken = np.zeros(len(self.rows), dtype=bool)
        for column in self._table.ports_in_use(port):
            taken |= column[self.rows] > 0
        return taken

    def image_sizes(self, name: str) -> tuple[Int64s, int]:
        """int64[n]: size in bytes of an image on each node, 0 where it is not; and the number of
        nodes in the whole cluster that hold it."""
        holders = self._table.image_holders(name)
        sizes = np.zeros(self._table.size, dtype=np.int64)
        if holders:
            sizes[list(holders)] = list(holders.values())
        return sizes[self.rows], len(holders)

    def answer(
        self,
        key: Hashable,
        read: Callable[[Node], Hashable],
        question: Callable[[Any], int],
    ) -> Int64s:
        """int64[n]: ``question(read(node))`` for each node, asked once for each distinct value.
        ``key`` names the column ``read`` makes; a node that is gone has the value None."""
        if not len(self.rows):
            return np.zeros(0, dtype=np.int64)
        return self._table.vocabulary(key, read).answer(self.rows, question)

    def label(self, name: str, question: Callable[[str | None], int]) -> Int64s:
        """int64[n]: ``question(value of the label)``, with None where a node does not have it."""
        return self.answer(("label", name), lambda node: node.labels.get(name), question)

    def _book(self, book: int, resources: tuple[str, ...]) -> Int64s:
        if isinstance(resources, str):
            raise TypeError(f"resources are named in a tuple: ({resources!r},)")
        if self._books is None:
            self._books = self._table.books[self.rows]
        selection = self._table.selection(resources)
        if selection is not None:
            return self._books[:, book, selection].T
        known = self._table.resource_index
        found = np.zeros((len(resources), len(self.rows)), dtype=np.int64)
        for position, name in enumerate(resources):
            if name in known:
                found[position] = self._books[:, book, known[name]]
        return found
