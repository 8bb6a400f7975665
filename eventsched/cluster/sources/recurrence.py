"""What happens again and again to each node or Deployment of a generated load."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Recurrence:
    """When something happens: once in ``every`` µs (None: never), up to ``until`` (µs). It is a
    function of the index and the time, so nothing has to be remembered. ``draw`` spreads it over
    the indices by its name, ``what`` (see ``Load.number``)."""

    what: str
    draw: Callable[[str, int], int]
    every: int | None
    until: int

    def count(self, index: int, at: int) -> int:
        """How often it has happened up to a time, with no regard to ``until``."""
        if self.every is None:
            return 0
        return max(0, (at - self._first(index, self.every)) // self.every + 1)

    def last(self, index: int, at: int) -> int | None:
        """When it happened last, at a time or before it; None if it has not happened."""
        count = self.count(index, at)
        if self.every is None or not count:
            return None
        latest = self._first(index, self.every) + self.every * (count - 1)
        return latest if latest <= self.until else None

    def next(self, index: int, after: int) -> int | None:
        """When it happens for the first time after a time; None for never."""
        if self.every is None:
            return None
        at = self._first(index, self.every) + self.every * self.count(index, after)
        return at if at <= self.until else None

    def _first(self, index: int, every: int) -> int:
        return 1 + self.draw(self.what, index) % every
