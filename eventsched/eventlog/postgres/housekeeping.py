"""Housekeeping of a stream: makes the partitions of its tables, and drops those of old vectors.

Vectors are most of a log, and only explanations need them. Decisions and the digests of their
vectors stay, so the hash chain remains intact. ``eventsched verify`` then needs ``--thinned``.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, LiteralString

import psycopg

from eventsched.domain.errors import UnavailableError
from eventsched.eventlog.address_file import Address, for_login
from eventsched.eventlog.addresses import shown
from eventsched.eventlog.postgres.writer_connection import connect
from eventsched.eventlog.schema import migrations

_TRIES = 50
"""How often dropping a partition is tried while queries on vectors run; a try ends after 20 ms."""
_PAUSE = 0.1
"""Seconds between two tries."""

_UNARCHIVED = """
SELECT extract(epoch FROM b.written_at) FROM eventsched_log.stream s CROSS JOIN LATERAL (
    SELECT written_at FROM eventsched_log.batch
    WHERE stream = s.id AND first >= (
        SELECT coalesce(max(next), 0) FROM eventsched_log.archived WHERE stream = s.id)
    ORDER BY first LIMIT 1
) b WHERE s.name = %s
"""


def current_schema(where: Address) -> str:
    """The schema's revision. Raises UnavailableError; DatabaseRefusedError if this version does not
    run on it."""
    with for_login(where) as address:
        return migrations.require(address)


def make_partitions(where: Address, stream: str) -> int:
    """Makes a stream's next partition once the last one is half full. Returns the number of
    positions after the head for which there are partitions. Blocks until done; no append waits.
    Raises UnavailableError."""
    with housekeeping_connection(where, stream) as connection:
        row = connection.execute("SELECT eventsched_log.make_partitions(%s)", (stream,)).fetchone()
    return int(row[0] or 0) if row is not None else 0


def thin(where: Address, stream: str, age: float, now: int) -> int:
    """Drops the partitions whose vectors are all of decisions written more than ``age`` seconds
    before ``now`` (µs since 1970). Returns the number of their vectors. Blocks until done, or until
    it gave up because of queries on vectors. Raises UnavailableError."""
    before = datetime.fromtimestamp(now / 1e6, UTC) - timedelta(seconds=age)
    with housekeeping_connection(where, stream) as connection:
        counts = until_none(connection, "SELECT eventsched_log.thin(%s, %s)", (stream, before))
        return sum(counts)


def unarchived_since(where: Address, stream: str) -> float | None:
    """When the oldest record that no archive is known to hold was written (s since 1970); None if
    there is none. Raises UnavailableError."""
    with housekeeping_connection(where, stream) as connection:
        row = connection.execute(_UNARCHIVED, (stream,)).fetchone()
    return None if row is None else float(row[0])


def until_none(
    connection: psycopg.Connection, query: LiteralString, values: tuple[object, ...]
) -> Iterator[Any]:
    """The results of a query that drops one table at a time, until it returns nothing (null or 0),
    or until other queries have held it up too often."""
    tries = 0
    while tries < _TRIES:
        try:
            row = connection.execute(query, values).fetchone()
        except psycopg.errors.LockNotAvailable:
            tries += 1
            time.sleep(_PAUSE)
            continue
        if row is None or not row[0]:
            return
        yield row[0]


@contextmanager
def housekeeping_connection(where: Address, stream: str) -> Iterator[psycopg.Connection]:
    """A connection that commits each statement. Raises UnavailableError for all that goes wrong
    with the database in the block."""
    with for_login(where) as address:
        connection = connect(address, f"eventsched keeps house in {stream}")
    try:
        yield connection
    except psycopg.errors.InsufficientPrivilege as problem:
        remedy = problem.diag.message_hint or "GRANT eventsched_writer to this user"
        raise UnavailableError(shown(address), str(problem).split("\n")[0], remedy) from problem
    except psycopg.Error as problem:
        raise migrations.unreachable(address, str(problem).split("\n")[0]) from problem
    finally:
        connection.close()
