"""What ``eventsched db doctor`` knows about a database: facts that SQL reads once, in one read-only
transaction. The checks are functions of them.
"""

import time
from typing import Any, LiteralString, NamedTuple

import psycopg
from psycopg import sql

from eventsched.eventlog.inspection.access_facts import AccessFacts, read_access
from eventsched.eventlog.postgres.writer_connection import connect
from eventsched.eventlog.schema import migrations
from eventsched.eventlog.schema.migrations import StoredVersion

CLOCK_READINGS = 5
"""Comparisons of the two clocks; the one with the shortest round trip counts."""
_LIMITS = "SET statement_timeout = '30s'; SET lock_timeout = '10s'"
_OWN = ("command line", "configuration file", "default", "environment variable", "override")
"""Sources of settings that hold for the whole server, not only for this session."""
_SETTINGS = """
SELECT name, setting FROM pg_settings WHERE source = ANY(%s) AND name = ANY(%s)
"""
_NAMES = [
    "autovacuum", "data_checksums", "default_transaction_read_only", "fsync", "full_page_writes",
    "max_slot_wal_keep_size", "synchronous_commit", "synchronous_standby_names", "track_counts",
    "wal_level",
]  # fmt: skip
_SERVER = """
SELECT current_setting('server_version_num')::integer, pg_is_in_recovery(),
       quote_ident(current_database()),
       pg_has_role('pg_read_all_stats', 'USAGE'),
       ARRAY(SELECT r.application_name FROM pg_stat_replication r
             WHERE r.application_name NOT IN ('pg_basebackup', 'pg_receivewal') AND NOT EXISTS (
                 SELECT FROM pg_replication_slots s
                 WHERE s.active_pid = r.pid AND s.slot_type = 'logical') ORDER BY 1)
"""
_ROLE_SETTINGS = """
SELECT quote_ident(r.rolname), s.setdatabase <> 0, split_part(c, '=', 1), split_part(c, '=', 2)
FROM pg_db_role_setting s CROSS JOIN unnest(s.setconfig) c
LEFT JOIN pg_roles r ON r.oid = s.setrole
WHERE (s.setrole = 0 OR r.oid IS NOT NULL) AND s.setdatabase IN (
    0, (SELECT oid FROM pg_database WHERE datname = current_database()))
AND split_part(c, '=', 1) = ANY(%s) ORDER BY 1 NULLS FIRST, 2, 3
"""
_SLOTS = """
SELECT slot_name::text, active, coalesce(pg_wal_lsn_diff(CASE WHEN pg_is_in_recovery()
    THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END, restart_lsn), 0)::bigint
FROM pg_replication_slots WHERE restart_lsn IS NOT NULL ORDER BY 3 DESC, 1 LIMIT 20
"""
_PREPARED = """
SELECT quote_literal(gid), owner::text, extract(epoch FROM clock_timestamp() - prepared)::float8
FROM pg_prepared_xacts WHERE database = current_database() ORDER BY prepared LIMIT 20
"""
_TRANSACTIONS = """
SELECT pid, coalesce(usename::text, ''), coalesce(application_name, ''),
       extract(epoch FROM clock_timestamp() - xact_start)::float8
FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND xact_start IS NOT NULL
AND (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL) AND backend_type = 'client backend'
ORDER BY xact_start LIMIT 20
"""
_REVISION = """
SELECT version_num, coalesce(to_jsonb(m) ->> 'serves', '') FROM eventsched_log.migration m
"""
_READABLE = """
SELECT EXISTS (SELECT FROM pg_class WHERE relnamespace = n.oid AND relname = 'migration'),
       coalesce((SELECT bool_and(has_table_privilege(c.oid, 'SELECT')) FROM pg_class c
                 WHERE c.relnamespace = n.oid
                 AND c.relname IN ('migration', 'stream', 'head', 'batch')), true)
       AND has_schema_privilege(n.oid, 'USAGE')
FROM pg_namespace n WHERE n.nspname = 'eventsched_log'
"""
_ENDS = """
SELECT s.name, h.next, h.hash, b.first, b.count, b.hash
FROM eventsched_log.stream s LEFT JOIN eventsched_log.head h ON h.stream = s.id
LEFT JOIN LATERAL (SELECT first, count, hash FROM eventsched_log.batch WHERE stream = s.id
                   ORDER BY first DESC LIMIT 1) b ON true
ORDER BY s.id
"""
# The tables whose rows are updated again and again. All others are appended to.
_UPDATED = """
SELECT relname::text, n_live_tup, n_dead_tup FROM pg_stat_user_tables
WHERE schemaname = 'eventsched_log' AND relname IN ('head', 'pod_now', 'record_count')
ORDER BY relname
"""
_TRIGGERS = """
SELECT c.relname || '.' || t.tgname, t.tgenabled::text
FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid JOIN pg_proc p ON p.oid = t.tgfoid
WHERE c.relnamespace = 'eventsched_log'::regnamespace AND p.proname = 'deny'
AND NOT c.relispartition
"""
# Partitions that are not as table partition has them. Rows of detail may be deleted.
_BROKEN_PARTITIONS = """
SELECT s.name, t.relname::text, c.wanted, p.oid IS NOT NULL, coalesce(p.relispartition, false),
       format('FOR VALUES FROM (%s, %s) TO (%s, %s)', c.stream, c.first, c.stream, c.next)
FROM (SELECT r.*, t.oid AS root, format('%s_%s_%s', t.relname, r.stream, r.first) AS wanted
      FROM eventsched_log.partition r JOIN pg_class t
      ON t.relnamespace = 'eventsched_log'::regnamespace AND t.relkind = 'p'
      WHERE (r.has_vectors OR t.relname <> 'detail')
        AND NOT EXISTS (SELECT FROM eventsched_log.pruned d  -- it may be dropped in part
                        WHERE d.stream = r.stream AND d.first = r.first)) c
JOIN eventsched_log.stream s ON s.id = c.stream JOIN pg_class t ON t.oid = c.root
LEFT JOIN pg_class p ON p.relname = c.wanted AND p.relnamespace = t.relnamespace
WHERE p.relispartition IS NOT TRUE
   OR (t.relname <> 'detail' AND 2 <> (
       SELECT count(*) FROM pg_trigger g JOIN pg_proc f ON f.oid = g.tgfoid
       WHERE g.tgrelid = p.oid AND f.proname = 'deny' AND g.tgenabled = 'A'))
ORDER BY c.stream, c.first, t.relname
"""


