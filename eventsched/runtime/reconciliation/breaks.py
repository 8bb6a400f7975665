"""Work on long lists that can be interrupted: a generator yields where a break may be taken."""

from collections.abc import Generator, Iterable
from typing import TypeVar

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

WithBreaks = Generator[None, None, _Result]
"""Yields where a break may be taken, and returns a result."""
ITEMS_BETWEEN_BREAKS = 64
"""Items that ``gathered`` looks at between two breaks; each takes some microseconds."""


def gathered(items: Iterable[_Item | None]) -> WithBreaks[list[_Item]]:
    """The items that are not None."""
    found = []
    for number, item in enumerate(items, 1):
        if item is not None:
            found.append(item)
        if not number % ITEMS_BETWEEN_BREAKS:
            yield
    return found
