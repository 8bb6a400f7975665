"""Attempts of a pod that ended alike, one after the other, as one."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

_RESULT = ("outcome", "node", "plugin", "message")
"""Fields of an attempt that say how it ended."""


class AttemptRun(NamedTuple):
    """Attempts in a row with the same result, as the API has them."""

    attempts: list[Mapping[str, Any]]

    @property
    def first(self) -> Mapping[str, Any]:
        """The oldest of them."""
        return self.attempts[0]

    @property
    def last(self) -> Mapping[str, Any]:
        """The newest of them."""
        return self.attempts[-1]


def attempt_runs(attempts: Sequence[Mapping[str, Any]]) -> list[AttemptRun]:
    """The attempts of ``explain`` in order, equal ones together."""
    alike = groupby(attempts, key=lambda attempt: [attempt[name] for name in _RESULT])
    return [AttemptRun(list(run)) for _, run in alike]
