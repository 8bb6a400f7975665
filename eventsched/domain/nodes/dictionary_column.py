"""A column of any values, one for each node, stored as numbers of the distinct values."""

from collections.abc import Callable, Hashable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eventsched.domain.journal import Rows

Int64s = NDArray[np.int64]


class DictionaryColumn:
    """A column of hashable values, stored as numbers. A function of the value is computed once for
    each distinct value and then spread over the rows. The number of a value that no row has any
    longer is given to a new value, so the column is not larger than its rows have ever needed."""

    def __init__(self, values: list[Hashable], capacity: int) -> None:
        self.values: list[Hashable] = []
        """The value of each number; None for a number that no row has."""
        self._known: dict[Hashable, int] = {}
        self._uses: list[int] = []
        self._unused: list[int] = []
        self._size = 0
        self.ids = np.zeros(capacity, dtype=np.intp)
        self._integers: Int64s = np.zeros(0, dtype=np.int64)
        for row, value in enumerate(values):
            self.put(row, value)

    def copied(self) -> "DictionaryColumn":
        """A column of its own with the same numbers."""
        other = DictionaryColumn([], 0)
        other.values, other.ids = self.values.copy(), self.ids.copy()
        other._known, other._uses = self._known.copy(), self._uses.copy()
        other._unused, other._size = self._unused.copy(), self._size
        return other

    def put(self, row: int, value: Hashable) -> None:
        """Sets the value of a row, or of the next new one."""
        number = self._known.get(value, -1)
        if number < 0:
            number = self._known[value] = self._new_number(value)
        self._uses[number] += 1
        if row < self._size:
            self._release(self.ids.item(row))
        self._size = max(self._size, row + 1)
        self.ids[row] = number

    def _new_number(self, value: Hashable) -> int:
        if not self._unused:
            self.values.append(value)
            self._uses.append(0)
            return len(self.values) - 1
        number = self._unused.pop()
        self.values[number] = value
        if number < len(self._integers):
            self._integers[number] = _integer(value)
        return number

    def _release(self, number: int) -> None:
        self._uses[number] -= 1
        if not self._uses[number]:
            del self._known[self.values[number]]
            self.values[number] = None
            self._unused.append(number)

    def number(self, value: Hashable) -> int:
        """The number of a value in ``ids``; -1 if no row has the value."""
        return self._known.get(value, -1)

    def answer(self, rows: Rows, question: Callable[[Any], int]) -> Int64s:
        """int64[n]: ``question(value)`` of each row."""
        ids = self.ids[rows]
        if len(rows) < len(self.values):
            answers = {number: question(self.values[number]) for number in set(ids.tolist())}
            return np.array([answers[number] for number in ids.tolist()], dtype=np.int64)
        return np.array([question(value) for value in self.values], dtype=np.int64)[ids]

    @property
    def integers(self) -> Int64s:
        """int64[values]: the values of a column of integers, by number; 0 for a deleted node. Read
        only."""
        known = len(self._integers)
        if known < len(self.values):
            fresh = np.array(list(map(_integer, self.values[known:])), dtype=np.int64)
            self._integers = np.concatenate([self._integers, fresh])
        return self._integers


def _integer(value: Hashable) -> int:
    return value if isinstance(value, int) else 0
