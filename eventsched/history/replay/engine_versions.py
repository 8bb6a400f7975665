"""The engines that made a stream's decisions, one after the other. A live stream continues when
eventsched is upgraded or reconfigured; the first record of a term (TermBegan) says so."""

from collections.abc import Callable

import msgspec

from eventsched.domain.records import TermBegan
from eventsched.eventlog.log_errors import CorruptLogError
from eventsched.eventlog.port import StoredRecord
from eventsched.scheduling.engine import Engine

EngineOfTerm = Callable[[TermBegan], Engine]
"""Makes a new engine with the version, configuration and plugins that a TermBegan record names."""


def engine_for(engine: Engine, stored: StoredRecord, engine_of_term: EngineOfTerm | None) -> Engine:
    """The engine for a record and those after it: a new one with the same state if the record
    begins a term with other plugins or another configuration, else ``engine``. Without
    ``engine_of_term`` it is always ``engine``. Raises CorruptLogError for a record that cannot be
    decoded."""
    if engine_of_term is None or stored.kind != TermBegan.__name__:
        return engine
    try:
        record = stored.record
    except msgspec.MsgspecError as problem:
        raise CorruptLogError(stored.position, str(problem)) from problem
    if not isinstance(record, TermBegan) or not record.engine:
        return engine
    successor = engine_of_term(record)
    successor.restore(engine.snapshot(), engine.position)
    return successor
