"""``--recompute``: the vectors of a decision, recomputed from the log."""

import sys
import time
from pathlib import Path

import msgspec

from eventsched.cli.archive_options import StreamLog
from eventsched.cli.output.tables import counted
from eventsched.cli.replay import assembled, begun_assembly
from eventsched.domain.errors import InputError
from eventsched.domain.records import StreamStarted, TermBegan
from eventsched.domain.records.stimuli import in_force
from eventsched.domain.records.verdicts import Detail
from eventsched.eventlog.port import StoredSnapshot
from eventsched.eventlog.postgres.reader import Reader
from eventsched.history.replay.recomputation import recompute
from eventsched.runtime.log_start import last_start
from eventsched.runtime.snapshot_policy import engine_state
from eventsched.scheduling.engine import Engine

_UNUSABLE = (msgspec.MsgspecError, LookupError, ValueError, InputError)
"""What restoring a snapshot of another configuration or a damaged one raises."""


class VectorRecomputation:
    """Recomputes vectors of a log's decisions. With a ``reader`` of the database that the log is
    in, it begins with the newest snapshot or checkpoint before the decision; otherwise at the log's
    beginning."""

    def __init__(self, log: StreamLog, reader: Reader | None, plugins: list[Path]) -> None:
        self._log, self._reader, self._plugins = log, reader, plugins
        self._made: dict[int, Detail] = {}

    def detail(self, position: int) -> Detail:
        """The vectors of the decision at a position; says on stderr how they were made. Raises
        InputError if the decision comes out differently now, and CorruptLogError."""
        if position not in self._made:
            started = time.perf_counter()
            recomputed = recompute(self._log, position, self._engine_before, self._engine_of)
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
        return assembled(began, self._log.stream, self._plugins).engine()

    def _engine_before(self, position: int) -> Engine:
        before = position + 1
        while self._reader is not None and (snapshot := self._reader.snapshot(before)) is not None:
            engine = self._restored(self._reader, snapshot)
            if engine is not None:
                return engine
            before = snapshot.position
        return self._engine_at_start(position)

    def _engine_at_start(self, position: int) -> Engine:
        """An engine with the state of the last checkpoint, or for the log's first record."""
        log = self._log
        start = None if self._reader is None else last_start(self._reader, position)
        if start is None and isinstance(log, Reader) and log.begin:
            problem = f"the records before position {log.begin} were dropped"
            raise InputError("--recompute", problem, "add --from-archive FOLDER")
        engine = begun_assembly(log, log.stream, self._plugins, True, start).engine()
        if start is not None:
            engine.restore(start.state, start.position)
        return engine

    def _restored(self, reader: Reader, snapshot: StoredSnapshot) -> Engine | None:
        """An engine with the state of a snapshot, under the configuration in force there; None if
        the snapshot cannot be used."""
        body = engine_state(snapshot)
        if body is None or reader.hash_before(snapshot.position) != snapshot.hash:
            return None
        began = _in_force_at(reader, snapshot.position)
        try:
            engine = self._engine_of(began)
            engine.restore(body, snapshot.position)
        except _UNUSABLE:
            return None
        is_right = engine.state.digest() == snapshot.digest
        return engine if is_right and engine.state.in_force == in_force(began) else None


def _in_force_at(reader: Reader, position: int) -> StreamStarted | TermBegan:
    """The record that names the configuration in force at a position. Raises LookupError if there
    is none."""
    for first in reader.term_starts(position):
        if first < reader.begin:
            break
        record = next(reader.read(first)).record
        if isinstance(record, StreamStarted) or (isinstance(record, TermBegan) and record.engine):
            return record
    raise LookupError(f"no term began before {position}")
