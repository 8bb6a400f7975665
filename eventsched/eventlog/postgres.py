"""The log in Postgres, as its one writer sees it: fenced, idempotent, one round trip a batch.

The append is sent and its answer awaited later (``begin``, ``finish``), so that the next batch is
computed while one commits. That uses libpq's own asynchronous calls (psycopg.pq): one thread, no
event loop, nothing to wait for but the answer. What the function does is in sql/0001_append.sql.
"""

import select
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from uuid import UUID, uuid4

import psycopg
from psycopg import pq

from eventsched import __version__
from eventsched.domain.verdicts import Detail
from eventsched.eventlog import chain, migrating, reading, vectors
from eventsched.eventlog.addresses import libpq_url, shown
from eventsched.eventlog.chain import Head, SealedBatch, Term
from eventsched.eventlog.errors import (
    ConflictError,
    FencedError,
    UnavailableError,
    UnknownOutcomeError,
)
from eventsched.eventlog.port import Batch, Snapshot, Stored, Usage
from eventsched.eventlog.reading import Reader

_APPEND = b"SELECT eventsched_log.append($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12,$13)"
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
        self._connection = self._connect()
        try:
            self._term, self._number, self._head = self._acquire(stream)
            self._reader = Reader(address, stream)
        except BaseException:
            self._connection.close()
            raise

    @property
    def stream(self) -> str:
        """The stream's name."""
        return self._term.stream

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
            self._send(sealed)

    def finish(self) -> None:
        """Waits for the batch under way; offers it again, unchanged, while its fate is unknown."""
        if self._under_way is None:
            return
        sealed = self._under_way
        deadline = time.monotonic() + self._patience
        pause = 0.02
        while True:
            try:
                self._answer(min(deadline, time.monotonic() + self._patience / 4))
                break
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

    def usage(self) -> Usage:
        """What the database takes on disk."""
        return self._reader.usage()

    def renew(self) -> None:
        """Makes sure that nobody has taken over. Raises FencedError."""
        query = "SELECT eventsched_log.renew(%s, %s, %s)"
        values = (self._number, self._term.epoch, UUID(bytes=self._term.token))
        try:
            self._connection.execute(query, values)
        except psycopg.Error as problem:
            raise self._refusal(problem.sqlstate, str(problem)) from problem

    def keep(self, snapshot: Snapshot) -> None:
        """Stores a snapshot in place of older ones. It is a cache: losing it loses time only."""
        query = "SELECT eventsched_log.keep_snapshot(%s, %s, %s, %s, %s, %s, %s, %s)"
        term = (self._number, self._term.epoch, UUID(bytes=self._term.token))
        with suppress(psycopg.Error):  # what is wrong shows at the next batch
            self._connection.execute(query, (*term, *snapshot))

    def close(self) -> None:
        """Closes the connections; what was begun and not finished may be committed or not."""
        self._connection.close()

    # --- the connection -------------------------------------------------------------------

    def _connect(self) -> psycopg.Connection:
        try:
            connection = psycopg.connect(
                libpq_url(self._address),
                autocommit=True,
                connect_timeout=10,
                application_name=f"eventsched {self._holder}"[:63],
                tcp_user_timeout=15_000,
            )
            connection.execute(_SESSION)
        except psycopg.OperationalError as problem:
            raise UnavailableError(
                shown(self._address),
                str(problem).strip().splitlines()[0],
                "start the database, or mend its address",
            ) from problem
        return connection

    def _acquire(self, stream: str) -> tuple[Term, int, Head]:
        with reading.connected(self._address).connect() as checked:
            migrating.check(checked, self._address)
        token = uuid4()
        try:
            row = self._connection.execute(
                "SELECT stream, epoch, next, hash FROM eventsched_log.acquire(%s, %s, %s, %s)",
                (stream, token, self._holder, __version__),
            ).fetchone()
        except psycopg.errors.InsufficientPrivilege as problem:
            raise UnavailableError(
                shown(self._address),
                str(problem).strip().splitlines()[0],
                "GRANT eventsched_writer to this user",
            ) from problem
        assert row is not None
        return Term(stream, row[1], token.bytes), row[0], Head(row[2], bytes(row[3]))

    # --- the append -----------------------------------------------------------------------

    def _send(self, sealed: SealedBatch) -> None:
        seqs = list(sealed.details)
        values: list[bytes | None] = [
            b"%d" % self._number,
            b"%d" % sealed.term.epoch,
            str(UUID(bytes=sealed.term.token)).encode(),
            b"%d" % sealed.first,
            b"%d" % sealed.count,
            b"%d" % sealed.written_at,
            sealed.mark,
            sealed.previous,
            sealed.hash,
            sealed.body,
            _array(_INT8, [struct.pack(">q", seq) for seq in seqs]),
            _array(
                _INT8,
                [
                    None if detail.base is None else struct.pack(">q", detail.base)
                    for detail in sealed.details.values()
                ],
            ),
            _array(_BYTEA, [vectors.pack(detail) for detail in sealed.details.values()]),
        ]
        pgconn = self._connection.pgconn
        pgconn.send_query_params(_APPEND, values, _TYPES, _FORMATS)
        pgconn.flush()  # what does not go out at once goes while the answer is awaited

    def _answer(self, deadline: float) -> None:
        """The answer to what was sent. A result is not enough: only when the server is ready again
        has it committed (ruling R2). ``deadline`` is of time.monotonic()."""
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
                refusal = (state, result.error_message.decode().strip())
        if refusal is not None:
            raise self._refusal(*refusal)
        if not answered or pgconn.status != pq.ConnStatus.OK:
            raise UnknownOutcomeError(pgconn.error_message.decode().strip())
        if _NOT_DURABLE in notices:
            raise UnavailableError(
                shown(self._address),
                "a commit was not confirmed by the synchronous standby",
                "mend replication and start again: the log decides what happened",
            )

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

    def _offer_again(self, sealed: SealedBatch) -> None:
        self._connection.close()
        try:
            self._connection = self._connect()
            self._send(sealed)
        except UnavailableError:
            pass  # still away: the next answer says so, until patience is over

    def _refusal(self, state: str | None, message: str) -> Exception:
        number = message.removeprefix("ERROR:").split("\n")[0].strip()
        if state == "ES001":
            return FencedError(self._term.stream, self._term.epoch, int(number))
        if state == "ES002":
            assert self._under_way is not None
            return ConflictError(self._under_way.first, int(number))
        # 57: shut down or cancelled, 08: connection, 40: rolled back, 55P03: lock not had in time.
        if not state or state[:2] in ("57", "08", "40") or state == "55P03":
            return UnknownOutcomeError(message)
        return UnavailableError(
            shown(self._address),
            message.removeprefix("ERROR:").split("\n")[0].strip(),
            "nothing of this batch was written; mend the database and start again",
        )

    def _gone(self, problem: Exception) -> UnavailableError:
        return UnavailableError(
            shown(self._address),
            f"no answer for {self._patience:g} s ({str(problem).splitlines()[0]})",
            "start it and run the same command again: it goes on from the log",
        )


def _array(element: int, values: Sequence[bytes | None]) -> bytes:
    """A one-dimensional array in Postgres' binary form (array_recv in utils/adt/arrayfuncs.c)."""
    if not values:
        return struct.pack(">iii", 0, 0, element)
    parts = [struct.pack(">iiIii", 1, None in values, element, len(values), 1)]
    for value in values:
        parts += (b"\xff\xff\xff\xff",) if value is None else (struct.pack(">i", len(value)), value)
    return b"".join(parts)
