"""Loads an archive or an exported log into a database, so that every question can be asked about it
that is asked about a scheduler's own database.

All rows are derived from the records again. On the way the state is folded, and snapshots of it are
stored: files have none, and a state of the past would be folded from the first record.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
import psycopg

from eventsched.domain.errors import InputError
from eventsched.domain.state.scheduler_state import SchedulerState
from eventsched.eventlog.log_errors import CorruptLogError
from eventsched.eventlog.postgres.stored_batch import StoredBatch
from eventsched.eventlog.schema import migrations
from eventsched.eventlog.whole_stream import LoadProgress, StreamCopy, new_stream_transaction
from eventsched.history.verify.verified_log import DamagedError, Epoch, Log
from eventsched.runtime import gc_tuning
from eventsched.runtime.snapshot_policy import snapshot_distance, snapshot_of

_HOLDER = "loaded"
_MISFITS = (
    msgspec.MsgspecError, LookupError, AssertionError, ArithmeticError, AttributeError, TypeError,
    ValueError,
)  # fmt: skip
"""What a record raises that does not fit the state: one that was altered may hold anything."""
_RESTORE = "`eventsched verify` says more; restore the file from a copy"


def load_log(
    address: str, log: Log, where: str, progress: LoadProgress = lambda loaded, total: None
) -> int:
    """Loads a whole log, which messages call ``where``, in one transaction. Returns the number of
    its records. ``address`` is that of a writer.

    Raises InputError if the database has the stream, or the log was altered; CorruptLogError for
    records that do not fit; and UnavailableError. Nothing was written then."""
    migrations.require(address)
    total = 0 if log.head is None else log.head.next
    try:
        with gc_tuning.paused(), new_stream_transaction(address, log.stream) as connection:
            loading = _Loading(StreamCopy(connection, log.stream, _HOLDER))
            for batch in _batches(log, loading.copy):
                loading.take(
                    batch, [tuple(each) for each in log.details(batch.first + batch.count)]
                )
                progress(loading.state.position, total)
            loading.finish()
    except _AlteredError as altered:
        raise InputError(where, f"was altered: {altered}", _RESTORE) from altered
    except DamagedError as problem:
        raise InputError(where, str(problem), _RESTORE) from problem
    return total


class _AlteredError(Exception):
    """A batch or a term does not follow what came before it."""


def _batches(log: Log, copy: StreamCopy) -> Iterator[StoredBatch]:
    """The batches of a log, after the terms in which they were written have begun in the copy."""
    terms = list(log.epochs)
    for batch in log.batches():
        while terms and terms[0].first <= batch.first:
            _begin(copy, terms.pop(0))
        yield StoredBatch(
            batch.first, batch.count, batch.epoch, batch.written_at, batch.mark.decode(),
            batch.hash, batch.body.decode(),
        )  # fmt: skip
    for term in terms:
        _begin(copy, term)


def _begin(copy: StreamCopy, term: Epoch) -> None:
    try:
        with _altered():
            copy.begin(*term)
    except ValueError as problem:
        raise _AlteredError(f"it {problem}") from problem


class _Loading:
    """The loading of one stream: its copy in the database, and the state so far."""

    def __init__(self, copy: StreamCopy) -> None:
        self.copy = copy
        self.state = SchedulerState()
        self._stored = 0

    def take(self, batch: StoredBatch, details: list[tuple[object, ...]]) -> None:
        """Appends a batch, applies its records, and stores a snapshot if one is due."""
        with _altered():
            self.copy.append(batch, details)
        for stored in batch.records:
            try:
                self.state.apply(stored.record, stored.at)
            except _MISFITS as problem:
                self.finish()  # refuses a batch that was altered, which says more
                reason = f"does not fit: {problem!r}"
                raise CorruptLogError(stored.position, reason) from problem
        if self.state.position >= self._stored + snapshot_distance(len(self.state.pods)):
            self._stored = self.state.position
            with _altered():
                self.copy.keep(snapshot_of(self.state, batch.hash))

    def finish(self) -> None:
        """Appends the last batches."""
        with _altered():
            self.copy.flush()


@contextmanager
def _altered() -> Iterator[None]:
    """Raises _AlteredError if the database refuses a batch because of its hash or its term."""
    try:
        yield
    except psycopg.Error as problem:
        if not (problem.sqlstate or "").startswith("ES"):
            raise
        raise _AlteredError(str(problem).splitlines()[0]) from problem
