"""A log as it is stored, for verification: what it is made of, and one stream of a database.

Written from docs/log-format.md. Nothing of the scheduler is imported here: what checks the log must
not share mistakes with what wrote it.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple, Protocol

import psycopg


class Batch(NamedTuple):
    """A row of table batch; ``written_at`` is in µs since 1970, texts are in UTF-8."""

    first: int
    count: int  # type: ignore[assignment]  # hides tuple.count
    epoch: int
    written_at: int
    mark: bytes
    hash: bytes
    body: bytes

    @property
    def end(self) -> int:
        """The position after its last record, by what the row says."""
        return self.first + self.count


class Packed(NamedTuple):
    """A row of table detail."""

    seq: int
    base: int | None
    body: bytes


class Epoch(NamedTuple):
    """A row of table epoch."""

    epoch: int
    token: bytes
    first: int


class Head(NamedTuple):
    """A row of table head; epoch and token are None in a file, which does not have them."""

    next: int
    hash: bytes
    epoch: int | None = None
    token: bytes | None = None


class DamagedError(Exception):
    """A file is not of the file form from some place on. ``where`` names it."""

    def __init__(self, where: str, problem: str) -> None:
        self.where, self.problem = where, problem
        super().__init__(f"{where}: {problem}")


class NoLogError(DamagedError):
    """A file is no exported log at all, or one of a later form."""


class Tables(Protocol):
    """The derived rows and snapshots. Rows that were handed out are not handed out again."""

    def rows(self, table: str, end: int) -> list[tuple[Any, ...]]:
        """Rows of node, pod or decision for positions before ``end``, in order; the position is the
        first column, the others are as in COLUMNS."""

    def dictionary(self, table: str) -> dict[tuple[Any, ...], tuple[Any, ...]]:
        """All rows of verdict, scoring or pod_now by their key; the columns are as in COLUMNS."""

    def pod(self, uid: str) -> tuple[Any, ...] | None:
        """The pod row of a uid."""

    def snapshots(self) -> list[tuple[int, bytes]]:
        """(seq, hash) of all snapshots, in order."""


class Log(Protocol):
    """One stream, whole, in order of position."""

    @property
    def stream(self) -> str:
        """The stream's name."""

    @property
    def epochs(self) -> list[Epoch]:
        """In order."""

    @property
    def head(self) -> Head | None:
        """None where there is no such row."""

    @property
    def tables(self) -> Tables | None:
        """None in a file."""

    def batches(self) -> Iterator[Batch]:
        """In order of ``first``; to be called once. Raises DamagedError."""

    def details(self, end: int) -> list[Packed]:
        """Details that were not handed out yet, of positions before ``end`` (in a file: of the
        batches read so far), in order."""

    def detail(self, seq: int) -> Packed | None:
        """One detail, of a batch that was read."""


class Ahead:
    """An iterator over rows with the position first, ascending; gives what is due."""

    def __init__(self, rows: Iterator[Any]) -> None:
        self._rows = rows
        self._next = next(rows, None)

    def before(self, end: int) -> list[Any]:
        """The rows not given yet, of positions before ``end``."""
        row, found = self._next, []
        while row is not None and row[0] < end:
            found.append(row)
            row = next(self._rows, None)
        self._next = row
        return found


# --- a database ---------------------------------------------------------------------------

COLUMNS = {
    "node": ("seq", "ordinal", "name"),
    "pod": ("seq", "uid::text", "namespace", "name"),
    "decision": (
        "seq", "at", "pod::text", "attempt", "profile", "outcome::text", "node", "score",
        "runner_up", "runner_up_score", "feasible", "evaluated", "ties", "draw",
    ),
    "pod_now": (
        "seq", "since", "waiting_since", "decided_seq", "attempts", "priority", "verdict",
        "deleting", "state", "namespace", "name", "scheduler", "owner_kind", "owner_name", "node",
        "nominated", "asked", "plugin", "message",
    ),
    "verdict": ("plugin", "code", "reasons"),
    "scoring": ("plugin", "weight", "normalization"),
}  # fmt: skip
_KEYS = {"verdict": ("number",), "scoring": ("number", "place"), "pod_now": ("uid::text",)}
_BATCHES = """
SELECT first, count, epoch, (extract(epoch FROM written_at) * 1000000)::bigint,
       convert_to(mark::text, 'UTF8'), hash, convert_to(body::text, 'UTF8')
FROM eventsched_log.batch WHERE stream = %s ORDER BY first
"""
_ROWS_AT_ONCE, _BATCHES_AT_ONCE = 2000, 64


@contextmanager
def one_moment(connection: psycopg.Connection[Any]) -> Iterator[None]:
    """A transaction that sees one moment and changes nothing; the connection must be idle."""
    connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    connection.read_only = True
    with connection.transaction():
        # The reader's role has limits that are for people's queries.
        connection.execute("SET LOCAL statement_timeout = 0")
        connection.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
        yield


