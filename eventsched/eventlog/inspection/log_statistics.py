"""The size of a log and its growth.

Reads counters, the catalogue and single batches, so that it takes as long for a large log as for a
small one: at most two dozen batches of a stream are parsed.
"""

from typing import Any, NamedTuple

import psycopg
from psycopg import sql

from eventsched.domain.errors import InputError
from eventsched.domain.units import DAY, SECOND, is_virtual
from eventsched.eventlog.postgres.writer_connection import connect
from eventsched.eventlog.schema import migrations

SMALL = 8 * 2**20
"""Bytes of a table up to which its rows are counted; beyond that they are estimated."""
_SCHEMA = "eventsched_log"
_STREAMS = """
SELECT s.id, s.name, h.epoch, h.next, f.first, f.at, l.at,
       (SELECT coalesce(sum(c.records), 0)::bigint FROM eventsched_log.record_count c
        WHERE c.stream = s.id AND c.kind = 'PodDecided')
FROM eventsched_log.stream s JOIN eventsched_log.head h ON h.stream = s.id
LEFT JOIN LATERAL (
    SELECT b.first, (b.body #>> '{0,0}')::bigint AS at FROM eventsched_log.batch b
    WHERE b.stream = s.id ORDER BY b.first LIMIT 1) f ON true
LEFT JOIN LATERAL (
    SELECT (b.body #>> '{-1,0}')::bigint AS at FROM eventsched_log.batch b
    WHERE b.stream = s.id ORDER BY b.first DESC LIMIT 1) l ON true
ORDER BY s.id
"""
_POSITION_AT = """
WITH RECURSIVE search AS (
    SELECT %(first)s::bigint AS low, %(next)s::bigint AS high
    UNION ALL
    SELECT CASE WHEN b.at < %(at)s THEN b.first + b.count ELSE s.low END,
           CASE WHEN b.at < %(at)s THEN s.high ELSE b.first END
    FROM search s CROSS JOIN LATERAL (
        SELECT b.first, b.count, (b.body #>> '{0,0}')::bigint AS at FROM eventsched_log.batch b
        WHERE b.stream = %(stream)s AND b.first <= (s.low + s.high) / 2
        ORDER BY b.first DESC LIMIT 1) b
    WHERE s.low < s.high
)
SELECT max(low) FROM search
"""
"""The first batch that begins at a time or later, by binary search: times never decrease."""
_TABLES = """
WITH part AS (
    SELECT coalesce(pg_partition_root(c.oid), c.oid)::oid AS root, pg_relation_size(c.oid) AS main,
           CASE c.reltoastrelid WHEN 0 THEN 0 ELSE pg_total_relation_size(c.reltoastrelid) END
               AS toast,
           pg_table_size(c.oid) AS heap_and_toast, pg_indexes_size(c.oid) AS indexes
    FROM pg_class c
    WHERE c.relnamespace = 'eventsched_log'::regnamespace AND c.relkind IN ('r', 'p')
)
SELECT c.relname::text, sum(p.main)::bigint, sum(p.heap_and_toast - p.toast)::bigint,
       sum(p.toast)::bigint, sum(p.indexes)::bigint
FROM part p JOIN pg_class c ON c.oid = p.root WHERE has_table_privilege(c.oid, 'SELECT')
GROUP BY c.relname ORDER BY sum(p.heap_and_toast + p.indexes) DESC, c.relname
"""
_SERVER = (
    "SELECT pg_database_size(current_database()),"
    " (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
)


SHORTEST_SPAN = 300 * SECOND
"""µs between the first record and the last one (for a scheduler's stream: and now) from which the
growth in a day is estimated."""


class TableStatistics(NamedTuple):
    """A table of the log with its partitions, of all streams. ``heap_bytes`` includes its maps of
    free space and visibility."""

    table: str
    rows: int
    rows_are_estimated: bool
    heap_bytes: int
    toast_bytes: int
    index_bytes: int

    @property
    def bytes(self) -> int:
        """Bytes on disk."""
        return self.heap_bytes + self.toast_bytes + self.index_bytes


class Growth(NamedTuple):
    """How much a stream grows in a day, by its last ``seconds``: its whole age if
    ``is_whole_age``, else a day. Bytes are estimated: those of an average record."""

    records_per_day: int
    bytes_per_day: int
    seconds: float
    is_whole_age: bool


class StreamStatistics(NamedTuple):
    """A stream. ``first_at`` and ``last_at`` are the times of its first and last record (µs)."""

    stream: str
    records: int
    decisions: int
    batches: int
    batches_are_estimated: bool
    epochs: int
    first_at: int | None
    last_at: int | None
    growth: Growth | None

    @property
    def is_simulated(self) -> bool:
        """Whether its times, and so its days, are those of a simulation."""
        return self.last_at is not None and is_virtual(self.last_at)


