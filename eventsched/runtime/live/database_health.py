"""Whether a database answers, as whoever asks it sees it."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

SLOW = 5.0
"""Seconds after which a question without an answer counts as trouble."""


class DatabaseHealth:
    """What is known of the way to a database."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """``clock`` gives seconds that only grow."""
        self._clock = clock
        self._problem = ""
        self._since: float | None = None
        self._asked: float | None = None

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Something is asked as long as the block runs."""
        self._asked = self._clock()
        try:
            yield
        finally:
            self._asked = None

    def missed(self, problem: str) -> bool:
        """It did not answer, or refused; whether that is news."""
        if self._since is None:
            self._since = self._clock()
        is_news, self._problem = problem != self._problem, problem
        return is_news

    def answered(self) -> float | None:
        """It has answered; for how long (s) it had not, None where it always did."""
        since, self._since, self._problem = self._since, None, ""
        return None if since is None else self._clock() - since

    @property
    def lacking(self) -> float:
        """Seconds for which nothing was answered, though it was asked; 0 while nothing is amiss."""
        since = self._asked if self._since is None else self._since
        return 0.0 if since is None else self._clock() - since

    @property
    def trouble(self) -> str:
        """Why it cannot be worked with now, "" where it can."""
        if self._since is not None:
            return f"away for {self._clock() - self._since:.0f} s: {self._problem}"
        waited = 0.0 if self._asked is None else self._clock() - self._asked
        return f"no answer for {waited:.0f} s" if waited > SLOW else ""
