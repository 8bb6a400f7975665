"""Weighted sums over the pods of each topology domain.

A domain is all nodes with one value of a label; nodes without the label belong to none.
"""

from collections.abc import Hashable, Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from eventsched.domain.nodes.dictionary_column import DictionaryColumn
from eventsched.domain.nodes.node_table import NodeTable
from eventsched.domain.nodes.node_views import NodeView
from eventsched.domain.nodes.pod_counts import RowCounts

Int64s = NDArray[np.int64]


class WeightedCounts(NamedTuple):
    """A tally that is added to a sum ``weight`` times; ``key`` identifies it."""

    key: Hashable
    tally: RowCounts
    weight: int = 1


class DomainSum(NamedTuple):
    """A sum for each domain of a label. ``column`` holds each row's domain, ``missing`` is the one
    of rows without the label (-1: there is no such row), ``sums`` is int64[domains], 0 for
    ``missing``; ``touched`` says whether any pod in a domain was counted."""

    column: DictionaryColumn
    missing: int
    sums: Int64s
    touched: bool

    def of(self, nodes: NodeView, step: Int64s | None = None) -> Int64s:
        """int64[n]: the sum of each row's domain. ``step`` is added for pods that a row has
        in a trial but not in the table (NodeView.step)."""
        ids = nodes.ids(self.column)
        sums: Int64s = self.sums[ids]
        return sums if step is None else sums + step * (ids != self.missing)

    def has(self, nodes: NodeView) -> NDArray[np.bool_]:
        """bool[n]: whether a row is in a domain."""
        return np.asarray(nodes.ids(self.column) != self.missing)


def domain_sum(table: NodeTable, label: str, parts: Iterable[WeightedCounts]) -> DomainSum:
    """The weighted sum of tallies over the domains of a label."""
    column = table.label(label)
    missing = column.number(None)
    sums: Int64s | None = None
    touched = False
    for counts in parts:
        if not counts.tally.total:
            continue
        pod_sums = table.domain_sums(counts.key, counts.tally, label)
        part = pod_sums if counts.weight == 1 else pod_sums * counts.weight
        # The arrays belong to the table: never write to them.
        sums = part if sums is None else sums + part
        touched = touched or counts.tally.total != (pod_sums[missing] if missing >= 0 else 0)
    if sums is None:
        sums = np.zeros(len(column.values), dtype=np.int64)
    if missing >= 0 and sums[missing]:
        sums = sums.copy()
        sums[missing] = 0
    return DomainSum(column, missing, sums, touched)