# Names of roles and of the database are quoted as SQL needs it.


class RoleSetting(NamedTuple):
    """A setting of a role (None: of all), in this database only or in all."""

    role: str | None
    in_database: bool
    name: str
    value: str


class Slot(NamedTuple):
    """A replication slot, and the WAL that it holds (bytes)."""

    name: str
    is_active: bool
    held_bytes: int


class OpenTransaction(NamedTuple):
    """A transaction that keeps VACUUM from removing what became dead after its start. ``name`` is a
    process id, or the quoted identifier of a prepared transaction."""

    name: str
    user: str
    application: str
    seconds: float


class ServerFacts(NamedTuple):
    """The server. ``clock_offset``: seconds by which its clock is ahead of this host's, known to
    within ``clock_error``. ``transactions`` is None if this user may not see those of others."""

    version: int
    is_in_recovery: bool
    database: str
    settings: dict[str, str]
    role_settings: list[RoleSetting]
    standbys: list[str]
    slots: list[Slot]
    prepared: list[OpenTransaction]
    transactions: list[OpenTransaction] | None
    clock_offset: float
    clock_error: float


class StreamEnd(NamedTuple):
    """The head of a stream and its last batch; None for each part that is missing."""

    stream: str
    next: int | None
    hash: bytes | None
    last_first: int | None
    last_count: int | None
    last_hash: bytes | None


