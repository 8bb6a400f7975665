"""What plugins see of the nodes: all or some of them, as they are or with hypothetical pods.

Arrays have one element a row, in the order of ``rows``. They are copies or read only.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from eventsched.domain.journal import Rows
from eventsched.domain.nodes.dictionary_column import DictionaryColumn
from eventsched.domain.nodes.node_table import (
    ALLOCATABLE,
    NONZERO,
    OFFERS,
    REQUESTED,
    NodeTable,
)
from eventsched.domain.objects import PODS, HostPort, Node, Pod

Int64s = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

_FEW = 4
"""Up to this number of pods or rows, plain Python is faster than numpy."""


class NodeView:
    """The rows a plugin is asked about: all of a table's, or some."""

    __slots__ = ("_books", "_columns", "_table", "_whole", "rows")

    def __init__(self, table: NodeTable, rows: Rows | None = None) -> None:
        self._table = table
        self._whole = rows is None
        self.rows: Rows = table.every_row if rows is None else rows
        self._books: Int64s | None = None
        self._columns: Int64s | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def is_named(self, name: str) -> Bools:
        """bool[n]: whether the row is the node of that name."""
        return np.asarray(self.rows == self._table.rows.get(name, -1))

    @property
    def names(self) -> list[str]:
        """The nodes' names."""
        return [self._table.names[row] for row in self.rows]

    @property
    def nodes(self) -> list[Node | None]:
        """The nodes themselves, None for a deleted one. For per-node code, not for loops over all
        rows in a hot path."""
        return [self._table.nodes[row] for row in self.rows]

    @property
    def total_nodes(self) -> int:
        """The number of nodes in the cluster, whatever rows this view has."""
        return self._table.live

    @property
    def unschedulable(self) -> Bools:
        """bool[n]: whether the node is cordoned."""
        return self._table.unschedulable[self.rows]

    @property
    def pods(self) -> Int64s:
        """int64[n]: pods on the node, assumed ones included."""
        return np.asarray(self.requested((PODS,))[0])

    @property
    def allowed_pods(self) -> Int64s:
        """int64[n]: the most pods that the node takes."""
        return np.asarray(self.allocatable((PODS,))[0])

    def allocatable(self, resources: tuple[str, ...]) -> Int64s:
        """int64[k, n]: what the nodes offer of each resource (millicores, bytes, counts). ``pods``
        is a resource too."""
        return self._book(ALLOCATABLE, resources)

    def requested(self, resources: tuple[str, ...]) -> Int64s:
        """int64[k, n]: what the pods on the nodes request of each resource."""
        return self._book(REQUESTED, resources)

    def nonzero_requested(self, resources: tuple[str, ...]) -> Int64s:
        """int64[k, n]: like ``requested``, with defaults for containers that request no cpu or
        memory."""
        return self._book(NONZERO, resources)

    def books(self, resources: tuple[str, ...]) -> tuple[Int64s, Int64s, Int64s]:
        """``allocatable``, ``requested`` and ``nonzero_requested`` at once: int64[k, n] each, read
        only."""
        selection = self._table.selection(resources)
        if selection is None:
            return (
                self.allocatable(resources),
                self.requested(resources),
                self.nonzero_requested(resources),
            )
        if self._columns is None:
            # Contiguous columns: several plugins use each of them several times.
            self._columns = np.ascontiguousarray(self._row_books().transpose(1, 2, 0))
            self._columns.flags.writeable = False
        if isinstance(selection, slice):
            chosen = self._columns[:, selection]
        else:
            chosen = self._columns.take(selection, axis=1)
        return chosen[ALLOCATABLE], chosen[REQUESTED], chosen[NONZERO]

    def offered(self, resources: tuple[str, ...]) -> Sequence[int]:
        """The indexes of those resources that have a column: all that a node of the cluster offers,
        and some of those that one has offered. No row has any of the others."""
        if self._table.selection(resources) is not None:
            return range(len(resources))
        known = self._table.resource_index
        return [index for index, name in enumerate(resources) if name in known]

    def offering(self, resource: str) -> Bools:
        """bool[n]: whether the node names a resource among those that it offers, even 0 of it. The
        resource is none of cpu, memory, ephemeral-storage and pods."""
        if not self.offered((resource,)):
            return np.zeros(len(self.rows), dtype=bool)
        key = (OFFERS, resource)
        return self.integers(key, lambda node: int(resource in node.allocatable)) > 0

    def alone(self, resources: tuple[str, ...]) -> list[list[int]] | None:
        """``books`` as plain numbers if the view has exactly one row, otherwise None. After each
        placement one row is evaluated again, and arrays of one element are slow."""
        if len(self.rows) != 1 or (selection := self._table.selection(resources)) is None:
            return None
        books = self._table.books[int(self.rows[0])] if self._books is None else self._books[0]
        numbers: list[list[int]] = books[:, selection].tolist()
        return numbers

    def ports_in_use(self, port: HostPort) -> Bools:
        """bool[n]: whether the host port collides with one in use on the node."""
        taken = np.zeros(len(self.rows), dtype=bool)
        for rows in self._table.host_ports.colliding(port).values():
            taken |= self._among(rows)
        return taken

    @property
    def table(self) -> NodeTable:
        """The whole table, for what depends on more than these rows. It does not contain the
        hypothetical pods of this view (see ``step``)."""
        return self._table

    @property
    def trial(self) -> bool:
        """Whether this view has hypothetical pods."""
        return False

    def without_lesser(self, pod: Pod) -> "NodeView":
        """These rows without the pods that a pod may preempt. Hints judge by this view, because the
        pod's next attempt may evict those pods. Pods that are being deleted stay: their deletion
        wakes the pod."""
        if pod.preemption_policy == "Never":
            return self
        steps = [
            PodStep(position, resident, -1)
            for position in range(len(self.rows))
            for resident in self.residents(position)
            if resident.priority < pod.priority and not resident.deleting
        ]
        return TrialView(self._table, self.rows, steps) if steps else self

    def step(self, counts: Callable[[Pod], int]) -> Int64s | None:
        """int64[n]: how much the hypothetical pods add to a sum over each row's pods; ``counts`` is
        what one pod adds. None if there are none. Each row is taken by itself, as if the other rows
        were as in the table."""
        return None

    def residents(self, position: int) -> Iterable[Pod]:
        """The pods on the row at a position of ``rows``, in the order in which they were added."""
        pods: dict[str, Pod] = self._table.residents[self.rows[position]]
        return pods.values()

    def image_sizes(self, name: str) -> tuple[Int64s, int]:
        """int64[n]: size in bytes of an image on each node, 0 without it; and the number of nodes
        in the whole cluster that have it."""
        holders = self._table.images.of(name)
        sizes = np.zeros(self._table.size, dtype=np.int64)
        if holders:
            sizes[list(holders)] = list(holders.values())
        return sizes[self.rows], len(holders)

    def ids(self, column: DictionaryColumn) -> NDArray[np.intp]:
        """intp[n]: the numbers of the rows' values in a column of the table."""
        return column.ids[: len(self.rows)] if self._whole else column.ids[self.rows]

    def answer(
        self,
        key: Hashable,
        read: Callable[[Node], Hashable],
        question: Callable[[Any], int],
    ) -> Int64s:
        """int64[n]: ``question(read(node))`` of each node, called once for each distinct value.
        ``key`` identifies the column that ``read`` makes; a deleted node has the value None."""
        if not len(self.rows):
            return np.zeros(0, dtype=np.int64)
        return self._table.dictionary(key, read).answer(self.rows, question)

    def integers(self, key: Hashable, read: Callable[[Node], int]) -> Int64s:
        """int64[n]: ``read(node)`` of each node, 0 for a deleted one. ``read`` is called once for
        each change of a node. For columns that every pod needs in full."""
        column = self._table.dictionary(key, read)
        return np.asarray(column.integers[self.ids(column)])

    def sampled(self, source: str) -> Floats:
        """float64[n]: the newest values of a source of samples, NaN for a node without a valid one.
        A plugin that reads them declares ``DependsOn.SAMPLES``."""
        table = self._table
        column = table.samples.column(source, table.rows, table.size, table.additions)
        return column[self.rows]

    def label_among(self, name: str, values: Iterable[str | None]) -> Bools:
        """bool[n]: whether the label's value is one of these; None stands for a node without the
        label. The cost does not depend on how many values the nodes have."""
        column = self._table.label(name)
        numbers = [number for value in values if (number := column.number(value)) >= 0]
        ids = self.ids(column)
        if len(numbers) < 2:
            return np.asarray(ids == (numbers[0] if numbers else -1))
        wanted = np.zeros(len(column.values), dtype=bool)
        wanted[numbers] = True
        return np.asarray(wanted[ids])

    def label(self, name: str, question: Callable[[str | None], int]) -> Int64s:
        """int64[n]: ``question(value of the label)``, with None for a node without it."""
        if not len(self.rows):
            return np.zeros(0, dtype=np.int64)
        return self._table.label(name).answer(self.rows, question)

    def _among(self, rows: Collection[int]) -> Bools:
        """bool[n]: which rows of the view are among some rows."""
        if len(self.rows) <= _FEW:
            return np.array([row in rows for row in self.rows.tolist()], dtype=bool)
        is_among = np.zeros(self._table.size, dtype=bool)
        is_among[list(rows)] = True
        return is_among[self.rows]

    def _book(self, book: int, resources: tuple[str, ...]) -> Int64s:
        if isinstance(resources, str):
            raise TypeError(f"resources are named in a tuple: ({resources!r},)")
        books = self._row_books()
        selection = self._table.selection(resources)
        if selection is not None:
            return books[:, book, selection].T
        known = self._table.resource_index
        amounts = np.zeros((len(resources), len(self.rows)), dtype=np.int64)
        for position, name in enumerate(resources):
            if name in known:
                amounts[position] = books[:, book, known[name]]
        return amounts

    def _row_books(self) -> Int64s:
        """int64[n, book, resource]: a copy."""
        if self._books is None:
            self._books = self._table.books.take(self.rows, axis=0)
        return self._books


