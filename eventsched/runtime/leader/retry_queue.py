"""Requests that were not answered, and when to retry them."""

from collections.abc import Iterator
from heapq import heappop, heappush
from itertools import count
from typing import Generic, TypeVar

from eventsched.domain.units import SECOND

RETRY_DELAY = SECOND // 5
"""Microseconds before a request with an unknown outcome is retried."""
LONGEST_RETRY_DELAY = 5 * SECOND
"""Microseconds to which this delay may grow while nothing is answered."""

RequestT = TypeVar("RequestT")


class RetryQueue(Generic[RequestT]):
    """Unanswered requests to the database or to the API server. The delay of a retry is as long as
    the server has been silent, within limits."""

    def __init__(self) -> None:
        self._later: list[tuple[int, int, RequestT]] = []
        self._order = count()
        self._silent_since: int | None = None

    def heard(self) -> None:
        """Notes that the server has answered something."""
        self._silent_since = None

    def delay(self, now: int) -> int:
        """Microseconds to wait after an unanswered request."""
        if self._silent_since is None:
            self._silent_since = now
        return min(max(RETRY_DELAY, now - self._silent_since), LONGEST_RETRY_DELAY)

    def put(self, request: RequestT, now: int) -> None:
        """Adds a request to retry."""
        heappush(self._later, (now + self.delay(now), next(self._order), request))

    def due(self, now: int) -> Iterator[RequestT]:
        """Removes and yields the requests that are due."""
        while self._later and self._later[0][0] <= now:
            yield heappop(self._later)[2]

    @property
    def next_at(self) -> int | None:
        """When (µs) the next request is due; None if there is none."""
        return self._later[0][0] if self._later else None
