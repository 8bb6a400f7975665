"""A writer's connection to its stream: the calls to the database, and what its answers mean.

``PostgresEventLog`` (writer.py) and ``Session`` (session.py) use it; they decide when to reconnect
and what to send. The SQL functions are in migrations/sql/0001_append.sql. An append is sent, and
its answer awaited later, by libpq's asynchronous calls (psycopg.pq) in one thread without an event
loop.
"""

import os
import select
import socket
import struct
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import LiteralString
from uuid import UUID, uuid4

import psycopg
from psycopg import pq

from eventsched import __version__
from eventsched.domain.errors import UnavailableError
from eventsched.eventlog import vectors
from eventsched.eventlog.addresses import NOTICES, libpq_url, shown
from eventsched.eventlog.chain import Head, SealedBatch, Term
from eventsched.eventlog.log_errors import (
    ConflictError,
    DatabaseRefusedError,
    FencedError,
    HistoryChangedError,
    NotDurableError,
    UnknownOutcomeError,
)
from eventsched.eventlog.port import StoredSnapshot
from eventsched.eventlog.schema import migrations

_APPEND = b"SELECT eventsched_log.append($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12,$13)"
_RENEW = b"SELECT eventsched_log.renew($1,$2,$3)"
_INT4, _INT8, _BYTEA, _JSON, _UUID = 23, 20, 17, 114, 2950
_INT8S, _BYTEAS = 1016, 1001
_TYPES = (_INT4, _INT4, _UUID, _INT8, _INT4, _INT8, _JSON, _BYTEA, _BYTEA, _JSON,
          _INT8S, _INT8S, _BYTEAS)  # fmt: skip
_FORMATS = (0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 1, 1, 1)
_NOT_DURABLE = "01000"
"""The SQLSTATE of the warning when a COMMIT's wait for a synchronous standby was cancelled: the
batch is committed but not durable."""
_SESSION = (
    "SET synchronous_commit = on; SET lock_timeout = '10s';"
    " SET idle_in_transaction_session_timeout = '5s'"
)
_HISTORY = (
    "SELECT (pg_control_system()).system_identifier || '/'"
    " || ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::integer"
)
"""The control file shows a new timeline only some time after a failover, the WAL at once."""
_COPY = (
    "SELECT d.oid || '.' || c.oid"
    " || coalesce('.' || left(md5(substring("
    "shobj_description(d.oid, 'pg_database') FROM 'eventsched: restored .*')), 8), '')"
    " FROM pg_database d, pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
    " WHERE d.datname = current_database()"
    " AND n.nspname = 'eventsched_log' AND c.relname = 'head'"
)
"""A restored dump has new tables, and a copied database a new number, even on the same server. An
operator who has put back a disk says so in the database's comment."""
_HIDDEN_SYSTEM = "hidden"
CALL_LIMIT = 30.0
"""Seconds for calls other than appends; a snapshot may be large."""
_HIDDEN = (
    psycopg.errors.InsufficientPrivilege,
    psycopg.errors.UndefinedFunction,
    psycopg.errors.FeatureNotSupported,
)


def connect(address: str, name: str) -> psycopg.Connection:
    """A connection in autocommit mode with ``name`` as application_name. Raises UnavailableError,
    as DatabaseRefusedError if waiting would not help."""
    try:
        return psycopg.connect(
            libpq_url(address),
            autocommit=True,
            application_name=name[:63],
            **NOTICES,
        )
    except (psycopg.OperationalError, psycopg.ProgrammingError) as problem:
        raise migrations.unreachable(address, _first_line(problem)) from problem


@contextmanager
def limited(connection: psycopg.Connection, seconds: float) -> Iterator[None]:
    """Breaks the connection if the block takes longer: a call that waits for the server then raises
    psycopg.OperationalError. A server may hold a connection open and never answer."""
    timer = threading.Timer(seconds, _shut_down, [connection])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _shut_down(connection: psycopg.Connection) -> None:
    with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(connection.fileno())) as end:
        end.shutdown(socket.SHUT_RDWR)


