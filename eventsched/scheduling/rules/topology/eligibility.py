"""Which nodes count for a spread constraint, and which topology domains these make up.

Upstream: plugins/podtopologyspread/common.go (matchNodeInclusionPolicies,
nodeLabelsMatchSpreadConstraints). Derived from a table's nodes and kept while these stay; what
changes is computed again for the rows that did.
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
from eventsched.scheduling.rules.tolerance import COLUMN, taints_of, untolerated

Bools = NDArray[np.bool_]

MOST = 1024
"""Columns kept of each kind."""


@dataclass(frozen=True)
class Affinity:
    """What required node affinity says: the labels of the nodeSelector, and terms one of which must
    match (None: there are none)."""

    selector: tuple[tuple[str, str], ...]
    terms: tuple[NodeSelectorTerm, ...] | None

    @property
    def says_anything(self) -> bool:
        """Whether there is a node that could fail to meet it."""
        return bool(self.selector) or self.terms is not None


@dataclass(frozen=True, eq=False)
class Eligibility:
    """What makes a node count: it has all of the ``labels``, meets the affinity, and its hard
    taints are tolerated; None where affinity or taints do not matter. Equal to itself only, so
    that what is kept of it is found quickly."""

    labels: frozenset[str]
    affinity: Affinity | None
    tolerations: tuple[Toleration, ...] | None

    def of(self, table: NodeTable, rows: Rows) -> Bools:
        """bool[n]: which of the rows count; never one whose node is gone."""
        found = table.alive[rows]
        for name in self.labels:
            column = table.label(name)
            absent = column.number(None)
            if absent >= 0:
                found &= column.ids[rows] != absent
                if not found.any():
                    return found
        nodes = NodeView(table, rows)
        if self.affinity is not None:
            found &= meets(nodes, dict(self.affinity.selector), self.affinity.terms)
        if self.tolerations is not None:
            found &= nodes.answer(COLUMN, taints_of, untolerated(self.tolerations)) == 0
        return found


EVERYWHERE = Eligibility(frozenset(), None, None)
"""All nodes count."""


class Eligibilities:
    """One object for each content, as long as there are not too many."""

    def __init__(self) -> None:
        self._known: dict[Hashable, Eligibility] = {}

    def one(
        self,
        labels: frozenset[str],
        affinity: Affinity | None,
        tolerations: tuple[Toleration, ...] | None,
    ) -> Eligibility:
        """The one of this content."""
        key = (labels, affinity, tolerations)
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= MOST:
                self._known.clear()
            found = self._known[key] = Eligibility(*key)
        return found


class TopologyDomains:
    """What is known of one table, to be asked with that table."""

    def __init__(self) -> None:
        self._eligible: dict[Eligibility, tuple[int, Bools]] = {}
        self._inhabited: dict[tuple[Eligibility, str, bool], tuple[int, Rows]] = {}

    def eligible(self, table: NodeTable, where: Eligibility) -> Bools:
        """bool[size]: the rows that count."""
        version, found = self._eligible.get(where, (-1, None))
        if found is not None and version == table.node_journal.end:
            return found
        changed = None if found is None else table.node_journal.since(version)
        if found is None or changed is None:
            if len(self._eligible) >= MOST:
                self._eligible.clear()
            made = where.of(table, np.arange(table.size, dtype=np.intp))
        else:
            made = np.zeros(table.size, dtype=bool)
            made[: len(found)] = found
            made[changed] = where.of(table, changed)
        self._eligible[where] = (table.node_journal.end, made)
        return made

    def inhabited(
        self, table: NodeTable, where: Eligibility, label: str, *, blank: bool = False
    ) -> Rows:
        """The values of a label, as the label's column numbers them, of the rows that count;
        ``blank`` as for ``NodeTable.label``."""
        key = (where, label, blank)
        version, found = self._inhabited.get(key, (-1, None))
        if found is not None and version == table.node_journal.end:
            return found
        if len(self._inhabited) >= MOST:
            self._inhabited.clear()
        ids = table.label(label, blank=blank).ids[: table.size][self.eligible(table, where)]
        made = np.flatnonzero(np.bincount(ids))
        self._inhabited[key] = (table.node_journal.end, made)
        return made
