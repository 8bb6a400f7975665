"""Which nodes a volume, or a pool of storage, can be reached from: node terms as rows.

Upstream: component-helpers storage/volume CheckNodeAffinity. There is one term and one label for
most local volumes, and thousands of such volumes: these are looked up in an index of the label.
"""

import numpy as np
from numpy.typing import NDArray

from eventsched.domain.journal import Rows
from eventsched.domain.nodes.node_table import NodeTable
from eventsched.domain.nodes.node_views import NodeView
from eventsched.domain.objects import NodeSelectorTerm, Requirement
from eventsched.scheduling.rules.selection import SelectorError, check, matches

Bools = NDArray[np.bool_]
Terms = tuple[NodeSelectorTerm, ...] | None
"""Alternatives; None means everywhere."""

_MOST_KEPT = 65_536
_NOWHERE: Rows = np.zeros(0, dtype=np.intp)


class VolumeTopology:
    """Rows by terms, kept for as long as the nodes of a table stay as they are."""

    def __init__(self, table: NodeTable) -> None:
        self.table = table
        self.version = -1
        self._found: dict[Terms, Rows] = {}
        self._indexes: dict[str, tuple[Rows, Rows]] = {}

    def refresh(self) -> int:
        """Forgets what nodes have made stale; the version of the nodes that answers are for."""
        if self.version != self.table.node_journal.end or len(self._found) > _MOST_KEPT:
            self.version = self.table.node_journal.end
            self._found.clear()
            self._indexes.clear()
        return self.version

    def rows(self, terms: Terms) -> Rows:
        """The rows where some term matches, in no order; rows of nodes that are gone may be among
        them. Call ``refresh`` first. Terms are about labels alone: fields in them are passed over,
        as upstream gives CheckNodeAffinity a node without a name; malformed terms match nothing.
        """
        found = self._found.get(terms)
        if found is None:
            found = self._found[terms] = self._look(terms)
        return found

    def mask(self, terms: Terms) -> Bools:
        """bool[size]: the same as a column."""
        found = np.zeros(self.table.size, dtype=bool)
        found[self.rows(terms)] = True
        return found

    def _look(self, terms: Terms) -> Rows:
        if terms is None:
            return np.arange(self.table.size, dtype=np.intp)
        parts = [self._of_term(term) for term in terms]
        if len(parts) == 1:
            return parts[0]
        return np.unique(np.concatenate(parts)) if parts else _NOWHERE

    def _of_term(self, term: NodeSelectorTerm) -> Rows:
        try:
            check(term)
        except SelectorError:
            return _NOWHERE
        if not term.expressions:
            return np.arange(self.table.size if term.fields else 0, dtype=np.intp)
        if len(term.expressions) == 1 and term.expressions[0].operator == "In":
            return self._having(term.expressions[0])
        labels_only = NodeSelectorTerm(expressions=term.expressions)
        return np.flatnonzero(matches(NodeView(self.table), labels_only))

    def _having(self, each: Requirement) -> Rows:
        """The rows whose label has one of some values."""
        vocabulary = self.table.label(each.key)
        if each.key not in self._indexes:
            ids = vocabulary.ids[: self.table.size]
            order = np.argsort(ids, kind="stable")
            starts = np.searchsorted(ids[order], np.arange(len(vocabulary.values) + 1))
            self._indexes[each.key] = (order, starts)
        order, starts = self._indexes[each.key]
        numbers = [vocabulary.number(value) for value in dict.fromkeys(each.values)]
        parts = [order[starts[n] : starts[n + 1]] for n in numbers if n >= 0]
        return np.concatenate(parts) if parts else _NOWHERE
