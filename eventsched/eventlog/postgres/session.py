"""A live writer's session with its stream; it connects on demand.

It is used from one thread. Each call blocks for at most some seconds. It never repeats a call: if
an outcome is unknown, the caller sends the identical batch again (``runtime/leader/leader.py``
decides when). Each new connection is checked against the history on which the term began, because a
term must not outlive a failover. If the database hides its timeline, only the copy of the log and
the head's hash are checked.
"""

import time
from typing import NamedTuple

import psycopg

from eventsched.domain.errors import UnavailableError
from eventsched.eventlog.address_file import Address, for_login
from eventsched.eventlog.chain import Head, SealedBatch, Term
from eventsched.eventlog.log_errors import HistoryChangedError, UnknownOutcomeError
from eventsched.eventlog.port import StoredSnapshot
from eventsched.eventlog.postgres.writer_connection import WriterConnection
from eventsched.eventlog.schema import migrations

ANSWER_LIMIT = 10.0
"""Seconds to wait for an answer; after that the outcome of an append is unknown."""


class AcquiredTerm(NamedTuple):
    """A new term, the stream's head when it began, the identity of the database, and the revision
    of its schema."""

    term: Term
    head: Head
    database_identity: str
    schema: str


class Session:
    """Writes one stream, over at most one connection at a time."""

    def __init__(self, address: Address, *, answer_limit: float = ANSWER_LIMIT) -> None:
        """Connects at the first call. ``answer_limit`` in seconds."""
        self._address, self._answer_limit = address, answer_limit
        self._holder = ""
        self._connection: WriterConnection | None = None
        self._number = 0
        self._database_identity = ""
        self.connections = 0
        """Connections opened so far."""

    def acquire(self, stream: str, holder: str) -> AcquiredTerm:
        """Begins a term. Raises UnavailableError; if waiting would not help, its subclass
        DatabaseRefusedError. If the answer is lost, the database may have begun a term that no
        writer uses. Call again: that begins another term."""
        self.close()
        self._holder = holder
        with for_login(self._address) as address:
            migrations.require(address)
        self._connection = self._connect()
        try:
            self._database_identity = self._connection.database_identity(self._answer_limit)
            self._number, term, head = self._connection.acquire(stream, holder, self._answer_limit)
            schema = self._connection.schema_revision(self._answer_limit)
        except BaseException as problem:
            self.close()
            if isinstance(problem, psycopg.Error):
                with for_login(self._address) as address:
                    raise migrations.unreachable(address, str(problem).split("\n")[0]) from problem
            raise
        return AcquiredTerm(term, head, self._database_identity, schema)

    def append(self, sealed: SealedBatch) -> None:
        """Commits a batch. A batch that is already in the log counts as committed.

        Raises FencedError, ConflictError or HistoryChangedError if the term is over;
        UnavailableError if the database is unreachable or refuses (nothing was written);
        UnknownOutcomeError if the identical batch has to be sent again.
        """
        connection = self._require_connection()
        try:
            connection.send(self._number, sealed)
            connection.answer(sealed, time.monotonic() + self._answer_limit)
        except (UnknownOutcomeError, psycopg.OperationalError) as problem:
            self.close()
            raise UnknownOutcomeError(str(problem).split("\n")[0]) from problem

    def renew(self, term: Term) -> None:
        """Renews the term in the database: its holder is alive. Raises what ``append`` raises."""
        try:
            self._require_connection().renew(
                self._number, term, time.monotonic() + self._answer_limit
            )
        except UnknownOutcomeError:
            self.close()
            raise

    def store_snapshot(self, term: Term, snapshot: StoredSnapshot) -> None:
        """Stores a snapshot in place of older ones. Losing it does no harm."""
        try:
            self._require_connection().store_snapshot(self._number, term, snapshot)
        except (UnavailableError, HistoryChangedError):
            self.close()  # the next batch reports the problem

    def close(self) -> None:
        """Closes the connection. The session remains usable."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _connect(self) -> WriterConnection:
        self.connections += 1
        with for_login(self._address) as address:
            return WriterConnection(address, self._holder)

    def _require_connection(self) -> WriterConnection:
        """The connection, a new one if it was lost. Raises UnavailableError, and
        HistoryChangedError if the database is on another history than the term's."""
        if self._connection is None:
            connection = self._connect()
            try:
                identity = connection.database_identity(self._answer_limit)
            except UnavailableError:
                connection.close()
                raise
            if identity and self._database_identity and identity != self._database_identity:
                connection.close()
                raise HistoryChangedError(
                    f"the database was on {self._database_identity} (system/timeline/copy) when "
                    f"the term began, and is on {identity} now"
                )
            self._connection = connection
        return self._connection
