"""The orders of pods, and where a page of an order ends.

A page goes on after a key and a position, so no page costs more than one before it: what is sorted
are the pods that exist, which is less than the log's history.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from eventsched.domain.errors import InputError

LAST = 2**62
"""Later than all positions and times."""
_LAST_TEXT = "\U0010ffff"
"""After all names."""
_NUMBERS = {
    "position": "seq", "since": "since", "waiting": "waiting_since", "attempts": "attempts",
}  # fmt: skip
"""Order → its column of pod_now."""
_TEXTS = {
    "node": "nullif(n.node, '')",
    "owner": "nullif(n.owner_name, '') || ' ' || n.namespace",
}
"""Order → its text as SQL. A blank is in no name, and comes before all of their characters."""
SORTS = (*_NUMBERS, *_TEXTS)
"""What pods are sorted by; a - before it turns the order around."""


class PodKey(NamedTuple):
    """What a pod is sorted by, and its position, by which equal ones are sorted."""

    value: int | str
    position: int


class PodOrder(NamedTuple):
    """Pods sorted by ``name`` (SORTS); those without a value come last in both directions."""

    name: str
    is_descending: bool

    @property
    def is_of_texts(self) -> bool:
        """Whether keys are texts."""
        return self.name in _TEXTS

    @property
    def sql(self) -> str:
        """The key of a row n of pod_now."""
        if not self.is_of_texts:
            return f"coalesce(n.{_NUMBERS[self.name]}, {-1 if self.is_descending else LAST})"
        missing = "''" if self.is_descending else f"chr({ord(_LAST_TEXT)})"
        return f'coalesce({_TEXTS[self.name]}, {missing}) COLLATE "C"'

    def key(self, row: Mapping[str, Any]) -> PodKey:
        """The key of a row with the columns of pod_now."""
        if self.is_of_texts:
            text = row["node"] if self.name == "node" else row["owner_name"]
            whole = f"{text} {row['namespace']}" if text and self.name == "owner" else text
            return PodKey(whole or self.missing, row["seq"])
        value = row[_NUMBERS[self.name]]
        return PodKey(self.missing if value is None else value, row["seq"])

    def cursor(self, key: PodKey) -> str:
        """Where to go on after a key."""
        return f".{key.position}" if key.value == self.missing else f"{key.value}.{key.position}"

    def place(self, cursor: str) -> PodKey:
        """The key of a cursor. Raises InputError."""
        text, _, position = cursor.rpartition(".")
        if not _is_number(position) or not (self.is_of_texts or not text or _is_number(text)):
            raise _cursor_error(cursor)
        if not text:
            return PodKey(self.missing, int(position))
        return PodKey(text if self.is_of_texts else int(text), int(position))

    @property
    def missing(self) -> int | str:
        """The key of pods without a value."""
        if self.is_of_texts:
            return "" if self.is_descending else _LAST_TEXT
        return -1 if self.is_descending else LAST


def order_of(sort: str) -> PodOrder:
    """The order that a parameter names; without one the newest first. Raises InputError."""
    name = sort.removeprefix("-") or "position"
    if name not in SORTS:
        known = ", ".join(SORTS)
        raise InputError("sort", f"{sort!r} is unknown", f"take one of {known}, or -{name}")
    return PodOrder(name, is_descending=not sort or sort.startswith("-"))


def position_of_cursor(cursor: str) -> int:
    """The position of a cursor that is one. Raises InputError."""
    if not _is_number(cursor):
        raise _cursor_error(cursor)
    return int(cursor)


def _is_number(text: str) -> bool:
    """Whether a text is a whole number that the database takes."""
    digits = text.removeprefix("-")
    return digits.isascii() and digits.isdigit() and len(digits) < 20


def _cursor_error(cursor: str) -> InputError:
    problem = f"{cursor!r} is not a place to go on from"
    return InputError("cursor", problem, "take next of the page before, with the same sort")