class PodStep(NamedTuple):
    """A hypothetical pod that is added to (1) or removed from (-1) the row at a position."""

    position: int
    pod: Pod
    sign: int


def loads_of(table: NodeTable, pods: Sequence[Pod]) -> Int64s:
    """int64[n, 2, resource]: what each pod adds to the books REQUESTED and NONZERO."""
    loads = [table.load(pod.spec) for pod in pods]
    width = table.books.shape[2]
    if any(load.shape[1] != width for load in loads):
        loads = [np.pad(load, ((0, 0), (0, width - load.shape[1]))) for load in loads]
    return np.array(loads, dtype=np.int64).reshape(len(pods), 2, width)


def stepped(table: NodeTable, rows: Rows, steps: Sequence[PodStep]) -> Int64s:
    """int64[n, book, resource]: the rows' books after the steps."""
    return with_steps(table, table.books[rows], steps)


def with_steps(table: NodeTable, books: Int64s, steps: Sequence[PodStep]) -> Int64s:
    """The books, int64[n, book, resource], changed in place by the steps."""
    if len(steps) <= _FEW:
        for step in steps:
            load = table.load(step.pod.spec)
            books[step.position, REQUESTED:, : load.shape[1]] += step.sign * load
        return books
    loads = loads_of(table, [step.pod for step in steps])
    loads *= np.array([step.sign for step in steps]).reshape(-1, 1, 1)
    positions = np.array([step.position for step in steps], dtype=np.intp)
    np.add.at(books[:, REQUESTED:], positions, loads)
    return books


