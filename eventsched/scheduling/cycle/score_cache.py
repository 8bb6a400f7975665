"""One plugin's raw scores for a class of pods, normalisation and digest (see equivalence.py)."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from eventsched.domain.journal import Rows
from eventsched.domain.records.verdicts import (
    MAX_NODE_SCORE,
    Normalization,
    column_digest,
    normalized,
)
from eventsched.scheduling.framework.profile import Score

_NO_CHANGE = np.zeros(1, dtype=np.int64)


class ScoreCache:
    """One plugin's raw scores over all rows; 0 where a node is not feasible."""

    __slots__ = ("_digest", "column", "raw", "score")

    def __init__(self, score: Score) -> None:
        self.score = score
        self.raw: NDArray[Any] = np.zeros(0, dtype=score.width)
        self.column = score.column(() if score.normalization is Normalization.IDENTITY else (0,))
        self._digest: bytes | None = None

    @property
    def is_zero(self) -> bool:
        """Whether all raw scores are known to be 0."""
        return self.column.parameters == (0,)

    @property
    def total_of_zero(self) -> int:
        """What a raw score of 0 adds to a total."""
        is_reversed = self.score.normalization is Normalization.REVERSED
        return MAX_NODE_SCORE * self.score.weight if is_reversed else 0

    def grow(self, size: int) -> None:
        """Adds rows up to ``size``, filled with 0."""
        if len(self.raw) != size:
            self.raw = longer(self.raw, size, 0)
            self._digest = None

    def put(self, rows: Rows, values: NDArray[Any]) -> NDArray[np.bool_]:
        """Stores raw scores. Returns bool[n]: whether each row's score changed."""
        changed: NDArray[np.bool_] = self.raw[rows] != values
        if np.count_nonzero(changed):
            self.raw[rows] = values
            self._digest = None
        return changed

    def clear(self, rows: Rows) -> None:
        """Stores 0 as the raw scores of rows."""
        self.raw[rows] = 0
        self._digest = None

    def change(self, rows: Rows, values: NDArray[np.int64]) -> NDArray[np.int64]:
        """Stores raw scores of a plugin without normalisation. Returns int64[n]: how much they
        rose, before the plugin's weight."""
        if len(rows) == 1 and values[0] == self.raw[rows[0]]:
            return _NO_CHANGE
        difference: NDArray[np.int64] = values - self.raw[rows]
        if np.count_nonzero(difference):
            self.raw[rows] = values.astype(self.raw.dtype, copy=False)  # faster than by assignment
            self._digest = None
        return difference

    def rescale(self) -> bool:
        """Updates the normalisation to the largest raw score. Returns whether it changed."""
        if self.score.normalization is Normalization.IDENTITY or self._digest is not None:
            return False
        largest = max(0, int(self.raw.max())) if len(self.raw) else 0
        if self.column.parameters == (largest,):
            return False
        self.column = self.score.column((largest,))
        return True

    def weighted(self, rows: Rows) -> NDArray[np.int64]:
        """int64[n]: normalised score times weight."""
        return normalized(self.column, self.raw[rows]) * self.score.weight

    @property
    def digest(self) -> bytes:
        """The column's digest, computed again only after a change."""
        if self._digest is None:
            self._digest = column_digest(self.raw)
        return self._digest


def longer(column: NDArray[Any], size: int, fill: int) -> NDArray[Any]:
    """A copy of a column with ``size`` rows; the new ones hold ``fill``."""
    extended = np.full(size, fill, dtype=column.dtype)
    extended[: len(column)] = column
    return extended
