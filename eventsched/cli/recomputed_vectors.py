"""``--recompute``: the vectors of a decision, recomputed from the log."""

import sys
import time
from pathlib import Path

import msgspec

from eventsched.domain.errors import InputError
from eventsched.domain.records import StreamStarted, TermBegan
from eventsched.domain.records.stimuli import in_force
from eventsched.domain.records.verdicts import Detail
from eventsched.eventlog.postgres.reader import Reader
from eventsched.history.replay.recomputation import recompute
from eventsched.output.terminal.tables import counted
from eventsched.questions.past.open_log import StreamLog
from eventsched.runtime.queries.logged_assembly import assembled, begun_assembly
from eventsched.runtime.queries.state_at import StoredState, opening_at, stored_states
from eventsched.scheduling.engine import Engine

_UNUSABLE = (msgspec.MsgspecError, LookupError, ValueError, InputError)
"""What restoring a snapshot of another configuration or a damaged one raises."""


class VectorRecomputation:
    """Recomputes vectors of a log's decisions. With a ``reader`` of the database that the log is
    in, it begins with the newest snapshot or checkpoint before the decision; otherwise at the log's
    beginning."""

    def __init__(self, log: StreamLog, reader: Reader | None, plugins: list[Path]) -> None:
        self.log, self.reader, self.plugins = log, reader, plugins
        self._made: dict[int, Detail] = {}

    def detail(self, position: int) -> Detail:
        """The vectors of the decision at a position; says on stderr how they were made. Raises
        InputError if the decision comes out differently now, and CorruptLogError."""
        if position not in self._made:
            started = time.perf_counter()
            recomputed = recompute(self.log, position, self._engine_before, self._engine_of)
            seconds = time.perf_counter() - started
            print(
                f"position {position} was decided again, with the same digest: "
                f"{counted(recomputed.applied, 'record')} applied from position "
                f"{recomputed.first} on, {seconds:.2f} s",
                file=sys.stderr,
            )
            self._made.update(recomputed.details)
        return self._made[position]

    def _engine_of(self, began: StreamStarted | TermBegan) -> Engine:
        return assembled(began, self.log.stream, self.plugins).engine()

    def _engine_before(self, position: int) -> Engine:
        """An engine with the newest stored state before a position, or for the first record."""
        reader, log = self.reader, self.log
        for stored in () if reader is None else stored_states(reader, position):
            assert reader is not None
            if (engine := self._restored(reader, stored)) is not None:
                return engine
        if isinstance(log, Reader) and log.begin:
            problem = f"the records before position {log.begin} were dropped"
            raise InputError("--recompute", problem, "add --from-archive FOLDER")
        return begun_assembly(log, log.stream, self.plugins, True, None).engine()

    def _restored(self, reader: Reader, stored: StoredState) -> Engine | None:
        """An engine with a stored state, under the configuration in force there; None if the state
        cannot be used."""
        try:
            began = opening_at(reader, stored.position)
            engine = self._engine_of(began)
            engine.restore(stored.body, stored.position)
        except _UNUSABLE:
            return None
        is_right = engine.state.digest() == stored.digest
        return engine if is_right and engine.state.in_force == in_force(began) else None
