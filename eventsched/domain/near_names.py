"""Which names to offer instead of one that does not exist.

What people mistype is near in spelling; of what they made up, some names show the form.
"""

from collections.abc import Collection
from difflib import get_close_matches

_OFFERED = 3
_LEAST_RATIO = 0.5
"""The least likeness: names of nodes often differ only in their last characters."""


def offer(name: str, known: Collection[str]) -> str:
    """The remedy for an unknown name: the nearest of the known ones, or else some of them."""
    near = get_close_matches(name, known, _OFFERED, _LEAST_RATIO)
    if near:
        return f"did you mean {' or '.join(near)}?"
    return f"there are, among others: {', '.join(sorted(known)[:_OFFERED])}" if known else ""
