"""The verdict on each node: what a code means, and the vectors that are stored beside an event.

An event holds counts, the scores of the best nodes and a digest. The vectors (for every row a code
and each plugin's raw score) are a Detail. It is stored separately, so that thinning old details
does not change the hashes of the events (ADR 2). A Detail is whole, or a delta to the previous
decision of the equivalence class; its digest is always that of the whole.
"""

from enum import StrEnum
from hashlib import blake2b
from typing import Any, Final, NamedTuple, NewType

import msgspec
import numpy as np
from numpy.typing import NDArray

from eventsched.domain.objects import Frozen

VerdictCode = NewType("VerdictCode", int)
"""A verdict's number in the stream's dictionary, or one of the four below, as stored: unsigned, 16
bits. A cycle has numbers of its own (scheduling/cycle/cycle_keys.py)."""
Codes = NDArray[np.uint16]
"""The VerdictCode of each row."""
Vector = NDArray[Any]

STORED_PASSES: Final = VerdictCode(0)
"""No filter refused the node."""
STORED_EXCLUDED: Final = VerdictCode(65_533)
"""PreFilter narrowed the nodes to others."""
STORED_NOT_EVALUATED: Final = VerdictCode(65_534)
"""The search ended before this node."""
STORED_NO_NODE: Final = VerdictCode(65_535)
"""The row's node is deleted."""


class Code(StrEnum):
    """Upstream's seven status codes (kube-scheduler framework/interface.go)."""

    SUCCESS = "Success"
    ERROR = "Error"
    UNSCHEDULABLE = "Unschedulable"
    UNRESOLVABLE = "UnschedulableAndUnresolvable"
    WAIT = "Wait"
    SKIP = "Skip"
    PENDING = "Pending"


class Verdict(Frozen, frozen=True):
    """An entry of the stream's dictionary: which plugin refused a node, with which code and
    reasons."""

    plugin: str
    code: Code
    reasons: tuple[str, ...]


class Normalization(StrEnum):
    """How raw scores become 0..100. ``smallest`` and ``largest`` are ``parameters`` of the
    ScoreColumn.

    - IDENTITY: raw.
    - DEFAULT: raw * 100 // largest.
    - REVERSED: 100 - raw * 100 // largest.
    - MIN_MAX: (raw - smallest) * 100 // (largest - smallest), 0 if all are equal.
    - RATIO: 100 * ((raw - smallest) / (largest - smallest)) in floating point, cut off; 0 if all
      are equal.
    - SPREAD: (largest + smallest - raw) * 100 // largest, 100 if largest is 0; 0 for a node that is
      IGNORED.
    - OWN: by the plugin's own code; the normalized column is stored as well.
    """

    IDENTITY = "identity"
    DEFAULT = "default"
    REVERSED = "reversed"
    MIN_MAX = "min-max"
    RATIO = "ratio"
    SPREAD = "spread"
    OWN = "own"


class ScoreColumn(Frozen, frozen=True):
    """One plugin's scores in a decision. The raw vector has the same index in the detail's scores.
    The weighted score is normalized * weight; the total is the sum over the columns. ``parameters``
    are part of the decision and empty in the stream's dictionary."""

    plugin: str
    weight: int
    normalization: Normalization = Normalization.IDENTITY
    parameters: tuple[int, ...] = ()


MAX_NODE_SCORE = 100
IGNORED = -1
"""The raw score, under SPREAD, of a feasible node that the plugin ignores."""


def parameters_of(normalization: Normalization, raw: NDArray[Any]) -> tuple[int, ...]:
    """The parameters of a normalization. ``raw`` (integers, n > 0) are the raw scores of all
    feasible nodes."""
    if normalization in (Normalization.DEFAULT, Normalization.REVERSED):
        return (max(0, int(raw.max())),)
    if normalization in (Normalization.MIN_MAX, Normalization.RATIO):
        return (int(raw.min()), int(raw.max()))
    if normalization is Normalization.SPREAD:
        return _spread(raw)
    return ()


def _spread(raw: NDArray[Any]) -> tuple[int, int]:
    """The smallest and largest raw score of nodes that are not ignored; (0, 0) without any."""
    counted = raw[raw != IGNORED]
    return (int(counted.min()), int(counted.max())) if len(counted) else (0, 0)


