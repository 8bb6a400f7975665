"""Reading a log that is in Postgres: records, vectors, snapshots. Needs the reader role."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import msgspec
from sqlalchemy import (
    Connection,
    Engine,
    RowMapping,
    bindparam,
    create_engine,
    func,
    select,
    text,
)
from sqlalchemy.exc import OperationalError
from sqlalchemy.pool import NullPool

from eventsched.domain.errors import InputError
from eventsched.domain.records.verdicts import Detail
from eventsched.eventlog import vectors
from eventsched.eventlog.addresses import shown, sqlalchemy_url
from eventsched.eventlog.chain import Head
from eventsched.eventlog.log_errors import CorruptLogError
from eventsched.eventlog.port import LogSize, Stored, StoredSnapshot, whole
from eventsched.eventlog.schema import log_tables, migrations

_PAGE = 64
"""Batches that are fetched at a time."""
_items = msgspec.json.Decoder(list[tuple[int, int, int, msgspec.Raw]])
_kind = msgspec.json.Decoder(msgspec.defstruct("_Kind", [("kind", str)]))


_USAGE = """
WITH relation AS (
    SELECT c.oid, c.relkind, c.reltoastrelid FROM pg_class c
    WHERE c.relnamespace = 'eventsched_log'::regnamespace AND c.relkind IN ('r', 'i')
), empty AS (  -- an empty index has one page; empty tables have none
    SELECT 8192 * count(*) FILTER (WHERE relkind = 'i')
         + 8192 * count(*) FILTER (WHERE reltoastrelid <> 0) AS bytes FROM relation
)
SELECT (SELECT sum(pg_total_relation_size(oid)) FROM relation WHERE relkind = 'r')
       - (SELECT bytes FROM empty) AS all,
       (SELECT coalesce(sum(pg_column_size(b.*)), 0) FROM eventsched_log.batch b
        JOIN (SELECT stream, min(seq) AS first FROM eventsched_log.pod GROUP BY stream) AS pods
        ON pods.stream = b.stream AND b.first + b.count <= pods.first)
       + pg_total_relation_size('eventsched_log.node') AS nodes,
       (SELECT count(*) FROM eventsched_log.decision WHERE outcome = 'scheduled') AS scheduled