class BrokenPartition(NamedTuple):
    """A partition that is missing, or that is not attached, or whose triggers do not all deny
    changes. ``bounds`` are those that it has to have, as in ATTACH PARTITION."""

    stream: str
    table: str
    name: str
    exists: bool
    is_attached: bool
    bounds: str


class UpdatedTable(NamedTuple):
    """A table whose rows are updated, and how many of them are live and dead, by Postgres's
    counters."""

    name: str
    live: int
    dead: int


class SchemaFacts(NamedTuple):
    """The log and its schema, if this version runs on it. ``triggers``: whether a trigger is
    enabled ('A': always), by ``table.trigger``."""

    ends: list[StreamEnd]
    updated_tables: list[UpdatedTable]
    triggers: dict[str, str]
    broken_partitions: list[BrokenPartition]
    access: AccessFacts


class DatabaseFacts(NamedTuple):
    """Everything. ``version`` is the schema's, None without a schema. ``schema`` is None if this
    version does not run on it, or this user may not read the log."""

    server: ServerFacts
    is_readable: bool
    version: StoredVersion | None
    schema: SchemaFacts | None


def read_facts(address: str) -> DatabaseFacts:
    """Reads the facts. Raises UnavailableError."""
    with connect(address, "eventsched db doctor") as connection:
        try:
            connection.execute(_LIMITS)
            offset, error = _clock(connection)
            connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            server = _server(connection, offset, error)
            [(has_schema, is_readable)] = _rows(connection, _READABLE) or [(False, True)]
            version = schema = None
            if has_schema and is_readable:
                version = next((StoredVersion(*row) for row in _rows(connection, _REVISION)), None)
            if version is not None and version.runs_us:
                schema = _schema(connection)
            return DatabaseFacts(server, is_readable, version, schema)
        except psycopg.OperationalError as problem:
            message = str(problem).strip().splitlines()[0]
            raise migrations.unreachable(address, message) from problem


def _clock(connection: psycopg.Connection[Any]) -> tuple[float, float]:
    """Seconds by which the server's clock is ahead, and how far off that may be."""
    offset, error = 0.0, float("inf")
    for _ in range(CLOCK_READINGS):
        before, began = time.time(), time.monotonic()
        [(there,)] = _rows(connection, "SELECT extract(epoch FROM clock_timestamp())::float8")
        half = (time.monotonic() - began) / 2
        if half < error:
            offset, error = there - before - half, half
    return offset, error


def _server(connection: psycopg.Connection[Any], offset: float, error: float) -> ServerFacts:
    [(version, recovers, database, sees_all, standbys)] = _rows(connection, _SERVER)
    settings = dict(_rows(connection, _SETTINGS, (list(_OWN), _NAMES)))
    return ServerFacts(
        version=version,
        is_in_recovery=recovers,
        database=database,
        settings=settings,
        role_settings=[RoleSetting(*row) for row in _rows(connection, _ROLE_SETTINGS, (_NAMES,))],
        standbys=standbys,
        slots=[Slot(*row) for row in _rows(connection, _SLOTS)],
        prepared=[
            OpenTransaction(gid, owner, "", age) for gid, owner, age in _rows(connection, _PREPARED)
        ],
        transactions=[
            OpenTransaction(str(pid), *rest) for pid, *rest in _rows(connection, _TRANSACTIONS)
        ]
        if sees_all
        else None,
        clock_offset=offset,
        clock_error=error,
    )


def _schema(connection: psycopg.Connection[Any]) -> SchemaFacts:
    return SchemaFacts(
        ends=[StreamEnd(*row) for row in _rows(connection, _ENDS)],
        updated_tables=[UpdatedTable(*row) for row in _rows(connection, _UPDATED)],
        triggers=dict(_rows(connection, _TRIGGERS)),
        broken_partitions=[BrokenPartition(*row) for row in _rows(connection, _BROKEN_PARTITIONS)],
        access=read_access(connection),
    )


def _rows(
    connection: psycopg.Connection[Any], query: LiteralString, values: tuple[Any, ...] = ()
) -> list[tuple[Any, ...]]:
    return connection.execute(sql.SQL(query), values or None).fetchall()
