"""Weighted sums over the pods of each topology domain.

A domain is all nodes with one value of a label; nodes without the label belong to none.
"""

from collections.abc import Hashable, Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from eventsched.domain.nodes.node_table import DictionaryColumn, NodeTable
from eventsched.domain.nodes.node_views import NodeView
from eventsched.domain.nodes.pod_counts import RowCounts

Int64s = NDArray[np.int64]


class WeightedCounts(NamedTuple):
    """A tally that goes into a sum ``weight`` times; ``key`` names it."""

    key: Hashable
    tally: RowCounts
    weight: int = 1


class DomainSum(NamedTuple):
    """A sum for each domain of a label. ``column`` tells each row's domain, ``missing`` is the one
    that stands for none (-1: there is no such row), ``sums`` is int64[domains], 0 for ``missing``;
    ``touched`` says whether any pod in a domain was counted."""

    column: DictionaryColumn
    missing: int
    sums: Int64s
    touched: bool

    def of(self, nodes: NodeView, step: Int64s | None = None) -> Int64s:
        """int64[n]: the sum of each row's domain. ``step`` is what is to be added for pods that a
        row has in a trial and not in the table (NodeView.step)."""
        ids = nodes.ids(self.column)
        found: Int64s = self.sums[ids]
        return found if step is None else found + step * (ids != self.missing)

    def has(self, nodes: NodeView) -> NDArray[np.bool_]:
        """bool[n]: whether a row is in a domain."""
        return np.asarray(nodes.ids(self.column) != self.missing)


def domain_sum(table: NodeTable, label: str, parts: Iterable[WeightedCounts]) -> DomainSum:
    """The weighted sum of tallies over the domains of a label."""
    column = table.label(label)
    missing = column.number(None)
    sums: Int64s | None = None
    touched = False
    for each in parts:
        if not each.tally.total:
            continue
        found = table.domain_sums(each.key, each.tally, label)
        part = found if each.weight == 1 else found * each.weight
        # What the table keeps is not to be written to.
        sums = part if sums is None else sums + part
        touched = touched or each.tally.total != (found[missing] if missing >= 0 else 0)
    if sums is None:
        sums = np.zeros(len(column.values), dtype=np.int64)
    if missing >= 0 and sums[missing]:
        sums = sums.copy()
        sums[missing] = 0
    return DomainSum(column, missing, sums, touched)
