"""Reads a log in Postgres: records, vectors, snapshots. Needs the role eventsched_auditor."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from threading import local
from typing import Any

from sqlalchemy import Connection, Engine, RowMapping, create_engine, text
from sqlalchemy.exc import OperationalError
from sqlalchemy.pool import NullPool, QueuePool

from eventsched.domain.errors import InputError
from eventsched.domain.records.verdicts import Detail
from eventsched.eventlog import vectors
from eventsched.eventlog.addresses import shown, sqlalchemy_url
from eventsched.eventlog.chain import Head
from eventsched.eventlog.port import LogSize, StoredRecord, StoredSnapshot, expand_deltas
from eventsched.eventlog.postgres.stored_batch import (
    BATCH_COLUMNS,
    DecodedRecord,
    StoredBatch,
    decoded_records,
    records_from,
)
from eventsched.eventlog.schema import migrations

_PAGE = 64
"""Batches that are fetched at a time."""
_STREAMS = "SELECT id, name FROM eventsched_log.stream ORDER BY id"
_HEAD = "SELECT next, hash FROM eventsched_log.head WHERE stream = :s"
_BEGIN = "SELECT max(next) AS begin FROM eventsched_log.pruned WHERE stream = :s"
_BATCHES = f"""
SELECT {BATCH_COLUMNS} FROM eventsched_log.batch b
WHERE b.stream = :s AND b.first >= :begin AND b.first < :end ORDER BY b.first LIMIT :page
"""
_BATCH_WITH = """
SELECT max(first) AS first FROM eventsched_log.batch WHERE stream = :s AND first <= :position
"""
_BATCH_BEFORE = """
SELECT hash, first + count AS next FROM eventsched_log.batch
WHERE stream = :s AND first < :position ORDER BY first DESC LIMIT 1
"""
# LIMIT 1 has one row read by its key. A join would read the whole table if the planner does not
# know how few rows a chain has, as right after a simulation.
_DETAIL_CHAIN = """
WITH RECURSIVE chain AS (
    SELECT seq, base, body FROM eventsched_log.detail WHERE stream = :s AND seq = :position
    UNION ALL
    SELECT d.seq, d.base, d.body FROM chain c CROSS JOIN LATERAL (
        SELECT seq, base, body FROM eventsched_log.detail
        WHERE stream = :s AND seq = c.base LIMIT 1
    ) d
)
SELECT seq, base, body FROM chain
"""
_DETAIL_CHAINS = """
WITH RECURSIVE chain AS (
    SELECT seq, base FROM eventsched_log.detail
    WHERE stream = :s AND seq = ANY(CAST(:positions AS bigint[]))
    UNION
    SELECT d.seq, d.base FROM chain c CROSS JOIN LATERAL (
        SELECT seq, base FROM eventsched_log.detail WHERE stream = :s AND seq = c.base LIMIT 1
    ) d
)
SELECT c.seq, c.base, d.body FROM chain c CROSS JOIN LATERAL (
    SELECT body FROM eventsched_log.detail WHERE stream = :s AND seq = c.seq LIMIT 1
) d
"""
_SNAPSHOT = """
SELECT seq, hash, digest, version, body FROM eventsched_log.snapshot
WHERE stream = :s AND seq < :before ORDER BY seq DESC LIMIT 1
"""
_PARTIAL_DETAILS = f"""
SELECT seq, body FROM eventsched_log.detail
WHERE stream = :s AND seq >= :begin AND base IS NULL AND get_byte(body, 0) = {vectors.PARTIAL}
ORDER BY seq LIMIT 1000
"""
_TERMS = """
SELECT DISTINCT first FROM eventsched_log.epoch
WHERE stream = :s AND first < :before ORDER BY first DESC
"""
_SECONDS = """
SELECT extract(epoch FROM max(written_at) - min(written_at)) AS seconds
FROM eventsched_log.batch WHERE stream = :s
"""
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


def database_engine(address: str, *, keeps_connection: bool = False) -> Engine:
    """An engine that opens a connection for each use, or keeps one open for the next use. It does
    not ask the server for the type hstore, which the log does not use."""
    url = sqlalchemy_url(address)
    if keeps_connection:
        return create_engine(url, poolclass=QueuePool, pool_size=1, use_native_hstore=False)
    return create_engine(url, poolclass=NullPool, use_native_hstore=False)


class _SharedConnection(local):
    """The connection that a thread makes all its reads on, in a block; see ``one_connection``."""

    connection: Connection | None = None


class Reader:
    """Reads the log of one stream."""

    def __init__(
        self,
        address: str,
        stream: str | None,
        *,
        keeps_connection: bool = False,
        engine: Engine | None = None,
    ) -> None:
        """Without ``stream`` the database has to have a single one. ``keeps_connection`` is for
        many short reads: opening a connection takes longer than most of them. A long-lived reader
        does not keep one, because the server may restart; or it is given an ``engine`` whose pool
        checks connections, and does not close that.

        Raises UnavailableError if the database is unreachable or its schema is not this version's,
        and InputError if there is no such stream."""
        self.address = address
        self._shared = _SharedConnection()
        self._owns_engine = engine is None
        self._engine = engine or database_engine(address, keeps_connection=keeps_connection)
        try:
            self.stream, self.number = self._found(stream)
        except BaseException:
            self.close()
            raise

    def _found(self, stream: str | None) -> tuple[str, int]:
        """The name and the number of a stream, or of the only one."""
        with self.connection() as connection:
            migrations.check(connection, self.address)
            numbers = {name: number for number, name in connection.execute(text(_STREAMS))}
        name = _only(self.address, list(numbers)) if stream is None else stream
        if name not in numbers:
            known = ", ".join(sorted(numbers)) or "none"
            raise InputError("--stream", f"there is no stream {name}", f"there are: {known}")
        return name, int(numbers[name])

    def close(self) -> None:
        """Closes the connection that it keeps, if any."""
        if self._owns_engine:
            self._engine.dispose()

    @contextmanager
    def connection(self, *, one_moment: bool = True) -> Iterator[Connection]:
        """A connection for some reads, in one transaction with one snapshot, or each by itself: an
        open transaction keeps Postgres from cleaning up the stream's head, which every append
        changes. The timeouts of the reader's role are meant for people's queries and do not apply
        here. Raises UnavailableError."""
        level = "REPEATABLE READ" if one_moment else "AUTOCOMMIT"
        try:
            if not one_moment and self._shared.connection is not None:
                yield self._shared.connection
                return
            with self._engine.connect() as connection:
                connection.execution_options(isolation_level=level)
                connection.execute(text("SET statement_timeout = 0"))
                yield connection
        except OperationalError as problem:
            raise migrations.connection_error(self.address, problem) from problem

    @contextmanager
    def one_connection(self) -> Iterator[None]:
        """In the block this thread makes all its reads, each by itself, on one connection: to take
        one from a pool and to check it takes as long as most of them. The block waits for nothing
        that another reader holds, and leaves no iterator behind. Raises UnavailableError."""
        if self._shared.connection is not None:
            yield
            return
        with self.connection(one_moment=False) as connection:
            self._shared.connection = connection
            try:
                yield
            finally:
                self._shared.connection = None

    @property
    def head(self) -> Head:
        """The stream's committed head."""
        [row] = self.rows(_HEAD)
        return Head(row["next"], bytes(row["hash"]))

    @property
    def begin(self) -> int:
        """The position of the first record that was not dropped."""
        return int(self.rows(_BEGIN)[0]["begin"] or 0)

    def batches(self, first: int = 0, end: int | None = None) -> Iterator[StoredBatch]:
        """The batch that holds position ``first`` and all later ones, in order, that begin before
        position ``end``, by default the head at the time of the call. Reads pages, each in a
        transaction of its own."""
        # Without an end many callers look at the first record only.
        begin, page = self.batch_with(first), 1 if end is None else _PAGE
        values = {"s": self.number, "end": self.head.next if end is None else end}
        with self.connection(one_moment=False) as connection:
            while True:
                asked = values | {"begin": begin, "page": page}
                rows = connection.execute(text(_BATCHES), asked).all()
                for row in rows:
                    yield StoredBatch(*row)
                if len(rows) < page:
                    return
                begin, page = rows[-1].first + 1, _PAGE

    def batch_with(self, position: int) -> int:
        """The first position of the batch that holds ``position``, or of the last batch if the log
        ends before."""
        return int(self.rows(_BATCH_WITH, position=position)[0]["first"] or 0)

    def read(self, first: int = 0) -> Iterator[StoredRecord]:
        """The records from position ``first`` on, in order."""
        return records_from(self.batches(first), first)

    def decoded(self, first: int, end: int) -> Iterator[DecodedRecord]:
        """The records from position ``first`` up to ``end``, decoded. It takes less time than
        ``read`` and then ``StoredRecord.record``. Raises CorruptLogError."""
        return decoded_records(self.batches(first, end), first, end)

    def last_batch(self) -> StoredBatch | None:
        """The newest batch; None in an empty stream."""
        head = self.head
        return None if head.next == 0 else next(self.batches(head.next - 1))

    def hash_before(self, position: int) -> bytes | None:
        """The hash of the batch that ends right before ``position``; None if no batch does."""
        for row in self.rows(_BATCH_BEFORE, position=position):
            if row["next"] == position:
                return bytes(row["hash"])
        return None

    def detail(self, position: int) -> Detail | None:
        """The vectors of a decision, with deltas expanded; None if there are none or they were
        thinned."""
        rows = self.rows(_DETAIL_CHAIN, position=position)
        details = {row["seq"]: vectors.unpack(bytes(row["body"]), row["base"]) for row in rows}
        return expand_deltas(position, details.get)

    def details(self, positions: Iterable[int]) -> dict[int, Detail]:
        """The same of several decisions at once, without those that have none."""
        asked = sorted(set(positions))
        rows = self.rows(_DETAIL_CHAINS, positions=asked)
        known = {row["seq"]: vectors.unpack(bytes(row["body"]), row["base"]) for row in rows}
        found = {}
        for position in asked:
            if (detail := expand_deltas(position, known.get)) is not None:
                found[position] = known[position] = detail  # later ones may refer to it
        return found

    def partial_details(self, first: int = 0) -> Iterator[tuple[int, Detail]]:
        """The partial vectors of decisions from position ``first`` on, in order, not expanded."""
        while rows := self.rows(_PARTIAL_DETAILS, begin=first):
            for row in rows:
                yield row["seq"], vectors.unpack(bytes(row["body"]), None)
            first = rows[-1]["seq"] + 1

    def snapshot(self, before: int = sys.maxsize) -> StoredSnapshot | None:
        """The newest snapshot of a position less than ``before``."""
        for row in self.rows(_SNAPSHOT, before=before):
            return StoredSnapshot(
                row["seq"], bytes(row["hash"]), row["digest"], row["version"], bytes(row["body"])
            )
        return None

    def term_starts(self, before: int) -> list[int]:
        """The positions less than ``before`` at which terms began, the newest first."""
        return [row["first"] for row in self.rows(_TERMS, before=before)]

    def usage(self) -> LogSize:
        """The size on disk of the whole database, all streams together."""
        [row] = self.rows(_USAGE)
        return LogSize(int(row["nodes"]), int(row["all"] - row["nodes"]), int(row["scheduled"]))

    def seconds(self) -> float:
        """Real seconds from the first batch to the last one."""
        return float(self.rows(_SECONDS)[0]["seconds"] or 0.0)

    def rows(self, query: str, **values: Any) -> list[RowMapping]:
        """The rows of a query with named parameters (``:name``); ``:s`` is the stream's number. A
        transaction around it would take as long as the query."""
        with self.connection(one_moment=False) as connection:
            found = connection.execute(text(query), {"s": self.number, **values})
            return list(found.mappings().all())  # row by row takes twice as long

    def view_rows(self, query: str, **values: Any) -> list[RowMapping]:
        """The rows of a query on views, which then look at this stream alone."""
        with self.connection() as connection:
            connection.execute(text(CHOOSE_STREAM), {"s": self.number})
            return list(connection.execute(text(query), {"s": self.number, **values}).mappings())


CHOOSE_STREAM = """
SELECT set_config('eventsched.stream', name, true) FROM eventsched_log.stream WHERE id = :s
"""
"""Makes the views show one stream until the end of the transaction."""


def streams(address: str) -> list[str]:
    """The names of all streams in a database, the oldest first. Raises UnavailableError."""
    try:
        with database_engine(address).connect() as connection:
            migrations.check(connection, address)
            return [row.name for row in connection.execute(text(_STREAMS))]
    except OperationalError as problem:
        raise migrations.connection_error(address, problem) from problem


def choose_stream(address: str, stream: str | None) -> str:
    """The named stream, or the only one of the database. Raises InputError."""
    return _only(address, streams(address)) if stream is None else stream


def _only(address: str, names: list[str]) -> str:
    """The only name. Raises InputError."""
    if len(names) == 1:
        return names[0]
    if not names:
        raise InputError(shown(address), "holds no stream", "run a scheduler on it first")
    raise InputError(
        "--stream", f"the database holds {len(names)} streams", f"name one: {', '.join(names)}"
    )