"""


@dataclass(frozen=True, slots=True)
class StoredBatch:
    """A batch as it is in the database; see SealedBatch. ``written_at`` is in µs since 1970."""

    first: int
    count: int
    epoch: int
    written_at: int
    mark: str
    hash: bytes
    body: str

    @property
    def records(self) -> list[Stored]:
        """Its records. Raises CorruptLogError for a body of another form."""
        try:
            items = _items.decode(self.body)
            return [
                Stored(self.first + n, at, cause, _kind_of(bytes(raw)), version, bytes(raw))
                for n, (at, cause, version, raw) in enumerate(items)
            ]
        except msgspec.MsgspecError as problem:
            raise CorruptLogError(self.first, str(problem)) from problem


_PREFIX = b'{"kind":"'


def _kind_of(body: bytes) -> str:
    """A record's kind, which stands at its beginning unless somebody has written it by hand. Raises
    msgspec.MsgspecError where there is none."""
    if body.startswith(_PREFIX):
        return body[len(_PREFIX) : body.index(b'"', len(_PREFIX))].decode()
    kind: str = _kind.decode(body).kind  # type: ignore[attr-defined]
    return kind


def connected(address: str) -> Engine:
    """An engine that opens a connection for each use."""
    return create_engine(sqlalchemy_url(address), poolclass=NullPool)


class Reader:
    """A stream's log, to be read."""

    def __init__(self, address: str, stream: str) -> None:
        """Raises UnavailableError where the database is away or its schema is not ours, and
        InputError where there is no such stream."""
        self.address, self.stream = address, stream
        self._engine = connected(address)
        with self.connection() as connection:
            migrations.check(connection, address)
            number = connection.scalar(
                select(log_tables.stream.c.id).where(log_tables.stream.c.name == stream)
            )
            names = connection.scalars(select(log_tables.stream.c.name)).all()
        if number is None:
            known = ", ".join(sorted(names)) or "none"
            raise InputError("--stream", f"there is no stream {stream}", f"there are: {known}")
        self.number = int(number)

    @contextmanager
    def connection(self, *, one_moment: bool = True) -> Iterator[Connection]:
        """A connection for some reads, all of one moment, or each by itself: a transaction that
        stays open keeps Postgres from cleaning up the stream's head, which every append changes.
        The role's timeouts are for what people ask, not for this. Raises UnavailableError."""
        level = "REPEATABLE READ" if one_moment else "AUTOCOMMIT"
        try:
            with self._engine.connect() as connection:
                connection.execution_options(isolation_level=level)
                connection.execute(text("SET statement_timeout = 0"))
                yield connection
        except OperationalError as problem:
            raise migrations.away(self.address, problem) from problem

    @property
    def head(self) -> Head:
        """The stream's committed head."""
        with self.connection() as connection:
            row = connection.execute(
                select(log_tables.head.c.next, log_tables.head.c.hash).where(
                    log_tables.head.c.stream == self.number
                )
            ).one()
        return Head(row.next, bytes(row.hash))

    def batches(self, first: int = 0) -> Iterator[StoredBatch]:
        """The batches that hold the position, or come after it, in order, up to the head of this
        moment; some at a time, each page a transaction of its own."""
        table = log_tables.batch
        query = (
            select(
                table.c.first, table.c.count, table.c.epoch,
                text("(extract(epoch FROM written_at) * 1000000)::bigint AS written_at"),
                text("mark::text AS mark"), table.c.hash, text("body::text AS body"),
            )
            .where(table.c.stream == self.number, table.c.first >= bindparam("begin"))
            .order_by(table.c.first)
            .limit(_PAGE)
        )  # fmt: skip
        begin, end = self.batch_with(first), self.head.next
        with self.connection(one_moment=False) as connection:
            while begin < end:
                rows = connection.execute(query, {"begin": begin}).all()
                for row in rows:
                    if row.first >= end:
                        return
                    yield StoredBatch(*row)
                if len(rows) < _PAGE:
                    return
                begin = rows[-1].first + 1

    def batch_with(self, position: int) -> int:
        """Where the batch begins that holds a position; the last one, if the log ends before."""
        table = log_tables.batch
        query = select(func.max(table.c.first)).where(
            table.c.stream == self.number, table.c.first <= position
        )
        with self.connection() as connection:
            return int(connection.scalar(query) or 0)

    def read(self, first: int = 0) -> Iterator[Stored]:
        """The records from a position on, in order."""
        for batch in self.batches(first):
            for record in batch.records:
                if record.position >= first:
                    yield record

    def last_batch(self) -> StoredBatch | None:
        """The newest batch; None in an empty stream."""
        head = self.head
        return None if head.next == 0 else next(self.batches(head.next - 1))

    def hash_before(self, position: int) -> bytes | None:
        """The hash of the batch that ends right before a position; None where none does."""
        table = log_tables.batch
        query = (
            select(table.c.hash, (table.c.first + table.c.count).label("next"))
            .where(table.c.stream == self.number, table.c.first < position)
            .order_by(table.c.first.desc())
            .limit(1)
        )
        with self.connection() as connection:
            row = connection.execute(query).one_or_none()
        return bytes(row.hash) if row is not None and row.next == position else None

    def detail(self, position: int) -> Detail | None:
        """The vectors of a decision, whole; None where there are none (any more)."""
        chain = text(
            "WITH RECURSIVE chain AS ("
            " SELECT seq, base, body FROM eventsched_log.detail WHERE stream = :s AND seq = :p"
            " UNION ALL SELECT d.seq, d.base, d.body FROM chain c"
            " JOIN eventsched_log.detail d ON d.stream = :s AND d.seq = c.base"
            ") SELECT seq, base, body FROM chain"
        )
        with self.connection() as connection:
            rows = connection.execute(chain, {"s": self.number, "p": position}).all()
        parts = {row.seq: vectors.unpack(bytes(row.body), row.base) for row in rows}
        return whole(position, parts.get)

    def snapshot(self, before: int = sys.maxsize) -> StoredSnapshot | None:
        """The newest snapshot of a position before that one."""
        table = log_tables.snapshot
        query = (
            select(table.c.seq, table.c.hash, table.c.digest, table.c.version, table.c.body)
            .where(table.c.stream == self.number, table.c.seq < before)
            .order_by(table.c.seq.desc())
            .limit(1)
        )
        with self.connection() as connection:
            row = connection.execute(query).one_or_none()
        if row is None:
            return None
        return StoredSnapshot(row.seq, bytes(row.hash), row.digest, row.version, bytes(row.body))

    def usage(self) -> LogSize:
        """What the whole database takes on disk, all streams together."""
        row = self.rows(_USAGE)[0]
        return LogSize(int(row["nodes"]), int(row["all"] - row["nodes"]), int(row["scheduled"]))

    def seconds(self) -> float:
        """Real seconds from the first batch to the last one."""
        query = (
            "SELECT extract(epoch FROM max(written_at) - min(written_at)) AS seconds"
            " FROM eventsched_log.batch WHERE stream = :s"
        )
        return float(self.rows(query)[0]["seconds"] or 0.0)

    def rows(self, query: str, **values: Any) -> list[RowMapping]:
        """The rows of a query with named parameters (``:name``); ``:s`` is the stream's number."""
        with self.connection() as connection:
            return list(connection.execute(text(query), {"s": self.number, **values}).mappings())


def streams(address: str) -> list[str]:
    """The names of all streams in a database, the oldest first. Raises UnavailableError."""
    try:
        with connected(address).connect() as connection:
            migrations.check(connection, address)
            return list(
                connection.scalars(
                    select(log_tables.stream.c.name).order_by(log_tables.stream.c.id)
                )
            )
    except OperationalError as problem:
        raise migrations.away(address, problem) from problem


def chosen(address: str, stream: str | None) -> str:
    """The stream that is meant: the named one, or the only one there is. Raises InputError."""
    if stream is not None:
        return stream
    found = streams(address)
    if len(found) == 1:
        return found[0]
    if not found:
        raise InputError(shown(address), "holds no stream", "run a scheduler on it first")
    raise InputError(
        "--stream", f"the database holds {len(found)} streams", f"name one: {', '.join(found)}"
    )
