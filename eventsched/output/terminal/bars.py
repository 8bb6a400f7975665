"""Bars and curves of block characters for a terminal.

``character_fallback`` has what takes their place on terminals without such characters.
"""

from collections.abc import Sequence

_PARTS = " ▏▎▍▌▋▊▉█"
_HEIGHTS = "▁▂▃▄▅▆▇█"


def bar(part: float, length: int) -> str:
    """A bar of a fixed length that is filled by a part of it, in eighths of a character."""
    eighths = round(min(1.0, max(0.0, part)) * length * 8)
    whole, rest = divmod(eighths, 8)
    return ("█" * whole + (_PARTS[rest] if rest else "")).ljust(length, "·")


def curve(values: Sequence[int]) -> str:
    """A column for each value, as high as it is beside the largest one. None is below 0."""
    largest = max(values, default=0) or 1
    return "".join(_HEIGHTS[round(value / largest * (len(_HEIGHTS) - 1))] for value in values)
