"""Reads one stream of a database for verification, as it was when reading began.

The stream is read in pages, each in a transaction of its own: one transaction for a whole
verification would keep Postgres from cleaning up for all that time. Records and derived rows never
change, so everything before the end of the log is the same on every page. What does change is read
first, in one transaction: head, epochs, snapshots, dictionaries, and the rows of existing pods.
Vectors may be thinned meanwhile; see ``details_now``.

Written from docs/log-format.md, like all of verification.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import chain
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus

from eventsched.history.verify.verified_log import (
    COLUMNS,
    BatchRow,
    Epoch,
    HeadRow,
    KeptStart,
    Packed,
    RowCursor,
)

_KEYS = {
    "verdict": ("number",),
    "scoring": ("number", "place"),
    "pod_now": ("uid::text",),
    "record_count": ("kind",),
}
_POSITIONS = {
    "node": "seq", "pod": "seq", "decision": "seq", "queue_move": "seq", "queue_stay": "seq",
    "reservation": "seq", "pod_end": "seq", "refusal": "seq", "mention": "first",
    "victim": "seq", "comparison": "seq",
}  # fmt: skip
_FURTHER_ORDER = {"refusal": ", number", "mention": ", pod::text", "victim": ", pod::text"}
"""What orders rows of one position."""
_BATCHES = """
SELECT first, count, epoch, (extract(epoch FROM written_at) * 1000000)::bigint,
       convert_to(mark::text, 'UTF8'), hash, convert_to(body::text, 'UTF8')
FROM eventsched_log.batch WHERE stream = %s AND first >= %s AND first < %s ORDER BY first LIMIT %s
"""
_DETAILS = "SELECT seq, base, body FROM eventsched_log.detail WHERE stream = %s"
_DROPPED = """
    SELECT next, seal FROM eventsched_log.pruned WHERE stream = %s ORDER BY first DESC LIMIT 1
"""
_SEALED = """
    SELECT next, seal FROM eventsched_log.partition
    WHERE stream = %s AND next <= %s AND seal IS NOT NULL ORDER BY first DESC LIMIT 2
"""
_ROWS_AT_ONCE, _BATCHES_AT_ONCE = 2000, 64
_WINDOW = 100_000
"""The number of positions in a page of a table without an index by position."""
_FIRST, _LAST = -(2**63), 2**63 - 1


@contextmanager
def one_moment(connection: psycopg.Connection[Any]) -> Iterator[None]:
    """Runs the block in a read-only transaction with one snapshot, or in the open one."""
    if connection.info.transaction_status != TransactionStatus.IDLE:
        yield
        return
    connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    connection.read_only = True
    with connection.transaction():
        # The timeouts of the reader's role are meant for people's queries.
        connection.execute("SET LOCAL statement_timeout = 0")
        connection.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
        yield


def streams(connection: psycopg.Connection[Any]) -> list[tuple[int, str]]:
    """(number, name) of all streams, the oldest first."""
    with one_moment(connection):
        query = "SELECT id, name FROM eventsched_log.stream ORDER BY id"
        return connection.execute(query).fetchall()


def nameless(connection: psycopg.Connection[Any]) -> list[int]:
    """Numbers of streams that have a head or an epoch, but no row of their own."""
    query = """
        SELECT stream FROM eventsched_log.head UNION SELECT stream FROM eventsched_log.epoch
        EXCEPT SELECT id FROM eventsched_log.stream ORDER BY 1
    """
    with one_moment(connection):
        return [number for (number,) in connection.execute(query).fetchall()]


class _Pages:
    """Reads a stream's rows, each page in a transaction of its own, or all in the open one."""

    def __init__(self, connection: psycopg.Connection[Any], number: int) -> None:
        self.connection, self.number = connection, number

    def rows(self, query: str, *values: Any, binary: bool = False) -> list[tuple[Any, ...]]:
        """The rows of one query, whose first parameter is the stream."""
        with one_moment(self.connection):
            cursor = self.connection.execute(query.encode(), (self.number, *values), binary=binary)
        return cursor.fetchall()

    def by_index(
        self, query: str, end: int, at_once: int, begin: int = _FIRST
    ) -> Iterator[tuple[Any, ...]]:
        """The rows from position ``begin`` to before ``end``, with the position as first column.
        The query's further parameters are the first position, the end, and the number of rows."""
        while True:
            page = self.rows(query, begin, end, at_once, binary=True)
            yield from page
            if len(page) < at_once:
                return
            begin = page[-1][0] + 1

    def by_window(self, query: str, end: int, begin: int) -> Iterator[tuple[Any, ...]]:
        """The same for a table without an index, with few rows before position ``begin``. The
        query's further parameters are the first position and the end."""
        begin, until = _FIRST, min(begin + _WINDOW, end)
        while begin < end:
            yield from self.rows(query, begin, until, binary=True)
            begin, until = until, min(until + _WINDOW, end)


