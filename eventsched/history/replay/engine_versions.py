"""The engines that made a stream's decisions, one after the other: a live stream goes on when
eventsched is upgraded or configured otherwise, and says so where a term begins."""

from collections.abc import Callable

import msgspec

from eventsched.domain.records import TermBegan
from eventsched.eventlog.log_errors import CorruptLogError
from eventsched.eventlog.port import Stored
from eventsched.scheduling.engine import Engine

EngineOfTerm = Callable[[TermBegan], Engine]
"""A new engine with what a term's first record says that is in force."""


def engine_for(engine: Engine, stored: Stored, remake: EngineOfTerm | None) -> Engine:
    """The engine for a record and what follows: another one, with the same state, where the record
    says that something else is in force from then on. Without ``remake`` it is always the same.
    Raises CorruptLogError for a record that cannot be read."""
    if remake is None or stored.kind != TermBegan.__name__:
        return engine
    try:
        record = stored.record
    except msgspec.MsgspecError as problem:
        raise CorruptLogError(stored.position, str(problem)) from problem
    if not isinstance(record, TermBegan) or not record.engine:
        return engine
    successor = remake(record)
    successor.restore(engine.snapshot(), engine.position)
    return successor