def streams(connection: psycopg.Connection[Any]) -> list[tuple[int, str]]:
    """(number, name) of all streams, the oldest first."""
    return connection.execute("SELECT id, name FROM eventsched_log.stream ORDER BY id").fetchall()


def nameless(connection: psycopg.Connection[Any]) -> list[int]:
    """Numbers of streams that have a head or an epoch, but no row of their own."""
    query = """
        SELECT stream FROM eventsched_log.head UNION SELECT stream FROM eventsched_log.epoch
        EXCEPT SELECT id FROM eventsched_log.stream ORDER BY 1
    """
    return [number for (number,) in connection.execute(query).fetchall()]


class DatabaseLog:
    """A stream of a database, read with cursors of the server; see ``one_moment``."""

    def __init__(self, connection: psycopg.Connection[Any], number: int, stream: str) -> None:
        self._connection, self._number, self._stream = connection, number, stream
        self._cursors = ExitStack()
        query = "SELECT seq, base, body FROM eventsched_log.detail WHERE stream = %s ORDER BY seq"
        self._details = Ahead(map(Packed._make, self._cursor("detail", query, _ROWS_AT_ONCE)))
        self._tables = DatabaseTables(connection, number, self._cursor)

    @property
    def stream(self) -> str:
        """The stream's name."""
        return self._stream

    @property
    def tables(self) -> "DatabaseTables":
        """The derived rows."""
        return self._tables

    @property
    def epochs(self) -> list[Epoch]:
        """All rows of the stream."""
        rows = self._all("SELECT epoch, token, first FROM eventsched_log.epoch", "epoch")
        return [Epoch(number, token.bytes, first) for number, token, first in rows]

    @property
    def head(self) -> Head | None:
        """The stream's row."""
        rows = self._all("SELECT next, hash, epoch, token FROM eventsched_log.head", "next")
        return next((Head(n, h, epoch, token.bytes) for n, h, epoch, token in rows), None)

    def batches(self) -> Iterator[Batch]:
        """All rows of the stream."""
        return map(Batch._make, self._cursor("batch", _BATCHES, _BATCHES_AT_ONCE))

    def details(self, end: int) -> list[Packed]:
        """See Log."""
        return self._details.before(end)

    def detail(self, seq: int) -> Packed | None:
        """See Log."""
        query = "SELECT seq, base, body FROM eventsched_log.detail WHERE stream = %s AND seq = %s"
        row = self._connection.execute(query, (self._number, seq), binary=True).fetchone()
        return None if row is None else Packed(*row)

    def _all(self, query: str, order: str) -> list[Any]:
        whole = f"{query} WHERE stream = %s ORDER BY {order}"
        return self._connection.execute(whole.encode(), (self._number,), binary=True).fetchall()

    def close(self) -> None:
        """Closes the cursors; to be called before the transaction ends."""
        self._cursors.close()

    def _cursor(self, name: str, query: str, at_once: int) -> Iterator[Any]:
        cursor = self._cursors.enter_context(self._connection.cursor(f"verify_{name}"))
        cursor.itersize = at_once
        cursor.execute(query.encode(), (self._number,), binary=True)
        return iter(cursor)


class DatabaseTables:
    """The derived rows and snapshots of a stream of a database."""

    def __init__(self, connection: psycopg.Connection[Any], number: int, cursor: Any) -> None:
        self._connection, self._number = connection, number
        self._ahead = {
            table: Ahead(cursor(table, self._query(table, "seq"), _ROWS_AT_ONCE))
            for table in ("node", "pod", "decision")
        }

    def rows(self, table: str, end: int) -> list[tuple[Any, ...]]:
        """See Tables."""
        return self._ahead[table].before(end)

    def dictionary(self, table: str) -> dict[tuple[Any, ...], tuple[Any, ...]]:
        """See Tables."""
        keys = _KEYS[table]
        query = self._query(table, ", ".join(keys), keys)
        rows = self._connection.execute(query.encode(), (self._number,)).fetchall()
        return {row[: len(keys)]: row[len(keys) :] for row in rows}

    def pod(self, uid: str) -> tuple[Any, ...] | None:
        """See Tables."""
        query = f"SELECT {', '.join(COLUMNS['pod'])} FROM eventsched_log.pod"
        query += " WHERE stream = %s AND uid = %s::uuid"
        return self._connection.execute(query.encode(), (self._number, uid)).fetchone()

    def snapshots(self) -> list[tuple[int, bytes]]:
        """See Tables."""
        query = "SELECT seq, hash FROM eventsched_log.snapshot WHERE stream = %s ORDER BY seq"
        return self._connection.execute(query, (self._number,), binary=True).fetchall()

    def _query(self, table: str, order: str, keys: tuple[str, ...] = ()) -> str:
        columns = ", ".join((*keys, *COLUMNS[table]))
        return f"SELECT {columns} FROM eventsched_log.{table} WHERE stream = %s ORDER BY {order}"
