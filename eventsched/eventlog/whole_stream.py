"""A stream that is written as a whole: its batches are kept in a temporary file until all are
there, and are then loaded into a database in one transaction.

Whatever ends the process before that leaves nothing in the database. The transaction is short
compared with the computation, so other writers, who may have to wait for it when they need a new
partition, do not wait for long.
"""

import pickle
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, Any
from uuid import UUID, uuid4

import psycopg

from eventsched import __version__
from eventsched.domain.errors import InputError, UnavailableError
from eventsched.eventlog import vectors
from eventsched.eventlog.addresses import NOTICES, libpq_url, shown
from eventsched.eventlog.chain import ChainWriter, Head, SealedBatch, Term, genesis
from eventsched.eventlog.port import Batch, StoredSnapshot
from eventsched.eventlog.postgres.batch_loader import BatchLoader
from eventsched.eventlog.postgres.stored_batch import StoredBatch
from eventsched.eventlog.schema import migrations

SESSION = (
    "SET synchronous_commit = on; SET statement_timeout = 0;"
    " SET idle_in_transaction_session_timeout = 0"
)
EXISTS = "SELECT FROM eventsched_log.stream WHERE name = %s"
ACQUIRE = "SELECT stream, epoch, next FROM eventsched_log.acquire(%s, %s, %s, %s)"
KEEP = "SELECT eventsched_log.keep_snapshot(%s, %s, %s, %s, %s, %s, %s, %s)"
LoadProgress = Callable[[int, int], None]
"""Called with the records that were loaded, and how many there are."""


class StreamCopy:
    """A stream that is written into a database again, with the terms, times and hashes that it had:
    what copies it calls ``begin`` and ``append`` in the order of the log, and ``flush`` at last."""

    def __init__(self, connection: psycopg.Connection[Any], stream: str, holder: str) -> None:
        """The connection is in a transaction. ``holder`` is shown as the writer of the stream."""
        self._connection, self._stream, self._holder = connection, stream, holder
        self._number = 0
        self._hash = genesis(stream)
        self._loader = BatchLoader(connection)
        self.term = Term(stream, 0, b"")
        """The last term that began."""

    @property
    def number(self) -> int:
        """The stream's number in the database; 0 before its first term."""
        return self._number

    def begin(self, epoch: int, token: bytes, first: int) -> None:
        """Begins a term. Raises ValueError, which says why, if it is not the one that follows, and
        psycopg.Error as ``flush`` does."""
        self.flush()
        values = (self._stream, UUID(bytes=token), self._holder, __version__)
        row = self._connection.execute(ACQUIRE, values).fetchone()
        assert row is not None
        if tuple(row[1:]) != (epoch, first):
            found = f"lists term {epoch} at position {first}, expected {row[1]} at {row[2]}"
            raise ValueError(found)
        self._number, self.term = row[0], Term(self._stream, epoch, token)

    def append(self, batch: StoredBatch, details: list[tuple[Any, ...]]) -> None:
        """Adds a batch, and the vectors of its decisions: position, base, bytes. Raises
        psycopg.Error as ``flush`` does."""
        term = self.term._replace(epoch=batch.epoch)
        self._loader.add(self._number, term, batch, self._hash, details)
        self._hash = batch.hash

    def flush(self) -> None:
        """Appends what was added. Raises psycopg.Error with a code that begins with ES if the hash
        or the term of a batch is another one."""
        self._loader.flush()

    def keep(self, snapshot: StoredSnapshot) -> None:
        """Stores a snapshot of the state after the last batch. Raises psycopg.Error as ``flush``
        does."""
        self.flush()
        self._connection.execute(KEEP, _snapshot_values(self._number, self.term, snapshot))


