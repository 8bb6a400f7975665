"""Which nodes count for a spread constraint, and which topology domains these make up.

Upstream: plugins/podtopologyspread/common.go (matchNodeInclusionPolicies,
nodeLabelsMatchSpreadConstraints). Derived from a table's nodes and cached; rows that
change are computed again.
"""

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from eventsched.domain.journal import Rows
from eventsched.domain.nodes.node_table import NodeTable
from eventsched.domain.nodes.node_views import NodeView
from eventsched.domain.objects import NodeSelectorTerm, Toleration
from eventsched.scheduling.rules.selection import meets
from eventsched.scheduling.rules.tolerations import COLUMN, taints_of, untolerated

Bools = NDArray[np.bool_]

MAX_COLUMNS = 1024
"""The most columns cached of each kind."""


@dataclass(frozen=True)
class Affinity:
    """Required node affinity: the labels of the nodeSelector, and terms of which one must match
    (None: there are none)."""

    selector: tuple[tuple[str, str], ...]
    terms: tuple[NodeSelectorTerm, ...] | None

    @property
    def says_anything(self) -> bool:
        """Whether a node could fail to meet it."""
        return bool(self.selector) or self.terms is not None


@dataclass(frozen=True, eq=False)
class Eligibility:
    """What makes a node count: it has all of the ``labels``, meets the affinity, and its hard
    taints are tolerated; None if affinity or taints do not matter. Compared by identity, which
    makes it a fast cache key."""

    labels: frozenset[str]
    affinity: Affinity | None
    tolerations: tuple[Toleration, ...] | None

    def of(self, table: NodeTable, rows: Rows) -> Bools:
        """bool[n]: which of the rows count; never one whose node is gone."""
        eligible = table.alive[rows]
        for label in self.labels:
            column = table.label(label)
            absent = column.number(None)
            if absent >= 0:
                eligible &= column.ids[rows] != absent
                if not eligible.any():
                    return eligible
        nodes = NodeView(table, rows)
        if self.affinity is not None:
            eligible &= meets(nodes, dict(self.affinity.selector), self.affinity.terms)
        if self.tolerations is not None:
            eligible &= nodes.answer(COLUMN, taints_of, untolerated(self.tolerations)) == 0
        return eligible


EVERYWHERE = Eligibility(frozenset(), None, None)
"""All nodes count."""


class Eligibilities:
    """Interns eligibilities: one object for each content, up to a limit."""

    def __init__(self) -> None:
        self._known: dict[Hashable, Eligibility] = {}

    def one(
        self,
        labels: frozenset[str],
        affinity: Affinity | None,
        tolerations: tuple[Toleration, ...] | None,
    ) -> Eligibility:
        """The object with this content."""
        key = (labels, affinity, tolerations)
        eligibility = self._known.get(key)
        if eligibility is None:
            if len(self._known) >= MAX_COLUMNS:
                self._known.clear()
            eligibility = self._known[key] = Eligibility(*key)
        return eligibility


class TopologyDomains:
    """Cached columns of one table; always pass that table."""

    def __init__(self) -> None:
        self._eligible: dict[Eligibility, tuple[int, Bools]] = {}
        self._inhabited: dict[tuple[Eligibility, str, bool], tuple[int, Rows]] = {}

    def eligible(self, table: NodeTable, where: Eligibility) -> Bools:
        """bool[size]: the rows that count."""
        version, cached = self._eligible.get(where, (-1, None))
        if cached is not None and version == table.node_journal.end:
            return cached
        changed = None if cached is None else table.node_journal.since(version)
        if cached is None or changed is None:
            if len(self._eligible) >= MAX_COLUMNS:
                self._eligible.clear()
            column = where.of(table, np.arange(table.size, dtype=np.intp))
        else:
            column = np.zeros(table.size, dtype=bool)
            column[: len(cached)] = cached
            column[changed] = where.of(table, changed)
        self._eligible[where] = (table.node_journal.end, column)
        return column

    def inhabited(
        self, table: NodeTable, where: Eligibility, label: str, *, blank: bool = False
    ) -> Rows:
        """The values of a label that the eligible rows have, as numbers in the label's column;
        ``blank`` as for ``NodeTable.label``."""
        key = (where, label, blank)
        version, cached = self._inhabited.get(key, (-1, None))
        if cached is not None and version == table.node_journal.end:
            return cached
        if len(self._inhabited) >= MAX_COLUMNS:
            self._inhabited.clear()
        ids = table.label(label, blank=blank).ids[: table.size][self.eligible(table, where)]
        values = np.flatnonzero(np.bincount(ids))
        self._inhabited[key] = (table.node_journal.end, values)
        return values
