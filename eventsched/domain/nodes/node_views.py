"""What plugins see of the nodes: all or some; as they are, or as they would be.

Arrays have one element a row, in the order of ``rows``; they are copies or must not be written to.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from eventsched.domain.journal import Rows
from eventsched.domain.nodes.node_table import (
    ALLOCATABLE,
    NONZERO,
    REQUESTED,
    DictionaryColumn,
    NodeTable,
)
from eventsched.domain.objects import PODS, HostPort, Node, Pod

Int64s = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

_FEW = 4
"""Pods or rows that are looked at one by one: arrays of so few would cost more."""


class NodeView:
    """The rows a plugin is asked about: all of a table's, or some."""

    __slots__ = ("_books", "_table", "_whole", "rows")

    def __init__(self, table: NodeTable, rows: Rows | None = None) -> None:
        self._table = table
        self._whole = rows is None
        self.rows: Rows = table.every_row if rows is None else rows
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

    def offered(self, resources: tuple[str, ...]) -> Sequence[int]:
        """Where those of the resources stand that some node of the cluster has offered; of all
        others no row has any."""
        if self._table.selection(resources) is not None:
            return range(len(resources))
        known = self._table.resource_index
        return [place for place, name in enumerate(resources) if name in known]

    def alone(self, resources: tuple[str, ...]) -> list[list[int]] | None:
        """``books`` of the one row that there is, as plain numbers; None where there are more.
        After each placement one row is looked at again: arrays of one element would cost more than
        what is done with them."""
        selection = self._table.selection(resources)
        if len(self.rows) != 1 or selection is None:
            return None
        books = self._table.books[int(self.rows[0])] if self._books is None else self._books[0]
        found: list[list[int]] = books[:, selection].tolist()
        return found

    def ports_in_use(self, port: HostPort) -> Bools:
        """bool[n]: whether the host port collides with one in use on the node."""
        taken = np.zeros(len(self.rows), dtype=bool)
        for held in self._table.host_ports.colliding(port).values():
            taken |= self._among(held)
        return taken

    @property
    def table(self) -> NodeTable:
        """The whole table, for what depends on more than these rows. It is as it is, also where
        this view shows the rows as they would be (see ``step``)."""
        return self._table

    @property
    def trial(self) -> bool:
        """Whether this shows rows as they would be."""
        return False

    def without_lesser(self, pod: Pod) -> "NodeView":
        """These rows without the pods that a pod may preempt: what a wake-up has to be judged by,
        because its next attempt may make that room. Those that are leaving wake it when they go."""
        if pod.preemption_policy == "Never":
            return self
        steps = [
            PodStep(position, each, -1)
            for position in range(len(self.rows))
            for each in self.residents(position)
            if each.priority < pod.priority and not each.deleting
        ]
        return TrialView(self._table, self.rows, steps) if steps else self

    def step(self, counts: Callable[[Pod], int]) -> Int64s | None:
        """int64[n]: how much more than in the table a sum over the row's pods is, ``counts`` being
        what each adds; None for no difference. Each row is looked at by itself: that other rows may
        differ as well is no part of it."""
        return None

    def residents(self, position: int) -> Iterable[Pod]:
        """The pods on the row at a position of ``rows``, in the order in which they came."""
        pods: dict[str, Pod] = self._table.residents[self.rows[position]]
        return pods.values()

    def image_sizes(self, name: str) -> tuple[Int64s, int]:
        """int64[n]: size in bytes of an image on each node, 0 where it is not; and the number of
        nodes in the whole cluster that hold it."""
        holders = self._table.image_holders(name)
        sizes = np.zeros(self._table.size, dtype=np.int64)
        if holders:
            sizes[list(holders)] = list(holders.values())
        return sizes[self.rows], len(holders)

    def ids(self, column: DictionaryColumn) -> NDArray[np.intp]:
        """intp[n]: the numbers that stand for the rows' values in a column of the table."""
        return column.ids[: len(self.rows)] if self._whole else column.ids[self.rows]

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
        return self._table.dictionary(key, read).answer(self.rows, question)

    def integers(self, key: Hashable, read: Callable[[Node], int]) -> Int64s:
        """int64[n]: ``read(node)`` for each node, 0 for one that is gone. Read once for each change
        of a node: for columns that every pod needs whole."""
        column = self._table.dictionary(key, read)
        return np.asarray(column.integers[self.ids(column)])

    def sampled(self, source: str) -> Floats:
        """float64[n]: the newest values of a source of samples, NaN where a node has none, or they
        do not hold any more. A plugin that reads them says so: ``DependsOn.SAMPLES``."""
        return self._table.samples.column(source, self._table.rows, self._table.size)[self.rows]

    def label_among(self, name: str, values: Iterable[str | None]) -> Bools:
        """bool[n]: whether the label's value is one of these, None among them where a node does not
        have it. The values are looked up, so that it costs the same however many the nodes have."""
        column = self._table.label(name)
        numbers = [number for value in values if (number := column.number(value)) >= 0]
        ids = self.ids(column)
        if len(numbers) < 2:
            return np.asarray(ids == (numbers[0] if numbers else -1))
        wanted = np.zeros(len(column.values), dtype=bool)
        wanted[numbers] = True
        return np.asarray(wanted[ids])

    def label(self, name: str, question: Callable[[str | None], int]) -> Int64s:
        """int64[n]: ``question(value of the label)``, with None where a node does not have it."""
        if not len(self.rows):
            return np.zeros(0, dtype=np.int64)
        return self._table.label(name).answer(self.rows, question)

    def _among(self, rows: Collection[int]) -> Bools:
        """bool[n]: which of these rows are among some others."""
        if len(self.rows) <= _FEW:
            return np.array([row in rows for row in self.rows.tolist()], dtype=bool)
        found = np.zeros(self._table.size, dtype=bool)
        found[list(rows)] = True
        return found[self.rows]

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


