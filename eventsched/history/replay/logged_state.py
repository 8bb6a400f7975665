"""Where a replay starts, and the state as the log has it."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgspec

from eventsched.domain import records
from eventsched.eventlog.log_errors import CorruptLogError
from eventsched.eventlog.port import StoredLog, StoredRecord
from eventsched.history.replay.engine_versions import EngineOfTerm, engine_for
from eventsched.scheduling.engine import Engine


class ReplayStart(NamedTuple):
    """Where a replay begins: at a position, in the state of an engine's snapshot; by default at the
    first record."""

    position: int = 0
    state: bytes = b""

    def begin(self, engine: Engine) -> Engine:
        """Brings a new engine into the state."""
        if self.state:
            engine.restore(self.state, self.position)
        return engine


class LoggedState:
    """The state as the log has it, for a replay that has to continue from there after a tolerated
    difference. It reads the log once, as far as it is needed."""

    def __init__(
        self,
        make_engine: Callable[[], Engine],
        log: StoredLog,
        engine_of_term: EngineOfTerm | None,
        start: ReplayStart,
    ) -> None:
        self._make_engine, self._engine_of_term = make_engine, engine_of_term
        self._log, self._start = log, start
        self._records: Iterator[StoredRecord] | None = None
        self._engine: Engine | None = None

    def engine_at(self, position: int) -> Engine:
        """A new engine with the state before a position; positions must not decrease between
        calls."""
        if self._records is None or self._engine is None:
            self._records = self._log.read(self._start.position)
            self._engine = self._start.begin(self._make_engine())
        while self._engine.position < position:
            stored = next(self._records)
            self._engine = engine_for(self._engine, stored, self._remembered_factory)
            apply_stored(self._engine, stored)
        engine = self._make_engine()
        engine.restore(self._engine.snapshot(), self._engine.position)
        return engine

    @property
    def _remembered_factory(self) -> EngineOfTerm | None:
        """``engine_of_term``, which also makes the later engines be of the new term."""
        engine_of_term = self._engine_of_term
        if engine_of_term is None:
            return None

        def make_and_remember(began: records.TermBegan) -> Engine:
            self._make_engine = lambda: engine_of_term(began)
            return engine_of_term(began)

        return make_and_remember


def apply_stored(engine: Engine, stored: StoredRecord) -> None:
    """Applies a record. Raises CorruptLogError if it does not fit."""
    try:
        engine.apply(stored.logged)
    except (msgspec.MsgspecError, LookupError, AssertionError) as problem:
        raise CorruptLogError(stored.position, f"does not fit: {problem!r}") from problem
