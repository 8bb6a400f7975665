"""A long log made of a shorter one: what was decided for its pods, again for pods of other names.

Copies are for timing queries. Their chain and their derived rows are right; the draws of their
decisions are the first copy's, so ``replay --verify`` would find them wrong.
"""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg

from eventsched.eventlog.chain import SealedBatch, Term, batch_hash

_RECORD = re.compile(r"^( ?\[|\[\[)(\d+),(\d+),", re.MULTILINE)
_UID = re.compile(r'("uid":"[0-9a-f]{8}-[0-9a-f]{4}-)5[0-9a-f]')
_BATCHES = """
SELECT b.first, b.count, b.epoch, (extract(epoch FROM b.written_at) * 1000000)::bigint AS written,
       b.mark::text AS mark, b.body::text AS body, e.token
FROM eventsched_log.batch b JOIN eventsched_log.epoch e USING (stream, epoch)
WHERE b.stream = %s AND b.first >= %s AND b.first < %s ORDER BY b.first
"""
_DERIVED = (
    """INSERT INTO eventsched_log.detail (stream, seq, base, body)
    SELECT stream, seq + %(shift)s,
           base + CASE WHEN base < %(begin)s THEN 0 ELSE %(shift)s END, body
    FROM eventsched_log.detail
    WHERE stream = %(stream)s AND seq >= %(begin)s AND seq < %(end)s""",
    """INSERT INTO eventsched_log.pod (stream, uid, namespace, name, seq)
    SELECT stream, overlay(uid::text PLACING %(prefix)s FROM 15)::uuid, namespace,
           replace(name, 'pod-', 'pod-' || %(prefix)s::text || '-'), seq + %(shift)s
    FROM eventsched_log.pod
    WHERE stream = %(stream)s AND seq >= %(begin)s AND seq < %(end)s""",
    """INSERT INTO eventsched_log.decision
    SELECT (jsonb_populate_record(d, jsonb_build_object('seq', d.seq + %(shift)s,
            'at', d.at + %(later)s, 'pod', overlay(d.pod::text PLACING %(prefix)s FROM 15)))).*
    FROM eventsched_log.decision d
    WHERE stream = %(stream)s AND seq >= %(begin)s AND seq < %(end)s""",
)


def multiply(url: str, stream: str, times: int) -> int:
    """Appends copies to a stream until there are ``times``, the first included, each after the one
    before in position and time. Returns the number of decisions. At most 80 copies: the version
    digit of a uid, 5, distinguishes them."""
    with psycopg.connect(url) as connection:
        number, end = _row(
            connection,
            "SELECT h.stream, h.next FROM eventsched_log.head h JOIN eventsched_log.stream s"
            " ON s.id = h.stream WHERE s.name = %s",
            stream,
        )
        begin = _begin(connection, number)
        (latest,) = _row(
            connection,
            "SELECT max(at) FROM eventsched_log.decision WHERE stream = %s",
            number,
        )
        hour = 3_600_000_000
        for copy in range(1, times):
            shift, later = copy * (end - begin), copy * (latest // hour + 2) * hour
            values = {"prefix": f"{copy:02x}", "shift": shift, "later": later}
            _copy_batches(connection, stream, number, (begin, end), values)
            for statement in _DERIVED:
                values.update(stream=number, begin=begin, end=end)
                connection.execute(statement, values)
        (decisions,) = _row(
            connection, "SELECT count(*) FROM eventsched_log.decision WHERE stream = %s", number
        )
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")
    return int(decisions)


def _row(connection: "psycopg.Connection[Any]", query: str, value: object) -> tuple[Any, ...]:
    row: tuple[Any, ...] | None = connection.execute(query.encode(), (value,)).fetchone()
    assert row is not None
    return row


def _begin(connection: "psycopg.Connection[Any]", number: int) -> int:
    """Where the first batch begins after everything that is there once: nodes, dictionaries and
    the vectors that later ones build on."""
    (once,) = _row(
        connection,
        """SELECT greatest((SELECT max(seq) FROM eventsched_log.node WHERE stream = n),
                  (SELECT max(first + count) FROM eventsched_log.batch WHERE stream = n
                   AND body::text ~ '"kind":"(Verdict|Scoring)Defined"'))
        FROM (SELECT %s::integer AS n) x""",
        number,
    )
    row = connection.execute(
        "SELECT first FROM eventsched_log.batch WHERE stream = %s AND first > %s"
        " ORDER BY first LIMIT 1",
        (number, once),
    ).fetchone()
    assert row is not None
    return int(row[0])


def _copy_batches(
    connection: "psycopg.Connection[Any]",
    stream: str,
    number: int,
    span: tuple[int, int],
    values: dict[str, Any],
) -> None:
    head = _row(connection, "SELECT hash FROM eventsched_log.head WHERE stream = %s", number)[0]
    previous = bytes(head)
    following = 0
    rows = connection.execute(_BATCHES, (number, *span)).fetchall()
    with (
        connection.cursor() as writing,
        writing.copy(
            "COPY eventsched_log.batch (stream, first, count, epoch, written_at, mark, hash, body)"
            " FROM STDIN"
        ) as copy,
    ):
        for first, count, epoch, written, mark, body, token in rows:
            sealed = SealedBatch(
                term=Term(stream, epoch, token.bytes),
                first=first + values["shift"],
                count=count,
                written_at=written,
                mark=mark.encode(),
                previous=previous,
                hash=b"",
                body=_shifted(body, **values).encode(),
                details={},
            )
            previous = batch_hash(sealed)
            following = sealed.first + count
            at = datetime.fromtimestamp(0, UTC) + timedelta(microseconds=written)
            copy.write_row(
                (number, sealed.first, count, epoch, at, mark, previous, sealed.body.decode())
            )
    connection.execute(
        "UPDATE eventsched_log.head SET next = %s, hash = %s WHERE stream = %s",
        (following, previous, number),
    )


def _shifted(body: str, prefix: str, shift: int, later: int, **_: object) -> str:
    """A batch's text with its positions, times, uids and pods' names moved on."""

    def moved(found: "re.Match[str]") -> str:
        opening, at, cause = found.groups()
        return f"{opening}{int(at) + later},{int(cause) + shift},"

    body = _RECORD.sub(moved, body)
    body = _UID.sub(rf"\g<1>{prefix}", body)
    return body.replace('"name":"pod-', f'"name":"pod-{prefix}-')
