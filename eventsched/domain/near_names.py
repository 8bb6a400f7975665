"""Which names to offer instead of one that does not exist.

What people mistype is near in spelling; of what they made up, some names show the form. Likeness is
the ratio of ``difflib``. To compare one pair takes some ten microseconds, so of a large cluster's
names only those are compared that can be nearest, judged by the characters they share.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from difflib import SequenceMatcher
from heapq import heappush, heappushpop

import numpy as np
import numpy.typing as npt

_OFFERED = 3
_LEAST_RATIO = 0.5
"""The least likeness: names of nodes often differ only in their last characters."""
_MOST_COMPARED = 500
"""Names that are compared as a whole, at most."""
_ZEROS = re.compile(r"(?<![0-9])0+(?=[0-9])")


def offer(name: str, known: Collection[str], otherwise: str = "") -> str:
    """The remedy for an unknown name: the nearest of the known ones; if none is near ``otherwise``,
    by default some of them."""
    near = nearest(name, known)
    if near:
        return f"did you mean {' or '.join(near)}?"
    if otherwise or not known:
        return otherwise
    these = "there are, among others" if len(known) > _OFFERED else "there are"
    return f"{these}: {', '.join(sorted(known)[:_OFFERED])}"


def nearest(name: str, known: Iterable[str], least_ratio: float = _LEAST_RATIO) -> list[str]:
    """The names that are most like this one, the nearest first: those that
    ``difflib.get_close_matches`` finds, unless more than ``_MOST_COMPARED`` could be as near; of
    equally near ones those that begin and end alike. If some differ from it only in case or in
    zeros before a number, these alone."""
    names = [other for other in known if _could_be_near(name, other, least_ratio)]
    if same := {other for other in names if other != name and _are_alike(name, other)}:
        return sorted(same)[:_OFFERED]
    if not names:
        return []
    largest = _largest_ratios(name, names)
    matcher = SequenceMatcher()
    matcher.set_seq2(name)
    found: list[tuple[float, int, str]] = []
    ends = _common_ends(name, names)
    order = np.lexsort((-ends, -largest))
    for place in order[:_MOST_COMPARED].tolist():
        least = found[0][0] if len(found) == _OFFERED else least_ratio
        if largest[place] < least:
            break
        matcher.set_seq1(names[place])
        ratio = matcher.ratio()
        if ratio >= least:
            keep = heappushpop if len(found) == _OFFERED else heappush
            keep(found, (ratio, int(ends[place]), names[place]))
    return [near for *_, near in sorted(found, reverse=True)]


def _are_alike(name: str, other: str) -> bool:
    """Whether two names differ in case or in zeros before a number at most: web-3, WEB-03."""
    # The first comparison is quick, and hardly any name passes it.
    return name.lower().replace("0", "") == other.lower().replace("0", "") and (
        _ZEROS.sub("", name.lower()) == _ZEROS.sub("", other.lower())
    )


def _could_be_near(name: str, other: str, least_ratio: float) -> bool:
    """Whether the lengths alone allow it."""
    both = len(name) + len(other)
    return both > 0 and 2.0 * min(len(name), len(other)) / both >= least_ratio


def _largest_ratios(name: str, names: Sequence[str]) -> npt.NDArray[np.float64]:
    """For each of the names the ratio that it would have if the characters that both have were in
    the same order: ``SequenceMatcher.quick_ratio``, of all names at once."""
    lengths = np.fromiter(map(len, names), np.int64, len(names))
    characters = _characters(names)
    shared = np.zeros(len(names), np.int64)
    for character, count in Counter(name).items():
        shared += np.minimum(np.count_nonzero(characters == ord(character), axis=1), count)
    return 2.0 * shared / (lengths + len(name))


def _common_ends(name: str, names: Sequence[str]) -> npt.NDArray[np.int64]:
    """How many characters of each name are those of this one, counted from the beginning and from
    the end. A name with a slip has the others in order."""
    from_begin = _common_begin(name, names)
    return from_begin + _common_begin(name[::-1], [other[::-1] for other in names])


def _common_begin(name: str, names: Sequence[str]) -> npt.NDArray[np.int64]:
    characters = _characters([name, *names])
    differ = characters[1:] != characters[0]
    return np.where(differ.any(axis=1), differ.argmax(axis=1), len(name))


def _characters(names: Sequence[str]) -> npt.NDArray[np.uint32]:
    """A row of characters for each name; shorter ones end with zeros."""
    widest = max(map(len, names))
    return np.array(names, f"U{widest}").view(np.uint32).reshape(len(names), widest)
