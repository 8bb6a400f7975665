"""Deletes the vectors of old decisions: they are most of a log, and only explanations need them.

Decisions and the digests of their vectors stay, so the hash chain remains intact. ``eventsched
verify`` then needs ``--thinned``.
"""

from datetime import UTC, datetime, timedelta

import psycopg

from eventsched.eventlog.address_file import Address, for_login
from eventsched.eventlog.postgres.writer_connection import connect
from eventsched.eventlog.schema import migrations


def thin(where: Address, stream: str, age: float, now: int) -> int:
    """Deletes the vectors of decisions that are more than ``age`` seconds older than ``now`` (µs
    since 1970) and returns their number. Blocks until done. Raises UnavailableError."""
    before = datetime.fromtimestamp(now / 1e6, UTC) - timedelta(seconds=age)
    with for_login(where) as address:
        connection = connect(address, f"eventsched thins {stream}")
    try:
        row = connection.execute("SELECT eventsched_log.thin(%s, %s)", (stream, before)).fetchone()
    except psycopg.Error as problem:
        raise migrations.unreachable(address, str(problem).split("\n")[0]) from problem
    finally:
        connection.close()
    return int(row[0]) if row is not None else 0