class WriterConnection:
    """One connection, used by one thread. It does not reconnect: its user opens a new one."""

    def __init__(self, address: str, holder: str) -> None:
        """Connects. ``holder`` is shown in the server's list of sessions. Raises UnavailableError,
        as DatabaseRefusedError if waiting would not help."""
        self._address = address
        self._connection = connect(address, f"eventsched {holder}")
        try:
            self._connection.execute(_SESSION)
        except psycopg.Error as problem:
            self._connection.close()
            raise migrations.unreachable(address, _first_line(problem)) from problem

    def acquire(
        self, stream: str, holder: str, limit: float = CALL_LIMIT
    ) -> tuple[int, Term, Head]:
        """Begins an epoch with a new token. Returns the stream's number, the term and the head.
        Raises DatabaseRefusedError if the user lacks the privilege, and psycopg.Error otherwise,
        also if the call takes longer than ``limit`` (s)."""
        token = uuid4()
        try:
            with limited(self._connection, limit):
                row = self._connection.execute(
                    "SELECT stream, epoch, next, hash FROM eventsched_log.acquire(%s, %s, %s, %s)",
                    (stream, token, holder, __version__),
                ).fetchone()
        except psycopg.errors.InsufficientPrivilege as problem:
            remedy = problem.diag.message_hint or "GRANT eventsched_writer to this user"
            raise DatabaseRefusedError(
                shown(self._address), _first_line(problem), remedy
            ) from problem
        assert row is not None
        return row[0], Term(stream, row[1], token.bytes), Head(row[2], bytes(row[3]))

    def schema_revision(self, limit: float = CALL_LIMIT) -> str:
        """The schema's revision. Raises psycopg.Error, also if the call takes longer than ``limit``
        (s)."""
        with limited(self._connection, limit):
            row = self._connection.execute(
                "SELECT version_num FROM eventsched_log.migration"
            ).fetchone()
        return "" if row is None else row[0]

    def database_identity(self, limit: float = CALL_LIMIT) -> str:
        """The identity of the database and its history, as ``system identifier/timeline/copy``, or
        ``hidden/copy`` if the database hides the first two; it differs after a failover or a
        restore. Raises UnavailableError if the database is read-only, such as a standby, or does
        not answer within ``limit`` (s)."""
        try:
            with limited(self._connection, limit):
                try:
                    server = self._scalar(_HISTORY)
                except _HIDDEN:
                    server = _HIDDEN_SYSTEM
                return f"{server}/{self._scalar(_COPY)}"
        except psycopg.Error as problem:
            raise UnavailableError(
                shown(self._address), _first_line(problem), "connect to the primary"
            ) from problem

    def _scalar(self, query: LiteralString) -> object:
        row = self._connection.execute(query).fetchone()
        return None if row is None else row[0]

    def renew(self, number: int, term: Term, deadline: float) -> None:
        """Renews the term in the database: its holder is alive. Waits for the answer as
        ``answer`` does. Raises FencedError, UnknownOutcomeError and UnavailableError."""
        values = [b"%d" % number, b"%d" % term.epoch, str(UUID(bytes=term.token)).encode()]
        try:
            self._connection.pgconn.send_query_params(_RENEW, values, _TYPES[:3])
            self._await_results(term, 0, deadline)
        except psycopg.OperationalError as problem:
            raise UnknownOutcomeError(_first_line(problem)) from problem

    def store_snapshot(
        self, number: int, term: Term, snapshot: StoredSnapshot, limit: float = CALL_LIMIT
    ) -> None:
        """Stores a snapshot in place of older ones. Snapshots are a cache: losing one costs time
        only. If it takes longer than ``limit`` (s), the connection is broken off."""
        query = "SELECT eventsched_log.keep_snapshot(%s, %s, %s, %s, %s, %s, %s, %s)"
        fence = (number, term.epoch, UUID(bytes=term.token))
        # If something is wrong, the next batch reports it.
        with suppress(psycopg.Error), limited(self._connection, limit):
            self._connection.execute(query, (*fence, *snapshot))

    def send(self, number: int, sealed: SealedBatch) -> None:
        """Sends a batch without waiting for the answer. Raises psycopg.OperationalError."""
        pgconn = self._connection.pgconn
        pgconn.send_query_params(_APPEND, _values(number, sealed), _TYPES, _FORMATS)
        pgconn.flush()  # _next_result() sends the rest

    def has_answer(self) -> bool:
        """Whether the answer to the batch that was sent has begun to arrive. The server sends what
        fits its buffer, so all of an append's answer, at once when it has committed. Raises
        psycopg.OperationalError."""
        pgconn = self._connection.pgconn
        pgconn.flush()
        pgconn.consume_input()
        return not pgconn.is_busy()

    def answer(self, sealed: SealedBatch, deadline: float) -> None:
        """Waits for the answer to a batch, until ``deadline`` of time.monotonic(). A result alone
        proves nothing: the server sends it before it commits. It has committed only when it is
        ready for the next query (ADR 19).

        Raises FencedError, ConflictError or UnavailableError if nothing of the batch was written;
        NotDurableError if it is in the log but a synchronous standby has not confirmed it; and
        UnknownOutcomeError.
        """
        self._await_results(sealed.term, sealed.first, deadline)

    def _await_results(self, term: Term, first: int, deadline: float) -> None:
        notices: list[str] = []
        pgconn = self._connection.pgconn
        pgconn.notice_handler = lambda notice: notices.append(
            (notice.error_field(pq.DiagnosticField.SQLSTATE) or b"").decode()
        )
        refusal: tuple[str, str] | None = None
        answered = False
        while (result := self._next_result(deadline)) is not None:
            answered = True
            if result.status not in (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK):
                state = (result.error_field(pq.DiagnosticField.SQLSTATE) or b"").decode()
                # A result that libpq itself made has a message but no fields.
                message = result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY)
                refusal = (state, (message or result.error_message).decode(errors="replace"))
        if refusal is not None:
            raise self._refusal(*refusal, term, first)
        if not answered or pgconn.status != pq.ConnStatus.OK:
            raise UnknownOutcomeError(pgconn.error_message.decode().strip())
        if _NOT_DURABLE in notices:
            raise NotDurableError("a commit was not confirmed by the synchronous standby")

    def close(self) -> None:
        """Closes the connection. A batch without an answer may or may not be committed."""
        self._connection.close()

    def _next_result(self, deadline: float) -> pq.abc.PGresult | None:
        """The next result. get_result() alone would wait in C and hold the interpreter's lock: no
        other thread would run, and Ctrl-C would have no effect."""
        pgconn = self._connection.pgconn
        while (unsent := pgconn.flush()) or pgconn.is_busy():
            poll = select.poll()
            poll.register(pgconn.socket, select.POLLIN | (select.POLLOUT if unsent else 0))
            if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
                raise UnknownOutcomeError("no answer arrived in time")
            pgconn.consume_input()
        return pgconn.get_result()

    def _refusal(self, state: str | None, message: str, term: Term, first: int) -> Exception:
        """The error for a refusal. ``message`` is the primary message, for ES001 and ES002 a
        number. (libpq's full message begins with a severity in the server's language.)"""
        if state in ("ES001", "ES002") and not message.isdigit():
            return HistoryChangedError(f"stream {term.stream} is not in the database any more")
        if state == "ES001":
            return FencedError(term.stream, term.epoch, int(message))
        if state == "ES002":
            return ConflictError(first, int(message))
        # 57: shut down or cancelled; 08: connection; 40: rolled back; 55P03: lock timeout.
        if not state or state[:2] in ("57", "08", "40") or state == "55P03":
            return UnknownOutcomeError(message)
        return UnavailableError(
            shown(self._address),
            message.strip().split("\n")[0],
            "nothing of this batch was written; repair the database and start again",
        )