class WholeStream(ChainWriter):
    """A new stream until it is committed. ``close`` gives up what was not committed."""

    def __init__(
        self, stream: str, holder: str, clock: Callable[[], int] = lambda: time.time_ns() // 1000
    ) -> None:
        """``holder`` is shown as the writer of the stream. ``clock`` returns the wall-clock time
        (µs) stored with each batch."""
        super().__init__(Term(stream, 0, b""), Head(0, genesis(stream)), clock)
        self._holder = holder
        self._file: IO[bytes] = tempfile.TemporaryFile(prefix="eventsched-")  # noqa: SIM115
        self.begin_term()

    def begin_term(self) -> None:
        """Begins a term at the head."""
        self._term = Term(self.stream, self._term.epoch + 1, uuid4().bytes)
        self._keep(self._term)

    def append(self, batch: Batch) -> None:
        """Adds a batch. Raises ValueError and ConflictError as ``EventLog.begin`` does, and
        UnavailableError if there is no room for the file."""
        self._keep(self._extend(batch))

    def keep(self, snapshot: StoredSnapshot) -> None:
        """Adds a snapshot of the state after the last batch. Raises UnavailableError as ``append``
        does."""
        self._keep(snapshot)

    def close(self) -> None:
        """Removes the file."""
        self._file.close()

    def commit(self, address: str, progress: LoadProgress = lambda loaded, total: None) -> None:
        """Writes all of it to a database. Raises InputError if the database has the stream, and
        UnavailableError; nothing was written then."""
        with new_stream_transaction(address, self.stream) as connection:
            self._file.seek(0)
            number, term, loader = 0, self._term, BatchLoader(connection)
            while (kept := self._next()) is not None:
                if isinstance(kept, SealedBatch):
                    loader.add(number, kept.term, *_parts(kept))
                    progress(kept.head.next, self.head)
                    continue
                loader.flush()
                if isinstance(kept, Term):
                    number, term = _acquired(connection, kept, self._holder), kept
                else:
                    connection.execute(KEEP, _snapshot_values(number, term, kept))
            loader.flush()

    def _keep(self, kept: Term | SealedBatch | StoredSnapshot) -> None:
        try:
            pickle.dump(kept, self._file)
        except OSError as problem:
            raise UnavailableError(
                f"a temporary file in {tempfile.gettempdir()}",
                f"cannot be written: {problem.strerror or problem}",
                "set $TMPDIR to a folder with more room",
            ) from problem

    def _next(self) -> Term | SealedBatch | StoredSnapshot | None:
        try:
            kept: Term | SealedBatch | StoredSnapshot = pickle.load(self._file)
        except EOFError:
            return None
        return kept


def require_new(address: str, stream: str, holder: str) -> None:
    """Raises InputError if a database has a stream already, and UnavailableError if the user of the
    address may not write it, which names the right that is missing."""
    migrations.require(address)
    with new_stream_transaction(address, stream) as connection:
        _acquired(connection, Term(stream, 1, uuid4().bytes), holder)
        connection.rollback()


@contextmanager
def new_stream_transaction(address: str, stream: str) -> Iterator[psycopg.Connection[Any]]:
    """A transaction in a database that does not have the stream. Raises InputError if it has it,
    and UnavailableError."""
    try:
        with psycopg.connect(libpq_url(address), **NOTICES) as connection:
            connection.execute(SESSION)
            if connection.execute(EXISTS, (stream,)).fetchone() is not None:
                raise InputError(
                    f"stream {stream}", "is in the database already", "name another stream"
                )
            yield connection
    except psycopg.errors.InsufficientPrivilege as problem:
        remedy = problem.diag.message_hint or "GRANT eventsched_writer to this user"
        raise UnavailableError(shown(address), _first_line(problem), remedy) from problem
    except psycopg.Error as problem:
        remedy = "nothing was written; repair the database and run the command again"
        raise UnavailableError(shown(address), _first_line(problem), remedy) from problem


def _acquired(connection: psycopg.Connection[Any], term: Term, holder: str) -> int:
    """Begins a term in the database. Returns the stream's number."""
    values = (term.stream, UUID(bytes=term.token), holder, __version__)
    row = connection.execute(ACQUIRE, values).fetchone()
    assert row is not None
    if row[1] != term.epoch:
        raise InputError(
            f"stream {term.stream}", "is written by another process", "name another stream"
        )
    return int(row[0])


def _snapshot_values(number: int, term: Term, snapshot: StoredSnapshot) -> tuple[Any, ...]:
    return (
        number, term.epoch, UUID(bytes=term.token), snapshot.position, snapshot.hash,
        snapshot.digest, snapshot.version, snapshot.body,
    )  # fmt: skip


def _parts(sealed: SealedBatch) -> tuple[StoredBatch, bytes, list[tuple[Any, ...]]]:
    """The batch as it is stored, the hash of the one before, and its vectors."""
    batch = StoredBatch(
        sealed.first, sealed.count, sealed.term.epoch, sealed.written_at, sealed.mark.decode(),
        sealed.hash, sealed.body.decode(),
    )  # fmt: skip
    details = sealed.details.items()
    return batch, sealed.previous, [(at, each.base, vectors.pack(each)) for at, each in details]


def _first_line(problem: psycopg.Error) -> str:
    return (str(problem).strip().splitlines() or [type(problem).__name__])[0]
