"""The nodes that can reach a volume or a storage pool: node terms as rows.

Upstream: component-helpers storage/volume CheckNodeAffinity. Most local volumes have one term with
one label, and there may be thousands of them: these are looked up in an index of the label.
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
    """Rows by terms, cached until the nodes of a table change."""

    def __init__(self, table: NodeTable) -> None:
        self.table = table
        self.version = -1
        self._rows_by_terms: dict[Terms, Rows] = {}
        self._indexes: dict[str, tuple[Rows, Rows]] = {}

    def refresh(self) -> int:
        """Drops the cache if nodes have changed. Returns the version of the nodes."""
        if self.version != self.table.node_journal.end or len(self._rows_by_terms) > _MOST_KEPT:
            self.version = self.table.node_journal.end
            self._rows_by_terms.clear()
            self._indexes.clear()
        return self.version

    def rows(self, terms: Terms) -> Rows:
        """The rows where some term matches, in no order; they may include rows of removed nodes.
        Call ``refresh`` first. Only labels count: fields are ignored, because upstream gives
        CheckNodeAffinity a node without a name. Malformed terms match nothing.
        """
        rows = self._rows_by_terms.get(terms)
        if rows is None:
            rows = self._rows_by_terms[terms] = self._find(terms)
        return rows

    def mask(self, terms: Terms) -> Bools:
        """bool[size]: the same rows as a mask."""
        mask = np.zeros(self.table.size, dtype=bool)
        mask[self.rows(terms)] = True
        return mask

    def _find(self, terms: Terms) -> Rows:
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

    def _having(self, requirement: Requirement) -> Rows:
        """The rows whose label has one of some values."""
        vocabulary = self.table.label(requirement.key)
        if requirement.key not in self._indexes:
            ids = vocabulary.ids[: self.table.size]
            order = np.argsort(ids, kind="stable")
            starts = np.searchsorted(ids[order], np.arange(len(vocabulary.values) + 1))
            self._indexes[requirement.key] = (order, starts)
        order, starts = self._indexes[requirement.key]
        numbers = [vocabulary.number(value) for value in dict.fromkeys(requirement.values)]
        parts = [order[starts[n] : starts[n + 1]] for n in numbers if n >= 0]
        return np.concatenate(parts) if parts else _NOWHERE