def _first_line(problem: psycopg.Error) -> str:
    return (str(problem).strip().splitlines() or [type(problem).__name__])[0]


def _values(number: int, sealed: SealedBatch) -> list[bytes | None]:
    details = sealed.details.values()
    bases = [None if d.base is None else struct.pack(">q", d.base) for d in details]
    return [
        b"%d" % number,
        b"%d" % sealed.term.epoch,
        str(UUID(bytes=sealed.term.token)).encode(),
        b"%d" % sealed.first,
        b"%d" % sealed.count,
        b"%d" % sealed.written_at,
        sealed.mark,
        sealed.previous,
        sealed.hash,
        sealed.body,
        _array(_INT8, [struct.pack(">q", seq) for seq in sealed.details]),
        _array(_INT8, bases),
        _array(_BYTEA, [vectors.pack(detail) for detail in details]),
    ]


def _array(element: int, values: Sequence[bytes | None]) -> bytes:
    """A one-dimensional array in Postgres' binary form (array_recv in utils/adt/arrayfuncs.c)."""
    if not values:
        return struct.pack(">iii", 0, 0, element)
    parts = [struct.pack(">iiIii", 1, None in values, element, len(values), 1)]
    for value in values:
        parts += (b"\xff\xff\xff\xff",) if value is None else (struct.pack(">i", len(value)), value)
    return b"".join(parts)
