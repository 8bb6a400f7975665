"""A writer's one connection to its stream: what is said to the database, and what its answers mean.

``PostgresEventLog`` (writer.py) and ``Session`` (session.py) stand on it: they decide when to
connect again and what to offer. What the functions do is in migrations/sql/0001_append.sql. An
append is sent and its answer awaited later: libpq's own asynchronous calls (psycopg.pq), one
thread, no event loop, nothing to wait for but the answer.
"""

import os
import select
import socket
import struct
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from uuid import UUID, uuid4

import psycopg
from psycopg import pq

from eventsched import __version__
from eventsched.eventlog import vectors
from eventsched.eventlog.addresses import NOTICES, libpq_url, shown
from eventsched.eventlog.chain import Head, SealedBatch, Term
from eventsched.eventlog.log_errors import (
    ConflictError,
    DatabaseRefusedError,
    FencedError,
    NotDurableError,
    UnavailableError,
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
"""Of a COMMIT whose wait for a synchronous standby was cancelled: success, but not durable."""
_SESSION = (
    "SET synchronous_commit = on; SET lock_timeout = '10s';"
    " SET idle_in_transaction_session_timeout = '5s'"
)
_HISTORY = (
    "SELECT (pg_control_system()).system_identifier || '/'"
    " || ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::integer"
)
"""The control file tells a new timeline only some time after a failover, the WAL at once."""
LIMIT = 30.0
"""Seconds for what is asked beside appends; a snapshot may be large."""
_HIDDEN = (
    psycopg.errors.InsufficientPrivilege,
    psycopg.errors.UndefinedFunction,
    psycopg.errors.FeatureNotSupported,
)


def connected(address: str, name: str) -> psycopg.Connection:
    """A connection in autocommit mode; the server knows it as ``name``. Raises UnavailableError, as
    RefusedError where waiting would not help."""
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
    """Where the block takes longer, the connection breaks: what waits in it for the server then
    raises psycopg.OperationalError. A server may hold a connection, and not answer."""
    timer = threading.Timer(seconds, _cut, [connection])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _cut(connection: psycopg.Connection) -> None:
    with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(connection.fileno())) as end:
        end.shutdown(socket.SHUT_RDWR)