class TrialView(NodeView):
    """Rows with hypothetical pods added or removed, each row by itself. Preemption uses it for
    nodes without their victims, Filter for nodes with nominated pods (upstream:
    SelectVictimsOnNode, RunFilterPluginsWithNominatedPods)."""

    __slots__ = ("_make_steps", "_steps")

    def __init__(
        self,
        table: NodeTable,
        rows: Rows,
        steps: Sequence[PodStep] | Callable[[], Sequence[PodStep]],
        books: Int64s | None = None,
    ) -> None:
        """``books`` are int64[n, book, resource] after the steps, if the caller has them. ``steps``
        may then be a function, which is called when a plugin asks about pods."""
        super().__init__(table, rows)
        self._steps: Sequence[PodStep] | None = None
        self._make_steps = steps if callable(steps) else lambda: steps
        self._books = stepped(table, rows, self.steps) if books is None else books

    @property
    def steps(self) -> Sequence[PodStep]:
        """The hypothetical pods."""
        if self._steps is None:
            self._steps = self._make_steps()
        return self._steps

    def books_at(self, positions: Rows) -> Int64s:
        """int64[k, book, resource]: a copy of the books at some positions of ``rows``."""
        assert self._books is not None
        return self._books[positions]

    @property
    def trial(self) -> bool:
        """True: this view has hypothetical pods."""
        return True

    def ports_in_use(self, port: HostPort) -> Bools:
        """bool[n]: whether the host port collides with one in use on the node. As upstream
        (HostPortInfo is a set), a port of a removed pod is free even if another pod on the node
        uses it too."""
        colliding = self._table.host_ports.colliding(port)
        in_use = {ip: self._among(rows) for ip, rows in colliding.items()}
        for step in self.steps:
            for used in step.pod.spec.host_ports:
                if used.collides(port):
                    if used.ip not in in_use:
                        in_use[used.ip] = np.zeros(len(self.rows), dtype=bool)
                    in_use[used.ip][step.position] = step.sign > 0
        taken = np.zeros(len(self.rows), dtype=bool)
        for column in in_use.values():
            taken |= column
        return taken

    def step(self, counts: Callable[[Pod], int]) -> Int64s | None:
        """int64[n]: what the hypothetical pods add to a sum over each row's pods."""
        sums = np.zeros(len(self.rows), dtype=np.int64)
        for step in self.steps:
            sums[step.position] += step.sign * counts(step.pod)
        return sums

    def residents(self, position: int) -> Iterable[Pod]:
        """The pods on the row at a position, after the steps."""
        pods = dict(self._table.residents[self.rows[position]])
        for step in self.steps:
            if step.position == position and step.sign > 0:
                pods[step.pod.uid] = step.pod
            elif step.position == position:
                pods.pop(step.pod.uid, None)
        return pods.values()
