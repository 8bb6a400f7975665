"""A live writer's way to its stream: connects when it must, and never guesses.

Used from one thread, which it blocks for at most some seconds a call. It repeats nothing by itself:
what has no known outcome is offered again, unchanged, by whoever called
(``runtime/leader/leader.py`` says when). Each new connection is held against the history that the
term began on: a term must not outlive a failover. Where the database hides its timeline, the head's
hash alone decides.
"""

import time
from typing import NamedTuple

import psycopg

from eventsched.eventlog.chain import Head, SealedBatch, Term
from eventsched.eventlog.log_errors import (
    HistoryChangedError,
    UnavailableError,
    UnknownOutcomeError,
)
from eventsched.eventlog.port import StoredSnapshot
from eventsched.eventlog.postgres.writer_connection import WriterConnection
from eventsched.eventlog.schema import migrations

ANSWER_LIMIT = 10.0
"""Seconds that an answer is waited for; of an append the outcome counts as unknown then."""


class AcquiredTerm(NamedTuple):
    """A term as the database has begun it: where the stream ended then, and the history that the
    database was on ("" where it hides that)."""

    term: Term
    head: Head
    history: str


class Session:
    """One stream's writer; at most one connection at a time."""

    def __init__(self, address: str, *, answer_limit: float = ANSWER_LIMIT) -> None:
        """Connects at the first call. ``answer_limit`` in seconds."""
        self._address, self._answer_limit = address, answer_limit
        self._holder = ""
        self._link: WriterConnection | None = None
        self._number = 0
        self._history = ""
        self.connections = 0
        """How many connections there have been."""

    def acquire(self, stream: str, holder: str) -> AcquiredTerm:
        """Begins a term. Raises UnavailableError, as RefusedError for what waiting does not mend;
        a term whose answer was lost is nobody's, the next one follows it."""
        self.close()
        self._holder = holder
        migrations.require(self._address)
        self._link = self._connected()
        try:
            self._history = self._link.history(self._answer_limit)
            self._number, term, head = self._link.acquire(stream, holder, self._answer_limit)
        except BaseException as problem:
            self.close()
            if isinstance(problem, psycopg.Error):
                raise migrations.unreachable(
                    self._address, str(problem).split("\n")[0]
                ) from problem
            raise
        return AcquiredTerm(term, head, self._history)

    def append(self, sealed: SealedBatch) -> None:
        """Commits a batch; one that is there already is committed.

        Raises FencedError, ConflictError and HistoryChangedError where the term is over,
        UnavailableError where the database is away or refuses (nothing was written), and
        UnknownOutcomeError: the identical batch is then to be offered again.
        """
        link = self._joined()
        try:
            link.send(self._number, sealed)
            link.answer(sealed, time.monotonic() + self._answer_limit)
        except (UnknownOutcomeError, psycopg.OperationalError) as problem:
            self.close()
            raise UnknownOutcomeError(str(problem).split("\n")[0]) from problem

    def renew(self, term: Term) -> None:
        """Says that the term's holder lives. Raises what ``append`` raises."""
        try:
            self._joined().renew(self._number, term, time.monotonic() + self._answer_limit)
        except UnknownOutcomeError:
            self.close()
            raise

    def keep(self, term: Term, snapshot: StoredSnapshot) -> None:
        """Stores a snapshot in place of older ones; that it is lost is no harm."""
        try:
            self._joined().keep(self._number, term, snapshot)
        except (UnavailableError, HistoryChangedError):
            self.close()  # the next batch finds out what is wrong

    def close(self) -> None:
        """Closes the connection. The session can be used on."""
        link, self._link = self._link, None
        if link is not None:
            link.close()

    def _connected(self) -> WriterConnection:
        self.connections += 1
        return WriterConnection(self._address, self._holder)

    def _joined(self) -> WriterConnection:
        """The connection, a new one where it was lost. Raises UnavailableError, and
        HistoryChangedError where it leads to another history than the term's."""
        if self._link is None:
            link = self._connected()
            try:
                history = link.history(self._answer_limit)
            except UnavailableError:
                link.close()
                raise
            if history and self._history and history != self._history:
                link.close()
                raise HistoryChangedError(
                    f"the database was on {self._history} (system/timeline) when the term began, "
                    f"and is on {history} now"
                )
            self._link = link
        return self._link
