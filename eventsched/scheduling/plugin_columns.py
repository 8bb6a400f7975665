"""What plugins answer for all nodes at once, checked: one integer a node, and in range."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from eventsched.domain.verdicts import IGNORED, MAX_NODE_SCORE, Normalization
from eventsched.scheduling.framework import PluginError

Int64s = NDArray[np.int64]
_INT64 = np.dtype(np.int64)


def checked_codes(plugin: str, codes: Any, rows: int) -> Int64s:
    """Filter's answer as int64, or PluginError where its shape or type is not what is asked."""
    array = _int64s(plugin, "filter", codes, rows)
    if not _is_within(array, 0, 65_535):
        raise PluginError(plugin, "filter", _out_of_range(array, 0, 65_535))
    return array


def checked_scores(
    plugin: str, scores: Any, rows: int, normalization: Normalization = Normalization.IDENTITY,
    *, strict: bool = False,
) -> tuple[Int64s, NDArray[np.bool_] | None]:  # fmt: skip
    """Score's answer as int64, with 0 for each value out of range, and bool[rows] that says where
    these are; None without any. PluginError where its shape or type is not what is asked, and
    with ``strict`` for a value out of range.

    In range is 0..100 for what is used as it is, from 0 for what is scaled by the largest, from
    IGNORED under SPREAD; 2**53 in size is the limit of all else, so that normalisation is exact.
    (Upstream finds out after NormalizeScore, and the attempt fails.)"""
    scaled = normalization in (Normalization.DEFAULT, Normalization.REVERSED)
    minimum = 0 if scaled or normalization is Normalization.IDENTITY else -(2**53)
    if normalization is Normalization.SPREAD:
        minimum = IGNORED
    maximum = MAX_NODE_SCORE if normalization is Normalization.IDENTITY else 2**53
    array = _int64s(plugin, "score", scores, rows)
    if _is_within(array, minimum, maximum):
        return array, None
    if strict:
        raise PluginError(plugin, "score", _out_of_range(array, minimum, maximum))
    outliers = (array < minimum) | (array > maximum)
    return np.where(outliers, 0, array), outliers


def _int64s(plugin: str, point: str, values: Any, rows: int) -> Int64s:
    try:
        array = np.asarray(values)
    except (TypeError, ValueError) as problem:
        raise PluginError(plugin, point, f"returned what is no array: {problem}") from problem
    if array.shape != (rows,):
        raise PluginError(
            plugin, point, f"returned shape {array.shape}; one value a node, ({rows},), is needed"
        )
    if array.dtype is not _INT64:
        if array.dtype.kind not in "biu":
            raise PluginError(plugin, point, f"returned {array.dtype} values; integers are needed")
        array = array.astype(np.int64, copy=False)
    return array


def _is_within(array: Int64s, minimum: int, maximum: int) -> bool:
    """Whether all values are; one comparison finds both kinds of outliers, for what is shifted to
    start at 0 and read as unsigned."""
    shifted = array if minimum == 0 else array - minimum
    unsigned = shifted.view(np.uint64)
    largest: int = (
        max(unsigned.tolist(), default=0) if len(array) < 16 else np.maximum.reduce(unsigned)
    )
    return bool(largest <= maximum - minimum)


def _out_of_range(array: Int64s, minimum: int, maximum: int) -> str:
    """What is wrong with a column that has values outside these bounds."""
    return f"returned a value outside [{minimum}, {maximum}]: {array.min()} to {array.max()}"
