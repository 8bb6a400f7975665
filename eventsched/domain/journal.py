"""A journal of changed rows, by which caches find out what to update."""

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.intp]


_NONE: Rows = np.zeros(0, dtype=np.intp)


class Journal:
    """An append-only list of changed rows that drops its oldest half when it exceeds ``limit``.

    A reader keeps a cursor. ``since(cursor)`` returns the rows changed after it, or None if the
    journal no longer reaches back that far and the reader must look at all rows.
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

    def note(self, row: int) -> None:
        """Notes that something about a row has changed."""
        self._rows.append(row)
        if len(self._rows) > self.limit:
            half = self.limit // 2
            del self._rows[:half]
            self._base += half

    def since(self, cursor: int) -> Rows | None:
        """The distinct rows changed after the cursor, ascending; None if some of them were
        dropped."""
        if cursor < self._base:
            return None
        if cursor == self._base + len(self._rows):
            return _NONE
        touched = self._rows[cursor - self._base :]
        if len(touched) > 1:
            touched = sorted(set(touched))
        return np.array(touched, dtype=np.intp)
