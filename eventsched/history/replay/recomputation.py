"""Recomputes the vectors of one decision, whatever the log has stored of them.

The records before the decision's step are applied to an engine, which then decides: the same code
as a replay. Its caches are cold, so the vectors are whole.
"""

from collections.abc import Callable, Mapping
from itertools import takewhile
from typing import NamedTuple

from eventsched.domain.errors import InputError
from eventsched.domain.records.verdicts import Detail
from eventsched.eventlog.port import StoredLog, StoredRecord
from eventsched.history.replay.engine_versions import EngineOfTerm, engine_for
from eventsched.history.replay.logged_state import apply_stored
from eventsched.history.replay.stream_replay import decide_again
from eventsched.scheduling.engine import Engine


class Recomputed(NamedTuple):
    """The vectors of the decisions of one step, by position. ``applied`` records from position
    ``first`` on were applied for it."""

    details: Mapping[int, Detail]
    first: int
    applied: int


def recompute(
    log: StoredLog,
    position: int,
    engine_before: Callable[[int], Engine],
    engine_of_term: EngineOfTerm | None,
) -> Recomputed:
    """The vectors of the decision at a position, and of the others of its step.
    ``engine_before(p)`` gives an engine with the state before a position at or before ``p``, and
    with the configuration that was in force there; ``engine_of_term`` is that of a replay. Raises
    InputError if the decision comes out differently now, and CorruptLogError."""
    wanted = next(log.read(position), None)
    if wanted is None:
        raise InputError("POSITION", f"the log has no record {position}", "name one that it has")
    engine = engine_before(wanted.cause)
    first = engine.position
    for stored in takewhile(lambda stored: stored.position < wanted.cause, log.read(first)):
        engine = engine_for(engine, stored, engine_of_term)
        apply_stored(engine, stored)
    begin = next(log.read(wanted.cause))
    engine = engine_for(engine, begin, engine_of_term)
    made = decide_again(engine, begin)
    if not any(StoredRecord.of(entry) == wanted for entry in made):
        raise InputError(
            f"position {position}",
            "this decision comes out differently now",
            "`eventsched replay --verify` names the first difference",
        )
    details = {entry.position: entry.detail.expand() for entry in made if entry.detail is not None}
    return Recomputed(details, first, wanted.cause - first)
