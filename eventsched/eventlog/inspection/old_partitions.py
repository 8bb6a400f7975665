"""What retention would free: the partitions that are older than a time, and their sizes."""

from datetime import UTC, datetime
from typing import NamedTuple

import psycopg

from eventsched.eventlog.postgres.writer_connection import connect
from eventsched.eventlog.schema import migrations

_OLD = """
SELECT s.name, count(*), count(*) FILTER (WHERE p.seal IS NOT NULL),
       coalesce(sum(t.bytes), 0)::bigint, coalesce(sum(t.vectors), 0)::bigint
FROM eventsched_log.partition p
JOIN eventsched_log.stream s ON s.id = p.stream
JOIN eventsched_log.head h ON h.stream = p.stream
CROSS JOIN LATERAL (
    SELECT b.written_at FROM eventsched_log.batch b
    WHERE b.stream = p.stream AND b.first < p.next ORDER BY b.first DESC LIMIT 1
) b
CROSS JOIN LATERAL (
    SELECT sum(pg_total_relation_size(c.oid)) AS bytes,
           sum(pg_total_relation_size(c.oid)) FILTER (WHERE r.relname = 'detail') AS vectors
    FROM pg_class r JOIN pg_inherits i ON i.inhparent = r.oid JOIN pg_class c ON c.oid = i.inhrelid
    WHERE r.relnamespace = 'eventsched_log'::regnamespace AND r.relkind = 'p'
      AND c.relname = format('%%s_%%s_%%s', r.relname, p.stream, p.first)
) t
WHERE p.next <= h.next AND b.written_at < %s
GROUP BY s.name ORDER BY s.name
"""


class OldPartitions(NamedTuple):
    """The full partitions of a stream whose records are all older than a time. ``sealed`` of them
    may be dropped now. ``bytes`` are those of all their tables, ``vector_bytes`` of vectors."""

    stream: str
    partitions: int
    sealed: int
    bytes: int
    vector_bytes: int


def old_partitions(address: str, before: int) -> list[OldPartitions]:
    """The old partitions of each stream that has some; ``before`` is in µs since 1970. Raises
    UnavailableError."""
    migrations.require(address)
    with connect(address, "eventsched db stats") as connection:
        try:
            time = datetime.fromtimestamp(before / 1e6, UTC)
            return [OldPartitions(*row) for row in connection.execute(_OLD, (time,)).fetchall()]
        except psycopg.OperationalError as problem:
            message = str(problem).strip().splitlines()[0]
            raise migrations.unreachable(address, message) from problem
