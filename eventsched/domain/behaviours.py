"""Behaviours that came after the first release: the ``flags`` of a stream.

A decision depends on the code that made it. A change of the code that decides differently on the
same records has a number here. ``StreamStarted`` and ``TermBegan`` list the numbers in force, the
state holds them, and the code checks ``Behaviour.X in state.flags``. So a log that was written
without a behaviour replays without it.

To add one: the next number, a name, a sentence about what is different without it, a line in
docs/log-format.md, and its migration in ``SWITCHED_ON_BY``. Numbers are never reused.

A replica of an earlier version does not know the number, and could not follow the log. So on a
database a behaviour is off until ``eventsched db upgrade --post``, after which no earlier version
runs. The same holds for a new kind of record, or a new field: it is written only under a new
number.
"""

from collections.abc import Iterable
from enum import IntEnum

from eventsched.domain.errors import NewerLogError


class Behaviour(IntEnum):
    """What a stream does differently from 0.1."""

    SKIPS_DELETING_PODS = 1
    """A pod that is being deleted leaves the queue with ``PodSkipped``. Without it: by an attempt
    that ends in an error."""

    TO_NODE_NAME_FROM_ZERO = 2
    """tonodename-scoring-plugin scales 80 and 20 to 100 and 25 unless its arguments say otherwise.
    Without it: to 100 and 0."""

    SPARES_OTHER_NODES = 3
    """A score out of range makes only its own node infeasible for the attempt. Without it: the
    attempt ends in an error."""

    RETRIES_IN_ORDER = 4
    """A new configuration retries the waiting pods in the order in which they were added. Without
    it: in an order that also depends on the snapshot from which the leader's state was loaded."""

    REUSES_ROWS = 5
    """A new node may get the row of a deleted one (``NodeAdded.row``). Without it: always a new
    row."""

    BOUNDS_MEMORY = 6
    """Entries of a plugin's memory are removed by the bounds that the plugin declares, and
    FirstScheduledNode has bounds by default. Without it: an entry stays until the plugin or a user
    removes it."""

    RENUMBERS_CODES = 7
    """A plugin that numbers its filter's answers begins again before the numbers run out. Without
    it: once they have run out, each further answer fails its attempt, or has a reason that does not
    name the node."""

    JUDGES_NO_OPEN_BIND = 8
    """As an extender, does not judge a pod whose bind is under way: the reply is a problem. Without
    it: the pod's own reservation counts against the pod, so its node may be refused for a lack of
    room."""

    FREES_COLUMNS = 9
    """The column of an extended resource is freed once no node offers it and no pod on a node
    requests it, so ``NodeView.offered`` no longer has it, and the next resource gets the column.
    Without it: a resource that a node has offered keeps its column."""

    SHADOWS = 10
    """The stream is a shadow's: what another scheduler does with a pod is compared with the
    decision for it (``PlacementCompared``), and no decision has an effect. A mode: see ``MODES``.
    """


MODES = frozenset({Behaviour.SHADOWS})
"""Numbers that stand for a mode of a stream: set by its first record or never. They need no
migration, because a version that does not know the mode must not touch the stream."""

CURRENT: tuple[int, ...] = tuple(number for number in Behaviour if number not in MODES)
"""The behaviours of this version, in force in new streams without a database."""

SWITCHED_ON_BY: dict[Behaviour, str] = {}
"""The migration of step POST from which on a behaviour is in force, for those after the ninth. If a
version has no such migration of its own, it needs one that does nothing else."""


def allowed(schema: str) -> tuple[int, ...]:
    """The behaviours that may be in force on a database whose schema has this revision."""
    return tuple(each for each in CURRENT if SWITCHED_ON_BY.get(Behaviour(each), "") <= schema)


def require_known(flags: Iterable[int], source: str) -> None:
    """Raises NewerLogError for flags of a newer version, whose behaviour this version does not
    have."""
    unknown = sorted(set(flags) - set(CURRENT) - MODES)
    if unknown:
        raise NewerLogError(source, f"its flags {', '.join(map(str, unknown))}")