class LogStatistics(NamedTuple):
    """A database at one moment, ``at`` (µs since 1970 by the server's clock).

    ``decisions`` are those of all streams, ``database_bytes`` also count what is not the log's."""

    streams: list[StreamStatistics]
    tables: list[TableStatistics]
    decisions: int
    database_bytes: int
    at: int

    @property
    def bytes(self) -> int:
        """Bytes on disk of all tables of the log."""
        return sum(table.bytes for table in self.tables)


def read_statistics(address: str, stream: str | None = None) -> LogStatistics:
    """The statistics of a database, and of one stream or all. Raises InputError if there is no such
    stream, DatabaseRefusedError if the schema is not this version's, and UnavailableError."""
    migrations.require(address)
    with connect(address, "eventsched db stats") as connection:
        try:
            connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            return _read(connection, stream)
        except psycopg.OperationalError as problem:
            message = str(problem).strip().splitlines()[0]
            raise migrations.unreachable(address, message) from problem


def _read(connection: psycopg.Connection[Any], stream: str | None) -> LogStatistics:
    [(database_bytes, now)] = connection.execute(_SERVER).fetchall()
    tables = [_table(connection, *row) for row in connection.execute(_TABLES).fetchall()]
    rows = connection.execute(_STREAMS).fetchall()
    names = [row[1] for row in rows]
    if stream is not None and stream not in names:
        known = ", ".join(sorted(names)) or "none"
        raise InputError("--stream", f"there is no stream {stream}", f"there are: {known}")
    records = sum(_records(row) for row in rows)
    bytes_per_record = sum(table.bytes for table in tables) / max(records, 1)
    are_estimated = next(t.rows_are_estimated for t in tables if t.table == "batch")
    streams = []
    for row in rows:
        number, name, epoch, end, first, first_at, last_at, decisions = row
        if stream is not None and name != stream:
            continue
        condition = sql.SQL("batch WHERE stream = {}").format(number)
        batches = _number(connection, condition, estimated=are_estimated)
        growth = None
        if first_at is not None:
            until = last_at if is_virtual(last_at) else max(now, last_at)
            span = _Span(number, first, end, first_at, until)
            growth = _growth(connection, span, bytes_per_record)
        streams.append(
            StreamStatistics(
                name, _records(row), decisions, batches, are_estimated, epoch,
                first_at, last_at, growth,
            )
        )  # fmt: skip
    return LogStatistics(streams, tables, sum(row[-1] for row in rows), database_bytes, now)


def _records(row: tuple[Any, ...]) -> int:
    """The records that a row of ``_STREAMS`` says are stored."""
    end, first = row[3], row[4]
    return 0 if first is None else int(end - first)


def _table(
    connection: psycopg.Connection[Any], name: str, main: int, heap: int, toast: int, indexes: int
) -> TableStatistics:
    is_large = main > SMALL
    rows = _number(connection, sql.Identifier(name), estimated=is_large)
    return TableStatistics(name, rows, is_large, heap, toast, indexes)


def _number(
    connection: psycopg.Connection[Any], what: sql.Composable, *, estimated: bool
) -> int:  # fmt: skip
    """The number of rows of a table or of a part of it, counted or as the planner estimates it from
    the last ANALYZE and the present size of the table."""
    table = sql.SQL("{}.{}").format(sql.Identifier(_SCHEMA), what)
    if not estimated:
        [(count,)] = connection.execute(sql.SQL("SELECT count(*) FROM {}").format(table)).fetchall()
        return int(count)
    query = sql.SQL("EXPLAIN (FORMAT JSON) SELECT FROM {}").format(table)
    [([plan],)] = connection.execute(query).fetchall()
    return int(plan["Plan"]["Plan Rows"])


class _Span(NamedTuple):
    """The positions ``first`` to ``end`` of a stream, and their times (µs)."""

    stream: int
    first: int
    end: int
    since: int
    until: int


def _growth(
    connection: psycopg.Connection[Any], span: _Span, bytes_per_record: float
) -> Growth | None:
    """The growth by the last day of the span. None if the span is too short to say anything."""
    since = max(span.since, span.until - DAY)
    if span.until - since < SHORTEST_SPAN:
        return None
    values = {"stream": span.stream, "first": span.first, "next": span.end, "at": since}
    [(position,)] = connection.execute(_POSITION_AT, values).fetchall()
    per_day = (span.end - position) * DAY / (span.until - since)
    return Growth(
        round(per_day),
        round(per_day * bytes_per_record),
        (span.until - since) / 1e6,
        is_whole_age=since == span.since,
    )