class DatabaseLog:
    """A stream of a database as of the creation of this object. The connection must be idle, or in
    ``one_moment``; then everything is read in that transaction."""

    def __init__(
        self,
        connection: psycopg.Connection[Any],
        number: int,
        stream: str,
        *,
        counts_details: bool = False,
        begin: int = _FIRST,
        since: int = 0,
    ) -> None:
        """``counts_details`` is for a log that may be thinned meanwhile. Batches and details are
        read from position ``begin`` on, or from the newest seal of records up to position
        ``since``. Raises psycopg.Error."""
        self._stream, self._begin, self._since = stream, begin, since
        self._pages = pages = _Pages(connection, number)
        with one_moment(connection):
            self._start = self._read_start() if begin == _FIRST else None
            if self._start is not None:  # a partition may be dropped in part only
                self._begin = self._start.position
            self._epochs = self._read_epochs()
            self._head = self._read_head()
            newest = pages.rows(
                "SELECT first, first + count FROM eventsched_log.batch WHERE stream = %s"
                " ORDER BY first DESC LIMIT 1"
            )
            self._last = newest[0][0] if newest else _FIRST
            self._end = max(newest[0][1] if newest else 0, self._head.next if self._head else 0)
            start = 0 if self._start is None else self._start.position
            self._tables = DatabaseTables(pages, start, self._end)
            after = f"{_DETAILS} AND seq >= %s ORDER BY seq LIMIT 1"
            beyond = pages.rows(after, self._end, binary=True)
            self._details_at_first = self.details_now() if counts_details else 0
        query = f"{_DETAILS} AND seq >= %s AND seq < %s ORDER BY seq LIMIT %s"
        rows = chain(pages.by_index(query, self._end, _ROWS_AT_ONCE, self._begin), beyond)
        self._details = RowCursor(map(Packed._make, rows))

    @property
    def stream(self) -> str:
        """The stream's name."""
        return self._stream

    @property
    def tables(self) -> "DatabaseTables":
        """The derived rows."""
        return self._tables

    @property
    def start(self) -> KeptStart | None:
        """See Log."""
        return self._start

    def hash_at(self, position: int) -> bytes | None:
        """See Log."""
        query = """
            SELECT hash FROM eventsched_log.batch
            WHERE stream = %s AND first < %s AND first + count = %s ORDER BY first DESC LIMIT 1
        """
        rows = self._pages.rows(query, position, position, binary=True)
        return rows[0][0] if rows else None

    def was_pruned(self) -> bool:
        """Whether records were dropped since reading began."""
        dropped = self._pages.rows(_DROPPED)
        return bool(dropped) and dropped[0][0] > max(self._begin, 0)

    @property
    def epochs(self) -> list[Epoch]:
        """The stream's rows of table epoch."""
        return self._epochs

    @property
    def head(self) -> HeadRow | None:
        """The stream's row of table head."""
        return self._head

    def batches(self) -> Iterator[BatchRow]:
        """The stream's rows of table batch."""
        return map(
            BatchRow._make,
            self._pages.by_index(
                _BATCHES, min(self._last, _LAST - 1) + 1, _BATCHES_AT_ONCE, self._begin
            ),
        )

    def has_position(self, position: int) -> bool:
        """Whether the database has a batch at or before a position."""
        query = "SELECT FROM eventsched_log.batch WHERE stream = %s AND first <= %s LIMIT 1"
        return bool(self._pages.rows(query, position))

    def details(self, end: int) -> list[Packed]:
        """See Log."""
        return self._details.before(end)

    def detail(self, seq: int) -> Packed | None:
        """See Log."""
        rows = self._pages.rows(f"{_DETAILS} AND seq = %s", seq, binary=True)
        return Packed(*rows[0]) if rows else None

    @property
    def details_at_first(self) -> int:
        """See Log."""
        return self._details_at_first

    def details_now(self) -> int:
        """See Log."""
        query = """
            SELECT count(*) FROM eventsched_log.detail
            WHERE stream = %s AND seq >= %s AND seq < %s
        """
        return int(self._pages.rows(query, self._begin, self._end)[0][0])

    def _read_start(self) -> KeptStart | None:
        """The begin of the log, its seal and the first checkpoint, if records were dropped or are
        not to be checked."""
        for partition_end, seal in self._pages.rows(_SEALED, self._since) if self._since else []:
            record = self._record(seal)
            # A partition ends inside of a batch, a seal at the batch's end.
            position = record.get("next", partition_end)
            if not isinstance(position, int):  # start_hash() reports it
                position = partition_end
            if position <= self._since:
                return KeptStart(position, seal, record, self._checkpoint(record), is_chosen=True)
        for position, seal in self._pages.rows(_DROPPED):
            record = self._record(seal)
            return KeptStart(position, seal, record, self._checkpoint(record))
        return None

    def _record(self, position: int) -> dict[str, Any]:
        """One record; empty if it is not there."""
        query = """
            SELECT first, convert_to(body::text, 'UTF8') FROM eventsched_log.batch
            WHERE stream = %s AND first <= %s ORDER BY first DESC LIMIT 1
        """
        record: Any = {}
        for first, body in self._pages.rows(query, position, binary=True):
            with suppress(ValueError, IndexError, TypeError):
                record = json.loads(body)[position - first][3]
        return record if isinstance(record, dict) else {}

    def _checkpoint(self, record: dict[str, Any]) -> bytes:
        """The bytes that a seal names; empty if they are not there."""
        kept = self._pages.rows(
            "SELECT body FROM eventsched_log.checkpoint WHERE stream = %s AND seq = %s",
            record.get("checkpoint", -1),
            binary=True,
        )
        return kept[0][0] if kept else b""

    def _read_epochs(self) -> list[Epoch]:
        query = "SELECT epoch, token, first FROM eventsched_log.epoch WHERE stream = %s"
        rows = self._pages.rows(f"{query} ORDER BY epoch", binary=True)
        return [Epoch(number, token.bytes, first) for number, token, first in rows]

    def _read_head(self) -> HeadRow | None:
        query = "SELECT next, hash, epoch, token FROM eventsched_log.head WHERE stream = %s"
        rows = self._pages.rows(f"{query} ORDER BY next", binary=True)
        return next((HeadRow(n, h, epoch, token.bytes) for n, h, epoch, token in rows), None)


