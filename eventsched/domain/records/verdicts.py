"""What was said of each node: the words a code stands for, and the vectors kept beside an event.

An event holds counts, scores of the few nodes that matter and a digest; the vectors themselves
(one code and one raw score a plugin for every row) are a Detail, kept apart so that thinning old
detail never touches the hashes of the events (ADR 2). A Detail is either whole or a delta to the
class's previous decision; its digest is always that of the whole.
"""

from enum import StrEnum
from hashlib import blake2b
from typing import Any, Final, NamedTuple, NewType

import msgspec
import numpy as np
from numpy.typing import NDArray

from eventsched.domain.objects import Frozen

VerdictCode = NewType("VerdictCode", int)
"""A verdict's number in the stream's dictionary, or one of the four below, as the log holds it: 16
bits without sign. A cycle has numbers of its own (scheduling/cycle/cycle_keys.py)."""
Codes = NDArray[np.uint16]
"""The VerdictCode of each row."""
Vector = NDArray[Any]

STORED_PASSES: Final = VerdictCode(0)
"""No filter refused the node."""
STORED_EXCLUDED: Final = VerdictCode(65_533)
"""PreFilter narrowed the nodes and this one was not among them."""
STORED_NOT_EVALUATED: Final = VerdictCode(65_534)
"""The search ended before this node."""
STORED_NO_NODE: Final = VerdictCode(65_535)
"""The row's node is gone."""


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
    """One entry of the stream's dictionary: which plugin refused a node, how, and why."""

    plugin: str
    code: Code
    reasons: tuple[str, ...]


class Normalization(StrEnum):
    """How raw scores become 0..100; ``parameters`` in ScoreColumn are what it needs beside them.

    IDENTITY: as they are. DEFAULT: raw * 100 // largest. REVERSED: 100 - that. MIN_MAX:
    (raw - smallest) * 100 // (largest - smallest), 0 where all are equal. RATIO: the same, but
    100 * ((raw - smallest) / (largest - smallest)) in floating point, cut off. SPREAD: (largest +
    smallest - raw) * 100 // largest, 100 where largest is 0, and 0 for a node that is IGNORED. OWN:
    by the plugin's own code, and then the normalised column is stored as well.
    """

    IDENTITY = "identity"
    DEFAULT = "default"
    REVERSED = "reversed"
    MIN_MAX = "min-max"
    RATIO = "ratio"
    SPREAD = "spread"
    OWN = "own"


class ScoreColumn(Frozen, frozen=True):
    """One plugin's scores in a decision: the raw vector is in the detail under the same place;
    weighted = normalised * weight; the total is the sum over the columns. ``parameters`` stand in
    the decision; they are empty in the stream's dictionary."""

    plugin: str
    weight: int
    normalization: Normalization = Normalization.IDENTITY
    parameters: tuple[int, ...] = ()


MAX_NODE_SCORE = 100
IGNORED = -1
"""Raw score, under SPREAD, of a feasible node that the plugin leaves out of account."""


def parameters_of(normalization: Normalization, raw: NDArray[Any]) -> tuple[int, ...]:
    """What a normalisation needs beside a node's own raw score; ``raw`` (integers, n > 0) are those
    of all feasible nodes."""
    if normalization in (Normalization.DEFAULT, Normalization.REVERSED):
        return (max(0, int(raw.max())),)
    if normalization in (Normalization.MIN_MAX, Normalization.RATIO):
        return (int(raw.min()), int(raw.max()))
    if normalization is Normalization.SPREAD:
        return _spread(raw)
    return ()


def _spread(raw: NDArray[Any]) -> tuple[int, int]:
    """Smallest and largest raw score of the nodes that are not ignored; (0, 0) without any."""
    counted = raw[raw != IGNORED]
    return (int(counted.min()), int(counted.max())) if len(counted) else (0, 0)


def normalized(column: ScoreColumn, raw: NDArray[Any]) -> NDArray[np.int64]:
    """int64[n] of 0..100 from raw scores and the column's parameters alone, for every kind but OWN
    (upstream: helper/normalize_score.go; podtopologyspread/scoring.go for SPREAD,
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
        found = (high + low - raw) * MAX_NODE_SCORE // high if high else MAX_NODE_SCORE
        return np.where(raw == IGNORED, 0, found)
    (largest,) = column.parameters
    if largest:
        raw = raw * MAX_NODE_SCORE // largest
    return MAX_NODE_SCORE - raw if column.normalization is Normalization.REVERSED else raw


class DeltaPart(NamedTuple):
    """What a delta says of one column: ``values`` (as wide as the column) at ``rows``, int32[n],
    ascending. The others are as they were."""

    rows: NDArray[np.int32]
    values: Vector


class Detail(msgspec.Struct, frozen=True):
    """The vectors of one decision.

    ``base`` is None for a whole record: then ``codes`` (uint16) and each of ``scores`` (int64 or
    uint8) is an array with one element a row. Otherwise it is the position of the decision in the
    stream that this one is told from: each of them is the Part that differs, or None where nothing
    does; rows that the base did not have are 0 where no Part names them. Without a feasible node
    ``scores`` is empty. Scores of nodes that were not feasible are 0. ``normalized`` (whole records
    only) has an array for each score column of normalisation OWN, None elsewhere.
    """

    size: int
    base: int | None
    codes: Codes | DeltaPart | None
    scores: tuple[Vector | DeltaPart | None, ...]
    normalized: tuple[NDArray[np.int64] | None, ...] = ()

    def expand(self, before: "Detail | None" = None) -> "Detail":
        """The whole record, given the (whole) one that this delta refers to."""
        if self.base is None:
            return self
        assert before is not None
        codes = _patched(before.codes, self.size, self.codes)
        pairs = zip(before.scores, self.scores, strict=True) if self.scores else ()
        scores = tuple(_patched(old, self.size, new) for old, new in pairs)
        return Detail(self.size, None, codes, scores)

    @property
    def stored_bytes(self) -> int:
        """Bytes of all arrays, as they are kept."""
        columns = [self.codes, *self.scores, *self.normalized]
        return sum(_bytes(column) for column in columns if column is not None)


def _bytes(column: Vector | DeltaPart) -> int:
    if isinstance(column, DeltaPart):
        return column.rows.nbytes + column.values.nbytes
    return column.nbytes


def _patched(old: Vector | DeltaPart | None, size: int, part: Vector | DeltaPart | None) -> Vector:
    assert isinstance(old, np.ndarray), "a base is whole"
    new = np.zeros(size, dtype=old.dtype)
    new[: len(old)] = old
    if part is not None:
        assert isinstance(part, DeltaPart)
        new[part.rows] = part.values
    return new


def column_digest(column: NDArray[Any]) -> bytes:
    """16 bytes for a vector's content, little-endian, independent of how it was stored."""
    return blake2b(np.ascontiguousarray(column).data, digest_size=16).digest()


def detail_digest(codes: bytes, scores: list[bytes]) -> str:
    """The digest an event carries for its vectors, from their column digests."""
    return blake2b(codes + b"".join(scores), digest_size=16).hexdigest()
