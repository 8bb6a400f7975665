"""The log in Postgres, as its one writer sees it: fenced, idempotent, one round trip a batch.

The append is sent and its answer awaited later (``begin``, ``finish``), so that the next batch is
computed while one commits. What is said to the database is in writer_connection.py.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import suppress

import psycopg

from eventsched.domain.records.verdicts import Detail
from eventsched.eventlog import chain
from eventsched.eventlog.addresses import shown
from eventsched.eventlog.chain import SealedBatch, Term
from eventsched.eventlog.log_errors import (
    ConflictError,
    NotDurableError,
    UnavailableError,
    UnknownOutcomeError,
)
from eventsched.eventlog.port import Batch, LogSize, Stored, StoredSnapshot
from eventsched.eventlog.postgres.reader import Reader
from eventsched.eventlog.postgres.writer_connection import WriterConnection
from eventsched.eventlog.schema import migrations

PATIENCE = 30.0
"""Seconds that a batch is offered again to a database that does not answer."""


class PostgresEventLog:
    """The EventLog port over a stream in Postgres; a new epoch begins when it is opened."""

    def __init__(
        self,
        address: str,
        stream: str,
        holder: str = "eventsched",
        *,
        patience: float = PATIENCE,
        clock: Callable[[], int] = lambda: time.time_ns() // 1000,
    ) -> None:
        """``clock`` gives the wall clock (µs) that batches are stamped with. Raises
        UnavailableError where the database is away or its schema is not ours."""
        self._address, self._holder, self._patience, self._clock = address, holder, patience, clock
        self._under_way: SealedBatch | None = None
        self._link = WriterConnection(address, holder)
        try:
            migrations.require(address)
            self._number, self._term, self._head = self._link.acquire(stream, holder)
            self._reader = Reader(address, stream)
        except BaseException:
            self._link.close()
            raise

    @property
    def stream(self) -> str:
        """The stream's name."""
        return self._term.stream

    @property
    def term(self) -> Term:
        """This writer's reign."""
        return self._term

    @property
    def epoch(self) -> int:
        """The number of this writer's reign."""
        return self._term.epoch

    @property
    def head(self) -> int:
        """The position of the next record; a batch that was begun counts."""
        return self._head.next

    @property
    def head_hash(self) -> bytes:
        """The hash of the last batch."""
        return self._head.hash

    @property
    def reader(self) -> Reader:
        """The committed log, to be read."""
        return self._reader

    def begin(self, batch: Batch) -> None:
        """Sends a batch; see the port."""
        assert self._under_way is None
        sealed = chain.seal(batch, self._term, self._head, self._clock())
        if batch.first != self._head.next:
            raise ConflictError(batch.first, self._head.next)
        self._under_way, self._head = sealed, sealed.head
        with suppress(psycopg.OperationalError):  # finish() offers it again
            self._link.send(self._number, sealed)

    def finish(self) -> None:
        """Waits for the batch under way; offers it again, unchanged, while its fate is unknown."""
        if self._under_way is None:
            return
        sealed = self._under_way
        deadline = time.monotonic() + self._patience
        pause = 0.02
        while True:
            try:
                self._link.answer(sealed, min(deadline, time.monotonic() + self._patience / 4))
                break
            except NotDurableError as problem:
                raise UnavailableError(
                    shown(self._address),
                    str(problem),
                    "mend replication and start again: the log decides what happened",
                ) from problem
            except (UnknownOutcomeError, psycopg.OperationalError) as problem:
                if time.monotonic() > deadline:
                    raise self._gone(problem) from problem
                time.sleep(pause)
                pause = min(pause * 2, 1.0)
                self._offer_again(sealed)
        self._under_way = None

    def read(self, first: int = 0) -> Iterator[Stored]:
        """The committed records from a position on."""
        return self._reader.read(first)

    def detail(self, position: int) -> Detail | None:
        """The vectors of a decision, whole."""
        return self._reader.detail(position)

    def usage(self) -> LogSize:
        """What the database takes on disk."""
        return self._reader.usage()

    def renew(self) -> None:
        """Makes sure that nobody has taken over. Raises FencedError."""
        self._link.renew(self._number, self._term, time.monotonic() + self._patience)

    def keep(self, snapshot: StoredSnapshot) -> None:
        """Stores a snapshot in place of older ones. It is a cache: losing it loses time only."""
        self._link.keep(self._number, self._term, snapshot)

    def close(self) -> None:
        """Closes the connections; what was begun and not finished may be committed or not."""
        self._link.close()

    def _offer_again(self, sealed: SealedBatch) -> None:
        self._link.close()
        # Still away: the next answer says so, until patience is over.
        with suppress(UnavailableError):
            self._link = WriterConnection(self._address, self._holder)
            self._link.send(self._number, sealed)

    def _gone(self, problem: Exception) -> UnavailableError:
        return UnavailableError(
            shown(self._address),
            f"no answer for {self._patience:g} s ({str(problem).splitlines()[0]})",
            "start it and run the same command again: it goes on from the log",
        )
