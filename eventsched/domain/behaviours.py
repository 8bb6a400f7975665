"""Behaviours that came after the first release: the ``flags`` of a stream.

A decision depends on the code that made it. A change of that code which would decide otherwise on
the same records has a number here. ``StreamStarted`` and ``TermBegan`` list the numbers in force,
the state keeps them, and the code asks ``Behaviour.X in state.flags``. So a log that was written
without a behaviour replays without it.

To add one: the next number, its name, one sentence of what is different without it; a line in
docs/log-format.md. Numbers are never used again.
"""

from collections.abc import Iterable
from enum import IntEnum

from eventsched.domain.errors import InputError


class Behaviour(IntEnum):
    """What a stream does that 0.1 did not do."""

    SKIPS_DELETING_PODS = 1
    """A pod that is being deleted leaves the queue with ``PodSkipped``. Without it: with an attempt
    that ends in an error."""

    TO_NODE_NAME_FROM_ZERO = 2
    """tonodename-scoring-plugin scales 80 and 20 to 100 and 25 unless its arguments say otherwise.
    Without it: to 100 and 0."""

    SPARES_OTHER_NODES = 3
    """A score out of range makes its node infeasible for the attempt, and no other. Without it: the
    attempt ends in an error."""


CURRENT: tuple[int, ...] = tuple(Behaviour)
"""What new streams and terms begin with."""


def require_known(flags: Iterable[int], source: str) -> None:
    """Raises InputError for flags of a newer version, which this one cannot repeat."""
    unknown = sorted(set(flags) - set(CURRENT))
    if unknown:
        listed = ", ".join(map(str, unknown))
        raise InputError(
            source,
            f"was written by a newer version: this one does not know its flags {listed}",
            "use that version or a later one",
        )
