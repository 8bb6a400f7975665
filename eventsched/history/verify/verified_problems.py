"""Problems that verification finds, and details that are missing.

Written from docs/log-format.md, like all of verification.
"""

from typing import NamedTuple

from eventsched.history.verify.verified_log import Log

MOST_PROBLEMS = 20
"""The number of problems after which verification ends."""


class Problem(NamedTuple):
    """A problem in a log, and its position; None if it has none."""

    position: int | None
    text: str


class MissingDetails:
    """Details that are missing although ``thinned`` was not given. If they existed when
    verification began, they were thinned during it, which is allowed. The number of details
    shows that: while it is the same as at the beginning, nothing was thinned."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._problems: list[Problem] = []
        self._number = 0
        self._is_thinned = False
        self.seen = 0
        """The number of details in the batches so far."""
        self.thinned = 0
        """The number of details thinned during verification; known at the end."""

    def add(self, position: int, text: str) -> None:
        """Adds a missing detail."""
        self._number += 1
        if len(self._problems) < MOST_PROBLEMS:
            self._problems.append(Problem(position, text))

    def known(self) -> list[Problem]:
        """The details known to be missing from the beginning; none once the log was thinned."""
        if self._problems and not self._is_thinned:
            self._is_thinned = self._log.details_now() < self._log.details_at_first
            if not self._is_thinned:
                problems, self._problems = self._problems, []
                return problems
        return []

    def left(self) -> list[Problem]:
        """At the end of a log that was thinned: all others, unless thinning explains them."""
        if not self._is_thinned:
            return []
        if self.seen + self._number <= self._log.details_at_first:
            self.thinned = self._number
            return []
        why = "the log was thinned meanwhile, but not all of it: verify with --thinned"
        return [Problem(position, f"{text} ({why})") for position, text in self._problems]
