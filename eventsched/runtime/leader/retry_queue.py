"""Requests that were not answered, and when they are to be followed up."""

from collections.abc import Iterator
from heapq import heappop, heappush
from itertools import count
from typing import Generic, TypeVar

from eventsched.domain.units import SECOND

PATIENCE = SECOND // 5
"""Microseconds before a request whose outcome is not known is followed up."""
LONGEST = 5 * SECOND
"""Microseconds that this may grow to, while nothing is answered at all."""

Asked = TypeVar("Asked")


class RetryQueue(Generic[Asked]):
    """What is asked of one side, and not answered. The longer that side is silent, the less often
    it is asked: as long again as it has been silent."""

    def __init__(self) -> None:
        self._later: list[tuple[int, int, Asked]] = []
        self._order = count()
        self._silent_since: int | None = None

    def heard(self) -> None:
        """The other side has answered something."""
        self._silent_since = None

    def patience(self, now: int) -> int:
        """Microseconds to wait after a request that was not answered."""
        if self._silent_since is None:
            self._silent_since = now
        return min(max(PATIENCE, now - self._silent_since), LONGEST)

    def put(self, request: Asked, now: int) -> None:
        """Takes in a request to be followed up."""
        heappush(self._later, (now + self.patience(now), next(self._order), request))

    def due(self, now: int) -> Iterator[Asked]:
        """Takes out the requests whose time has come."""
        while self._later and self._later[0][0] <= now:
            yield heappop(self._later)[2]

    @property
    def next_at(self) -> int | None:
        """When (µs) the next one is due; None where there is none."""
        return self._later[0][0] if self._later else None