class WriterConnection:
    """One connection, used by one thread. Whatever is lost with it, a new one is made."""

    def __init__(self, address: str, holder: str) -> None:
        """Connects. ``holder`` is for people who look at the server. Raises UnavailableError, as
        RefusedError where waiting would not help."""
        self._address = address
        self._connection = connected(address, f"eventsched {holder}")
        try:
            self._connection.execute(_SESSION)
        except psycopg.Error as problem:
            self._connection.close()
            raise migrations.unreachable(address, _first_line(problem)) from problem

    def acquire(self, stream: str, holder: str, limit: float = LIMIT) -> tuple[int, Term, Head]:
        """Begins an epoch with a token of its own: the stream's number, the term and the head.
        Raises RefusedError where this user may not, psycopg.Error for whatever else, also where
        that takes longer than ``limit`` (s)."""
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

    def history(self, limit: float = LIMIT) -> str:
        """The history that the database is on, ``system identifier/timeline``: another one after a
        failover or a restore. "" where the database hides it. Raises UnavailableError for one that
        cannot be written, such as a standby, or does not answer within ``limit`` (s)."""
        try:
            with limited(self._connection, limit):
                row = self._connection.execute(_HISTORY).fetchone()
        except _HIDDEN:
            return ""
        except psycopg.Error as problem:
            raise UnavailableError(
                shown(self._address), _first_line(problem), "connect to the primary"
            ) from problem
        assert row is not None
        return str(row[0])

    def renew(self, number: int, term: Term, deadline: float) -> None:
        """Says that the term's holder lives, and waits for the answer as ``answer`` does. Raises
        FencedError, UnknownOutcomeError and UnavailableError."""
        values = [b"%d" % number, b"%d" % term.epoch, str(UUID(bytes=term.token)).encode()]
        try:
            self._connection.pgconn.send_query_params(_RENEW, values, _TYPES[:3])
            self._settle(term, 0, deadline)
        except psycopg.OperationalError as problem:
            raise UnknownOutcomeError(_first_line(problem)) from problem

    def keep(self, number: int, term: Term, snapshot: StoredSnapshot, limit: float = LIMIT) -> None:
        """Stores a snapshot in place of older ones. It is a cache: losing it loses time only. One
        that takes longer than ``limit`` (s) is given up, and the connection with it."""
        query = "SELECT eventsched_log.keep_snapshot(%s, %s, %s, %s, %s, %s, %s, %s)"
        reign = (number, term.epoch, UUID(bytes=term.token))
        # What is wrong shows at the next batch.
        with suppress(psycopg.Error), limited(self._connection, limit):
            self._connection.execute(query, (*reign, *snapshot))

    def send(self, number: int, sealed: SealedBatch) -> None:
        """Sends a batch and does not wait. Raises psycopg.OperationalError."""
        pgconn = self._connection.pgconn
        pgconn.send_query_params(_APPEND, _values(number, sealed), _TYPES, _FORMATS)
        pgconn.flush()  # what does not go out at once goes while the answer is awaited

    def answer(self, sealed: SealedBatch, deadline: float) -> None:
        """Waits for the answer to what was sent, until ``deadline`` of time.monotonic(). A result
        is not enough: a server sends it before it commits. Only when it is ready for the next query
        has it committed (ADR 19).

        Raises FencedError, ConflictError and UnavailableError where nothing of the batch was
        written; UnknownOutcomeError, or NotDurableError where it is there but a synchronous standby
        has not confirmed it.
        """
        self._settle(sealed.term, sealed.first, deadline)

    def _settle(self, term: Term, first: int, deadline: float) -> None:
        notices: list[str] = []
        pgconn = self._connection.pgconn
        pgconn.notice_handler = lambda notice: notices.append(
            (notice.error_field(pq.DiagnosticField.SQLSTATE) or b"").decode()
        )
        refusal: tuple[str, str] | None = None
        answered = False
        while (result := self._result(deadline)) is not None:
            answered = True
            if result.status not in (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK):
                state = (result.error_field(pq.DiagnosticField.SQLSTATE) or b"").decode()
                # A result that libpq has made itself has words, and no fields.
                told = result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY)
                refusal = (state, (told or result.error_message).decode(errors="replace"))
        if refusal is not None:
            raise self._refusal(*refusal, term, first)
        if not answered or pgconn.status != pq.ConnStatus.OK:
            raise UnknownOutcomeError(pgconn.error_message.decode().strip())
        if _NOT_DURABLE in notices:
            raise NotDurableError("a commit was not confirmed by the synchronous standby")

    def close(self) -> None:
        """Closes the connection; what was sent and not answered may be committed or not."""
        self._connection.close()

    def _result(self, deadline: float) -> pq.abc.PGresult | None:
        """The next result. get_result() alone would wait in C, holding the interpreter's lock: no
        other thread would go on, and no Ctrl-C would be heard."""
        pgconn = self._connection.pgconn
        while (unsent := pgconn.flush()) or pgconn.is_busy():
            waiting = select.poll()
            waiting.register(pgconn.socket, select.POLLIN | (select.POLLOUT if unsent else 0))
            if not waiting.poll(max(0.0, deadline - time.monotonic()) * 1000):
                raise UnknownOutcomeError("the answer does not come")
            pgconn.consume_input()
        return pgconn.get_result()

    def _refusal(self, state: str | None, message: str, term: Term, first: int) -> Exception:
        """What a refusal means; ``message`` is its first line alone, of ES001 and ES002 a number.
        (libpq's own form of it begins with a word that the server has translated.)"""
        if state == "ES001":
            return FencedError(term.stream, term.epoch, int(message))
        if state == "ES002":
            return ConflictError(first, int(message))
        # 57: shut down or cancelled, 08: connection, 40: rolled back, 55P03: lock not had in time.
        if not state or state[:2] in ("57", "08", "40") or state == "55P03":
            return UnknownOutcomeError(message)
        return UnavailableError(
            shown(self._address),
            message.strip().split("\n")[0],
            "nothing of this batch was written; mend the database and start again",
        )


def _first_line(problem: psycopg.Error) -> str:
    return (str(problem).strip().splitlines() or [type(problem).__name__])[0]


def _values(number: int, sealed: SealedBatch) -> list[bytes | None]:
    details = sealed.details.values()
    bases = [None if each.base is None else struct.pack(">q", each.base) for each in details]
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
