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
    """The text in a style."""
    return f"\x1b[{style.value}m{text}\x1b[0m" if text else text


def plain(text: str, style: Style) -> str:
    """The text as it is."""
    return text
