"""Nodes, pods, engines and expected records for tests: what is beside the point is filled in.

What people who write plugins need as well is in eventsched.testing; the expected records are here.
Times are microseconds, cpu millicores, memory bytes. A pod's uid is its name.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from eventsched.domain.records import Outcome, PodDecided, PodQueued, Queue, ScoringDefined
from eventsched.domain.records.verdicts import ScoreColumn
from eventsched.testing import (
    GIB,
    PROFILE,
    SECOND,
    added,
    attempted,
    engine_of,
    engine_with,
    make_node,
    make_pod,
    observed,
    records_of,
)

__all__ = [
    "GIB", "PROFILE", "SECOND", "active", "added", "attempted", "backing_off", "defined",
    "engine_of", "engine_with", "identity", "make_node", "make_pod", "observed", "parked",
    "records_of", "refused", "scheduled", "woken",
]  # fmt: skip


def scheduled(uid: str = "p1", node: str = "n1", *, scores: Iterable[ScoreColumn] = (),
              **fields: Any) -> PodDecided:  # fmt: skip
    """A decision for the only node there is, at the first attempt. ``scores`` are the columns that
    the stream's first ScoringDefined names."""
    filled: dict[str, Any] = {"attempt": 1, "row": 0, "feasible": 1, "evaluated": 1, "ties": 1}
    if columns := tuple(scores):
        filled.update(scoring=1, parameters=tuple(each.parameters for each in columns))
    filled.update(fields)
    return PodDecided(
        **{"uid": uid, "profile": PROFILE, "outcome": Outcome.SCHEDULED, "node": node, **filled}
    )


def refused(uid: str = "p1", message: str = "", **fields: Any) -> PodDecided:
    """A decision that the pod has to wait, at the first attempt, after a look at one node."""
    filled = {"attempt": 1, "evaluated": 1, "message": message, **fields}
    return PodDecided(
        **{"uid": uid, "profile": PROFILE, "outcome": Outcome.UNSCHEDULABLE, **filled}
    )


def active(uid: str = "p1", cause: str = "PodAdd", **fields: Any) -> PodQueued:
    """A move to the active queue."""
    return PodQueued(uid=uid, queue=Queue.ACTIVE, cause=cause, **fields)


def parked(uid: str = "p1", *rejectors: str, until: int = SECOND, **fields: Any) -> PodQueued:
    """A move to the unschedulable queue after a first failed attempt at time 0."""
    filled = {"cause": "AttemptFailed", "failures": 1, **fields}
    return PodQueued(uid=uid, queue=Queue.UNSCHEDULABLE, rejectors=rejectors, until=until, **filled)


def woken(cause: str, plugin: str, queue: Queue = Queue.ACTIVE, **fields: Any) -> PodQueued:
    """p1's move up, which still names who refused it and when its backoff ends or ended."""
    filled: dict[str, Any] = {"rejectors": (plugin,), "until": SECOND, "failures": 1, **fields}
    return PodQueued(uid="p1", queue=queue, cause=cause, plugin=plugin, **filled)


def backing_off(uid: str = "p1", until: int = SECOND, **fields: Any) -> PodQueued:
    """A move to the backoff queue, after a first error at time 0 by default."""
    filled = {"cause": "AttemptFailed", "errors": 1, **fields}
    return PodQueued(uid=uid, queue=Queue.BACKOFF, until=until, **filled)


def identity(plugin: str, weight: int = 1) -> ScoreColumn:
    """A score column whose raw scores are used as they are."""
    return ScoreColumn(plugin=plugin, weight=weight)


def defined(*columns: ScoreColumn, number: int = 1) -> ScoringDefined:
    """The dictionary's entry for score columns, which leaves out their parameters."""
    bare = (msgspec.structs.replace(each, parameters=()) for each in columns)
    return ScoringDefined(number=number, columns=tuple(bare))
