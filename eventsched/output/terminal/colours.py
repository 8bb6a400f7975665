"""Colours of a terminal: whether to use them, and text that has them."""

import os
from collections.abc import Callable
from enum import StrEnum

Paint = Callable[[str, "Style"], str]
"""Gives text a style, or leaves it as it is."""


class Style(StrEnum):
    """Styles, with their parameters of SGR (ECMA-48)."""

    BOLD = "1"
    DIM = "2"
    RED = "31"
    GREEN = "32"
    YELLOW = "33"


def uses_colours(*, is_terminal: bool) -> bool:
    """Whether to use colours: FORCE_COLOR says yes, NO_COLOR and a dumb terminal no (an empty
    variable says nothing); else only a terminal has them."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return is_terminal and os.environ.get("TERM") != "dumb"


def painted(text: str, style: Style) -> str:
    """The text in a style, line by line: a pager shows lines apart from each other."""
    return "\n".join(
        f"\x1b[{style.value}m{line}\x1b[0m" if line else "" for line in text.split("\n")
    )


_LATE, _VERY_LATE = 60.0, 600.0
"""Seconds that a pod waits until its age is yellow or red."""


def style_of_wait(seconds: float | None) -> Style | None:
    """The style of something that has waited for a time."""
    if seconds is None or seconds < _LATE:
        return None
    return Style.RED if seconds >= _VERY_LATE else Style.YELLOW


def plain(text: str, style: Style) -> str:
    """The text as it is."""
    return text