def normalized(column: ScoreColumn, raw: NDArray[Any]) -> NDArray[np.int64]:
    """int64[n] of 0..100 from raw scores and the column's parameters alone, for every kind except
    OWN (upstream: helper/normalize_score.go; podtopologyspread/scoring.go for SPREAD,
    interpodaffinity/scoring.go for RATIO)."""
    raw = raw.astype(np.int64)
    if column.normalization is Normalization.IDENTITY:
        return raw
    if column.normalization is Normalization.MIN_MAX:
        low, high = column.parameters
        return np.zeros_like(raw) if low == high else (raw - low) * MAX_NODE_SCORE // (high - low)
    if column.normalization is Normalization.RATIO:
        low, high = column.parameters
        share = (raw - low) / max(high - low, 1)
        return (MAX_NODE_SCORE * share).astype(np.int64)
    if column.normalization is Normalization.SPREAD:
        low, high = column.parameters
        scores = (high + low - raw) * MAX_NODE_SCORE // high if high else MAX_NODE_SCORE
        return np.where(raw == IGNORED, 0, scores)
    (largest,) = column.parameters
    if largest:
        raw = raw * MAX_NODE_SCORE // largest
    return MAX_NODE_SCORE - raw if column.normalization is Normalization.REVERSED else raw


class DeltaPart(NamedTuple):
    """The changes of one column in a delta: ``values`` (of the column's dtype) at ``rows``
    (int32[n], ascending). Other rows are unchanged."""

    rows: NDArray[np.int32]
    values: Vector


DELTA_BLOCK = 65_536
"""The number of positions in a block of the log. A delta and the vectors that it builds on are in
the same block, so that a log can drop old blocks of vectors."""


def may_build_on(base: int, position: int) -> bool:
    """Whether the vectors at ``position`` may be a delta to those at ``base``."""
    return base // DELTA_BLOCK == position // DELTA_BLOCK


class Detail(msgspec.Struct, frozen=True):
    """The vectors of one decision.

    In a whole detail ``base`` is None; ``codes`` (uint16) and each of ``scores`` (int64 or uint8)
    are arrays with one element a row. In a delta ``base`` is the position in the stream of the
    decision that it refers to; each column is a DeltaPart, or None if it is unchanged. Rows that
    the base does not have are 0 unless a DeltaPart has them.

    A partial detail has no base, and no delta refers to it. ``codes`` is an array in which a row
    that is not kept has STORED_NO_NODE. Each score column is a DeltaPart with rows that are kept;
    ``expand`` makes arrays of them, which are 0 elsewhere.

    Scores of infeasible nodes are 0; ``scores`` is empty without a feasible node. ``normalized``
    (not in deltas) has a column for each score column of normalization OWN, None for others.
    """

    size: int
    base: int | None
    codes: Codes | DeltaPart | None
    scores: tuple[Vector | DeltaPart | None, ...]
    normalized: tuple[Vector | DeltaPart | None, ...] = ()
    is_partial: bool = False

    def expand(self, before: "Detail | None" = None) -> "Detail":
        """The detail with an array for each column; ``before`` is the whole detail that a delta
        refers to. Raises ValueError if that is partial."""
        if self.is_partial:
            columns = [*self.scores, *self.normalized]
            dense = [None if c is None else _as_array(c, self.size) for c in columns]
            scores, own = tuple(dense[: len(self.scores)]), tuple(dense[len(self.scores) :])
            return Detail(self.size, None, self.codes, scores, own, is_partial=True)
        if self.base is None:
            return self
        assert before is not None
        if before.is_partial:
            raise ValueError(f"a delta to the vectors of position {self.base}, which are partial")
        codes = _patched(before.codes, self.size, self.codes)
        pairs = zip(before.scores, self.scores, strict=True) if self.scores else ()
        scores = tuple(_patched(old, self.size, new) for old, new in pairs)
        return Detail(self.size, None, codes, scores)

    @property
    def stored_bytes(self) -> int:
        """The size of all arrays, in bytes."""
        columns = [self.codes, *self.scores, *self.normalized]
        return sum(_bytes(column) for column in columns if column is not None)


def _bytes(column: Vector | DeltaPart) -> int:
    if isinstance(column, DeltaPart):
        return column.rows.nbytes + column.values.nbytes
    return column.nbytes


def _as_array(column: Vector | DeltaPart, size: int) -> Vector:
    if not isinstance(column, DeltaPart):
        return column
    values = np.zeros(size, dtype=column.values.dtype)
    values[column.rows] = column.values
    return values


def _patched(old: Vector | DeltaPart | None, size: int, part: Vector | DeltaPart | None) -> Vector:
    assert isinstance(old, np.ndarray), "a base is whole"
    new = np.zeros(size, dtype=old.dtype)
    new[: len(old)] = old
    if part is not None:
        assert isinstance(part, DeltaPart)
        new[part.rows] = part.values
    return new


def column_digest(column: NDArray[Any]) -> bytes:
    """The digest (16 bytes) of a vector's content, little-endian, however it was stored."""
    return blake2b(np.ascontiguousarray(column).data, digest_size=16).digest()


def detail_digest(codes: bytes, scores: list[bytes]) -> str:
    """The digest of all vectors in an event, from their column digests."""
    return blake2b(codes + b"".join(scores), digest_size=16).hexdigest()
