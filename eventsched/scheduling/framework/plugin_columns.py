"""What plugins answer for all nodes at once, checked: one integer a node, and in range."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from eventsched.domain.records.verdicts import IGNORED, MAX_NODE_SCORE, Normalization
from eventsched.scheduling.framework.plugin import PluginError

Int64s = NDArray[np.int64]
_INT64 = np.dtype(np.int64)
_FEW = 16
"""Rows that are sooner looked at one by one."""

NORMALIZED = range(MAX_NODE_SCORE + 1)
"""Scores as they are weighted and added up."""
_CODES = range(65_536)


def score_range(normalization: Normalization) -> range:
    """The raw scores that are in range: 0..100 for what is used as it is, from 0 for what is scaled
    by the largest, from IGNORED under SPREAD; 2**53 in size is the limit of all else, so that
    normalisation is exact."""
    if normalization is Normalization.IDENTITY:
        return NORMALIZED
    minimum = -(2**53)
    if normalization in (Normalization.DEFAULT, Normalization.REVERSED):
        minimum = 0
    elif normalization is Normalization.SPREAD:
        minimum = IGNORED
    return range(minimum, 2**53 + 1)


def checked_codes(plugin: str, codes: Any, rows: int) -> Int64s:
    """Filter's answer as int64, or PluginError where its shape or type is not what is asked."""
    array = _int64s(plugin, "filter", codes, rows)
    if not _is_within(array, _CODES):
        raise PluginError(plugin, "filter", _out_of_range(array, _CODES))
    return array


def checked_scores(
    plugin: str, scores: Any, rows: int, allowed: range, *, strict: bool = False
) -> tuple[Int64s, NDArray[np.bool_] | None]:
    """Score's answer as int64, with 0 for each value out of range, and bool[rows] that says where
    these are; None without any. PluginError where its shape or type is not what is asked, and
    with ``strict`` for a value out of range. (Upstream finds out after NormalizeScore, and the
    attempt fails.)"""
    array = _int64s(plugin, "score", scores, rows)
    if _is_within(array, allowed):
        return array, None
    if strict:
        raise PluginError(plugin, "score", _out_of_range(array, allowed))
    outliers = (array < allowed[0]) | (array > allowed[-1])
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


def _is_within(array: Int64s, allowed: range) -> bool:
    """Whether all values are. Of many, one comparison finds both kinds of outliers, for what is
    shifted to start at 0 and read as unsigned."""
    if len(array) < _FEW:
        return all(map(allowed.__contains__, array.tolist()))
    shifted = array if allowed.start == 0 else array - allowed.start
    return bool(np.maximum.reduce(shifted.view(np.uint64)) < len(allowed))


def _out_of_range(array: Int64s, allowed: range) -> str:
    """What is wrong with a column that has values out of range."""
    bounds = f"[{allowed[0]}, {allowed[-1]}]"
    return f"returned a value outside {bounds}: {array.min()} to {array.max()}"
