"""The vectors of a decision as an explanation needs them: scores by node, examples of refusals."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from eventsched.domain.records import PodDecided
from eventsched.domain.records.verdicts import (
    STORED_NO_NODE,
    STORED_PASSES,
    Detail,
    ScoreColumn,
    Vector,
    normalized,
)

EXAMPLES = 3
"""Nodes named for each refusal; the others are only counted."""


class VectorSource(StrEnum):
    """Where the verdicts and scores of an explained attempt come from. ALL and BEST: the log has
    those of all nodes, or of the best ones with examples of refusals. DIGEST: the log has only the
    digest. RECOMPUTED: the decision was repeated. NONE: no node was looked at."""

    ALL = "all"
    BEST = "best"
    DIGEST = "digest"
    RECOMPUTED = "recomputed"
    NONE = "none"


@dataclass(frozen=True)
class PluginScore:
    """A plugin's score of a node: weighted = weight x normalised."""

    plugin: str
    weight: int
    raw: int
    normalized: int
    weighted: int


@dataclass(frozen=True)
class NodeScore:
    """A feasible node's scores and their sum; ``rank`` is 1 for the best, equal for equal sums."""

    node: str
    total: int
    rank: int
    parts: tuple[PluginScore, ...]


class DecisionVectors:
    """The vectors of one decision, by node."""

    def __init__(
        self,
        decided: PodDecided,
        detail: Detail,
        names: list[str],
        columns: tuple[ScoreColumn, ...],
    ) -> None:
        assert isinstance(detail.codes, np.ndarray)
        self.names = names
        self.codes = detail.codes
        self.present = {
            names[row]: int(row) for row in np.flatnonzero(self.codes != STORED_NO_NODE)
        }  # a node that was added again is at its newest row
        self._columns = [
            msgspec.structs.replace(column, parameters=parameters)
            for column, parameters in zip(columns, decided.parameters, strict=True)
        ]
        self._raws: list[Vector] = []
        self._normalized: list[Any] = []
        self._totals: NDArray[np.int64] = np.zeros(len(self.codes), dtype=np.int64)
        for place, column in enumerate(self._columns):
            raw = detail.scores[place]
            assert isinstance(raw, np.ndarray), "a whole record has all columns"
            own = detail.normalized[place] if detail.normalized else None
            values = normalized(column, raw) if own is None else own
            self._raws.append(raw)
            self._normalized.append(values)
            self._totals += values * column.weight
        self._feasible = self._totals[self.codes == STORED_PASSES]

    @property
    def scores(self) -> list[tuple[ScoreColumn, Vector, Vector]]:
        """Each score column with its raw and its normalised values, by row."""
        return list(zip(self._columns, self._raws, self._normalized, strict=True))

    @property
    def totals(self) -> NDArray[np.int64]:
        """The weighted sum, by row; without meaning for rows that are not feasible."""
        return self._totals

    @property
    def best(self) -> int:
        """The largest sum."""
        return int(self._feasible.max())

    @property
    def best_nodes(self) -> int:
        """The number of feasible nodes whose scores there are."""
        return len(self._feasible)

    def refused(self, number: int) -> tuple[str, ...]:
        """The first nodes that have this code."""
        return tuple(self.names[row] for row in np.flatnonzero(self.codes == number)[:EXAMPLES])

    def score(self, row: int) -> NodeScore:
        """The scores of a feasible row."""
        parts = tuple(
            PluginScore(
                column.plugin, column.weight, int(raw[row]), int(values[row]),
                int(values[row]) * column.weight,
            )
            for column, raw, values in zip(
                self._columns, self._raws, self._normalized, strict=True
            )
        )  # fmt: skip
        total = int(self._totals[row])
        rank = 1 + int(np.count_nonzero(self._feasible > total))
        return NodeScore(self.names[row], total, rank, parts)