class PodStep(NamedTuple):
    """A pod that a trial adds to (1) or takes off (-1) the row at a position."""

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
    """int64[n, book, resource]: the rows' books with some pods more or less."""
    return with_steps(table, table.books[rows], steps)


def with_steps(table: NodeTable, books: Int64s, steps: Sequence[PodStep]) -> Int64s:
    """The given books, int64[n, book, resource], to which the pods of the steps have been added."""
    if len(steps) <= _FEW:
        for each in steps:
            load = table.load(each.pod.spec)
            books[each.position, REQUESTED:, : load.shape[1]] += each.sign * load
        return books
    loads = loads_of(table, [each.pod for each in steps])
    loads *= np.array([each.sign for each in steps]).reshape(-1, 1, 1)
    positions = np.array([each.position for each in steps], dtype=np.intp)
    np.add.at(books[:, REQUESTED:], positions, loads)
    return books


class TrialView(NodeView):
    """Rows as they would be with some pods on them and others not, each row by itself: what
    preemption asks of nodes without their less important pods, and Filter with nominated ones
    (upstream: RunFilterPluginsWithNominatedPods, SelectVictimsOnNode)."""

    __slots__ = ("_make_steps", "_steps")

    def __init__(
        self,
        table: NodeTable,
        rows: Rows,
        steps: Sequence[PodStep] | Callable[[], Sequence[PodStep]],
        books: Int64s | None = None,
    ) -> None:
        """``books`` are int64[n, book, resource] after the steps, where somebody has them already;
        the steps themselves may then be made when a plugin asks about pods."""
        super().__init__(table, rows)
        self._steps: Sequence[PodStep] | None = None
        self._make_steps = steps if callable(steps) else lambda: steps
        self._books = stepped(table, rows, self.steps) if books is None else books

    @property
    def steps(self) -> Sequence[PodStep]:
        """The pods that come and go."""
        if self._steps is None:
            self._steps = self._make_steps()
        return self._steps

    def books_at(self, positions: Rows) -> Int64s:
        """int64[k, book, resource]: a copy of the books at some positions of ``rows``."""
        assert self._books is not None
        return self._books[positions]

    @property
    def trial(self) -> bool:
        """True."""
        return True

    def ports_in_use(self, port: HostPort) -> Bools:
        """bool[n]: whether the host port collides with one in use on the node. As upstream
        (HostPortInfo is a set), a port that one pod gives up is free, also where another pod on the
        node has it as well."""
        colliding = self._table.host_ports.colliding(port)
        held = {ip: self._among(rows) for ip, rows in colliding.items()}
        for each in self.steps:
            for used in each.pod.spec.host_ports:
                if used.collides(port):
                    if used.ip not in held:
                        held[used.ip] = np.zeros(len(self.rows), dtype=bool)
                    held[used.ip][each.position] = each.sign > 0
        taken = np.zeros(len(self.rows), dtype=bool)
        for column in held.values():
            taken |= column
        return taken

    def step(self, counts: Callable[[Pod], int]) -> Int64s | None:
        """int64[n]: what the trial's pods add to a sum over each row's pods."""
        found = np.zeros(len(self.rows), dtype=np.int64)
        for each in self.steps:
            found[each.position] += each.sign * counts(each.pod)
        return found

    def residents(self, position: int) -> Iterable[Pod]:
        """The pods that would be on the row at a position."""
        pods = dict(self._table.residents[self.rows[position]])
        for each in self.steps:
            if each.position == position and each.sign > 0:
                pods[each.pod.uid] = each.pod
            elif each.position == position:
                pods.pop(each.pod.uid, None)
        return pods.values()
