"""Which rows changed since somebody last looked: how caches stay derived without being told."""

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.intp]


_NONE: Rows = np.zeros(0, dtype=np.intp)


class Journal:
    """An append-only list of touched rows that forgets its oldest half when it grows long.

    A reader keeps a cursor; ``since(cursor)`` gives the rows touched after it, or None when the
    journal no longer reaches back that far and everything must be looked at again.
    """

    __slots__ = ("_base", "_rows", "limit")

    def __init__(self, limit: int = 65_536) -> None:
        self._rows: list[int] = []
        self._base = 0
        self.limit = limit

    @property
    def end(self) -> int:
        """The cursor of a reader that has seen everything."""
        return self._base + len(self._rows)

    def touch(self, row: int) -> None:
        """Notes that something about the row changed."""
        self._rows.append(row)
        if len(self._rows) > self.limit:
            half = self.limit // 2
            del self._rows[:half]
            self._base += half

    def since(self, cursor: int) -> Rows | None:
        """The distinct rows touched after the cursor, ascending; None where that is forgotten."""
        if cursor < self._base:
            return None
        if cursor == self._base + len(self._rows):
            return _NONE
        touched = self._rows[cursor - self._base :]
        if len(touched) > 1:
            touched = sorted(set(touched))
        return np.array(touched, dtype=np.intp)
