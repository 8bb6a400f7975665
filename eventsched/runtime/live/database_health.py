"""Whether a database answers, as one of its clients sees it."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

SLOW_SECONDS = 5.0
"""Seconds after which a request without an answer counts as trouble."""


class DatabaseHealth:
    """The health of one connection to a database."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """``clock`` returns seconds and never goes back."""
        self._clock = clock
        self._reason = ""
        self._since: float | None = None
        self._asked_at: float | None = None

    @contextmanager
    def asking(self) -> Iterator[None]:
        """A request is under way while the block runs."""
        self._asked_at = self._clock()
        try:
            yield
        finally:
            self._asked_at = None

    def failed(self, problem: str) -> bool:
        """Notes that it did not answer, or refused. True if the problem is new."""
        if self._since is None:
            self._since = self._clock()
        is_new, self._reason = problem != self._reason, problem
        return is_new

    def answered(self) -> float | None:
        """Notes an answer. Returns how long (s) there was none; None if there was no problem."""
        since, self._since, self._reason = self._since, None, ""
        return None if since is None else self._clock() - since

    @property
    def unanswered_seconds(self) -> float:
        """Seconds since the first unanswered request; 0 if there is none."""
        since = self._asked_at if self._since is None else self._since
        return 0.0 if since is None else self._clock() - since

    @property
    def problem(self) -> str:
        """Why it cannot be used now; "" if it can."""
        if self._since is not None:
            return f"unreachable for {self._clock() - self._since:.0f} s: {self._reason}"
        waited = 0.0 if self._asked_at is None else self._clock() - self._asked_at
        return f"no answer for {waited:.0f} s" if waited > SLOW_SECONDS else ""