class DatabaseTables:
    """The derived rows and snapshots of a stream of a database."""

    def __init__(self, pages: _Pages, start: int, end: int) -> None:
        """``start`` and ``end`` are those of the log. Rows of later positions, of which there
        should be none, are read at once."""
        self._pages = pages
        self._dictionaries = {table: self._read_dictionary(table) for table in _KEYS}
        self._snapshots = pages.rows(
            "SELECT seq, hash FROM (SELECT stream, seq, hash FROM eventsched_log.snapshot"
            " UNION SELECT stream, seq, hash FROM eventsched_log.checkpoint) AS kept"
            " WHERE stream = %s ORDER BY seq",
            binary=True,
        )
        self._seals = dict(
            pages.rows(
                "SELECT first, seal FROM ("
                "SELECT stream, first, seal FROM eventsched_log.partition UNION ALL "
                "SELECT stream, first, seal FROM eventsched_log.pruned) AS sealed"
                " WHERE stream = %s AND seal IS NOT NULL",
                binary=True,
            )
        )
        self._ahead: dict[str, RowCursor] = {}
        for table, position in _POSITIONS.items():
            query = f"{_select(table)} AND {position} >= %s"
            order = f"ORDER BY {position}{_FURTHER_ORDER.get(table, '')}"
            beyond = pages.rows(f"{query} {order}", end, binary=True)
            ordered = f"{query} AND {position} < %s {order}"
            rows = (
                pages.by_index(f"{ordered} LIMIT %s", end, _ROWS_AT_ONCE)
                if table == "decision"
                else pages.by_window(ordered, end, start)
            )
            self._ahead[table] = RowCursor(chain(rows, beyond))

    def rows(self, table: str, end: int) -> list[tuple[Any, ...]]:
        """See Tables."""
        return self._ahead[table].before(end)

    def dictionary(self, table: str) -> dict[tuple[Any, ...], tuple[Any, ...]]:
        """See Tables."""
        return self._dictionaries.pop(table)

    def pod(self, uid: str) -> tuple[Any, ...] | None:
        """See Tables."""
        rows = self._pages.rows(f"{_select('pod')} AND uid = %s::uuid", uid)
        return rows[0] if rows else None

    def snapshots(self) -> list[tuple[int, bytes]]:
        """See Tables."""
        return self._snapshots

    def seals(self) -> dict[int, int]:
        """See Tables."""
        return dict(self._seals)

    def _read_dictionary(self, table: str) -> dict[tuple[Any, ...], tuple[Any, ...]]:
        keys = _KEYS[table]
        rows = self._pages.rows(f"{_select(table, keys)} ORDER BY {', '.join(keys)}")
        return {row[: len(keys)]: row[len(keys) :] for row in rows}


def _select(table: str, keys: tuple[str, ...] = ()) -> str:
    columns = ", ".join((*keys, *COLUMNS[table]))
    return f"SELECT {columns} FROM eventsched_log.{table} WHERE stream = %s"
