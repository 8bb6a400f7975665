"""The log in Postgres for its only writer: fenced, idempotent, one round trip per batch.

``begin`` sends a batch and ``finish`` waits for the answer, so that the next batch is computed
while one commits. writer_connection.py makes the calls to the database.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import suppress

import psycopg

from eventsched.domain.errors import UnavailableError
from eventsched.domain.records.verdicts import Detail
from eventsched.eventlog.addresses import shown
from eventsched.eventlog.chain import ChainWriter, SealedBatch, Term
from eventsched.eventlog.log_errors import NotDurableError, UnknownOutcomeError
from eventsched.eventlog.port import Batch, LogSize, StoredRecord, StoredSnapshot
from eventsched.eventlog.postgres.reader import Reader
from eventsched.eventlog.postgres.writer_connection import WriterConnection
from eventsched.eventlog.schema import migrations

_PAUSE = 0.2
"""Seconds between two attempts to read."""
RESEND_SECONDS = 30.0
"""Seconds for which a batch is sent again to a database that does not answer."""


class PostgresEventLog(ChainWriter):
    """The EventLog port over a stream in Postgres. Opening it begins a new epoch."""

    def __init__(
        self,
        address: str,
        stream: str,
        holder: str = "eventsched",
        *,
        patience: float = RESEND_SECONDS,
        clock: Callable[[], int] = lambda: time.time_ns() // 1000,
    ) -> None:
        """``clock`` returns the wall-clock time (µs) stored with each batch. Raises
        UnavailableError if the database is unreachable or its schema is not this version's."""
        self._address, self._holder, self._patience = address, holder, patience
        self._in_flight: SealedBatch | None = None
        self._connection = WriterConnection(address, holder)
        try:
            migrations.require(address)
            self._number, term, head = self._connection.acquire(stream, holder)
            self._reader = Reader(address, stream)
        except BaseException:
            self._connection.close()
            raise
        super().__init__(term, head, clock)

    @property
    def term(self) -> Term:
        """This writer's term."""
        return self._term

    @property
    def epoch(self) -> int:
        """The number of this writer's epoch."""
        return self._term.epoch

    @property
    def reader(self) -> Reader:
        """A reader of the committed log."""
        return self._reader

    def begin(self, batch: Batch) -> None:
        """Sends a batch; see the port."""
        assert self._in_flight is None
        self._in_flight = sealed = self._extend(batch)
        with suppress(psycopg.OperationalError):  # finish() sends it again
            self._connection.send(self._number, sealed)

    def answered(self) -> bool:
        """Whether ``finish`` would not wait; see the port."""
        if self._in_flight is None:
            return True
        try:
            return self._connection.has_answer()
        except psycopg.OperationalError:
            return True  # finish() sends the batch again

    def finish(self) -> None:
        """Waits for the batch in flight; sends it again, unchanged, while its outcome is
        unknown. Raises as the port says, and UnavailableError after ``patience`` seconds."""
        if self._in_flight is None:
            return
        sealed = self._in_flight
        deadline = time.monotonic() + self._patience
        pause = 0.02
        while True:
            try:
                attempt_deadline = min(deadline, time.monotonic() + self._patience / 4)
                self._connection.answer(sealed, attempt_deadline)
                break
            except NotDurableError as problem:
                raise UnavailableError(
                    shown(self._address),
                    str(problem),
                    "repair the replication and start again: the log then shows what happened",
                ) from problem
            except (UnknownOutcomeError, psycopg.OperationalError) as problem:
                if time.monotonic() > deadline:
                    raise self._no_answer(problem) from problem
                time.sleep(pause)
                pause = min(pause * 2, 1.0)
                self._send_again(sealed)
        self._in_flight = None

    def read(self, first: int = 0) -> Iterator[StoredRecord]:
        """The committed records from a position on."""
        return self._reader.read(first)

    def detail(self, position: int) -> Detail | None:
        """The vectors of a decision, with deltas expanded."""
        return self._reader.detail(position)

    def usage(self) -> LogSize:
        """What the database takes on disk. Waits for an unreachable database, as ``finish``
        does."""
        deadline = time.monotonic() + self._patience
        while True:
            try:
                return self._reader.usage()
            except UnavailableError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(_PAUSE)

    def renew(self) -> None:
        """Checks that no other writer has taken over. Raises FencedError."""
        self._connection.renew(self._number, self._term, time.monotonic() + self._patience)

    def store_snapshot(self, snapshot: StoredSnapshot) -> None:
        """Stores a snapshot in place of older ones. Snapshots are a cache: losing one costs time
        only."""
        self._connection.store_snapshot(self._number, self._term, snapshot)

    def close(self) -> None:
        """Closes the connection. A batch in flight may or may not be committed."""
        self._connection.close()

    def _send_again(self, sealed: SealedBatch) -> None:
        self._connection.close()
        # If the database is still unreachable, finish() tries again until the deadline.
        with suppress(UnavailableError):
            self._connection = WriterConnection(self._address, self._holder)
            self._connection.send(self._number, sealed)

    def _no_answer(self, problem: Exception) -> UnavailableError:
        return UnavailableError(
            shown(self._address),
            f"no answer for {self._patience:g} s ({str(problem).splitlines()[0]})",
            "start the database and run the same command again: it continues from the log",
        )
