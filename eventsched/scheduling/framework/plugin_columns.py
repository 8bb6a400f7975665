"""Checks of the columns that plugins return: one integer a node, and in range."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from eventsched.domain.records.verdicts import IGNORED, MAX_NODE_SCORE, Normalization
from eventsched.scheduling.framework.plugin import PluginError

Int64s = NDArray[np.int64]
_INT64 = np.dtype(np.int64)
_FEW = 40
"""Below this number of rows, plain Python is faster than numpy."""

NORMALIZED = range(MAX_NODE_SCORE + 1)
"""The range of scores that are weighted and added up."""
_CODES = range(65_536)


def score_range(normalization: Normalization) -> range:
    """The range of raw scores under a normalization: 0..100 if they are used as they are, from 0 if
    they are scaled by the largest, from IGNORED under SPREAD. All other bounds are ±2**53, so that
    normalization is exact."""
    if normalization is Normalization.IDENTITY:
        return NORMALIZED
    minimum = -(2**53)
    if normalization in (Normalization.DEFAULT, Normalization.REVERSED):
        minimum = 0
    elif normalization is Normalization.SPREAD:
        minimum = IGNORED
    return range(minimum, 2**53 + 1)


def checked_codes(plugin: str, codes: Any, rows: int) -> Int64s:
    """Filter's answer as int64. Raises PluginError for a wrong shape, type or range."""
    array = _int64s(plugin, "filter", codes, rows)
    if not _is_within(array, _CODES):
        raise PluginError(plugin, "filter", _out_of_range(array, _CODES))
    return array


def checked_scores(
    plugin: str, scores: Any, rows: int, allowed: range, *, strict: bool = False
) -> tuple[Int64s, NDArray[np.bool_] | None]:
    """Score's answer as int64 with 0 for each value out of range, and bool[rows] of these values or
    None without any. Raises PluginError for a wrong shape or type, and with ``strict`` for a value
    out of range. (Upstream checks after NormalizeScore, and fails the attempt.)"""
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
    """Whether all values are in the range. For many values the range is shifted to start at 0 and
    the values are read as unsigned: one comparison then finds outliers at both ends."""
    if len(array) < _FEW:
        values = array.tolist()
        return not values or (allowed.start <= min(values) and max(values) < allowed.stop)
    shifted = array if allowed.start == 0 else array - allowed.start
    return bool(np.maximum.reduce(shifted.view(np.uint64)) < len(allowed))


def _out_of_range(array: Int64s, allowed: range) -> str:
    """The problem of a column that has values out of range."""
    bounds = f"[{allowed[0]}, {allowed[-1]}]"
    return f"returned a value outside {bounds}: {array.min()} to {array.max()}"
