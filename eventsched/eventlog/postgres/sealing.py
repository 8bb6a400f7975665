"""Finds the next partition of a stream to be sealed, and what its seal says.

A seal is a record of the log (PartitionSealed), so only the stream's writer can add it. From then
on the partition may be dropped: see pruning.py and docs/log-format.md.
"""

from collections.abc import Iterator
from hashlib import sha256
from typing import Any, NamedTuple

import psycopg

from eventsched.domain.records import PartitionSealed, StreamStarted, TermBegan
from eventsched.eventlog.address_file import Address
from eventsched.eventlog.chain import genesis
from eventsched.eventlog.log_errors import CorruptLogError
from eventsched.eventlog.postgres.housekeeping import housekeeping_connection
from eventsched.eventlog.postgres.stored_batch import BATCH_COLUMNS, StoredBatch

_FULL = """
SELECT p.stream, p.first, p.next FROM eventsched_log.partition p
JOIN eventsched_log.head h ON h.stream = p.stream
JOIN eventsched_log.stream s ON s.id = p.stream
WHERE s.name = %s AND p.next <= h.next AND p.seal IS NULL ORDER BY p.first LIMIT 1
"""
_END = """
SELECT first + count, hash FROM eventsched_log.batch
WHERE stream = %(stream)s AND first < %(before)s ORDER BY first DESC LIMIT 1
"""
_PRUNED = """
SELECT next, hash FROM eventsched_log.pruned WHERE stream = %s ORDER BY first DESC LIMIT 1
"""
_ARCHIVED = """
SELECT first, next, day, digests FROM eventsched_log.archived
WHERE stream = %s AND next > %s AND first < %s ORDER BY first
"""
_CHECKPOINT = "SELECT body FROM eventsched_log.checkpoint WHERE stream = %s AND seq = %s"
_EPOCHS = """
SELECT first FROM eventsched_log.epoch WHERE stream = %s AND first < %s ORDER BY epoch DESC
"""
_BATCH = f"""
SELECT {BATCH_COLUMNS} FROM eventsched_log.batch b
WHERE b.stream = %s AND b.first <= %s ORDER BY b.first DESC LIMIT 1
"""
_SEALS = """
SELECT seal FROM eventsched_log.partition WHERE stream = %(stream)s AND seal IS NOT NULL
UNION ALL SELECT seal FROM eventsched_log.pruned WHERE stream = %(stream)s ORDER BY 1 DESC
"""


class _End(NamedTuple):
    """The end of a batch, and its hash."""

    position: int
    hash: bytes


def next_seal(where: Address, stream: str, *, needs_archive: bool) -> PartitionSealed | None:
    """The seal of the oldest partition without one. None if it is not full, no state after its
    records is stored yet, or (with ``needs_archive``) no archive holds all of them. Keeps that
    state as a checkpoint. Blocks until done. Raises UnavailableError, and CorruptLogError if the
    log does not say what was in force."""
    with housekeeping_connection(where, stream) as connection:
        row = connection.execute(_FULL, (stream,)).fetchone()
        if row is None:
            return None
        number, first, border = row
        before = _end(connection, number, stream, first)
        after = _end(connection, number, stream, border)
        archived = _archived(connection, number, before.position, after.position)
        if archived is None and needs_archive:
            return None
        kept = connection.execute(
            "SELECT eventsched_log.keep_checkpoint(%s, %s)", (stream, after.position)
        ).fetchone()
        if kept is None or kept[0] is None:
            return None
        checkpoint = connection.execute(_CHECKPOINT, (number, kept[0])).fetchone()
        if checkpoint is None:  # the next leader has sealed and dropped the partition meanwhile
            return None
        return PartitionSealed(
            partition=first,
            first=before.position,
            next=after.position,
            before=before.hash.hex(),
            after=after.hash.hex(),
            checkpoint=kept[0],
            digest=sha256(checkpoint[0]).hexdigest(),
            opening=_opening(connection, number, kept[0]),
            archived=archived or {},
        )


def _end(connection: psycopg.Connection, number: int, stream: str, before: int) -> _End:
    """The end of the last batch that begins before a position."""
    row = connection.execute(_END, {"stream": number, "before": before}).fetchone()
    row = row or connection.execute(_PRUNED, (number,)).fetchone()
    return _End(0, genesis(stream)) if row is None else _End(row[0], bytes(row[1]))


def _archived(
    connection: psycopg.Connection, number: int, first: int, following: int
) -> dict[str, str] | None:
    """The digests of the archived files that hold the records of a range; None if some are not
    archived."""
    digests: dict[str, str] = {}
    end = first
    for begin, until, day, of_day in connection.execute(_ARCHIVED, (number, first, following)):
        if begin > end:
            return None
        end = until
        digests |= {f"{day}.{content}.parquet": digest for content, digest in of_day.items()}
    return digests if end >= following else None


def _opening(connection: psycopg.Connection, number: int, position: int) -> StreamStarted:
    """What was in force before a position, from the terms that began before, or else from the
    newest seal. Raises CorruptLogError if neither says it."""
    for (first,) in connection.execute(_EPOCHS, (number, position)).fetchall():
        for record in _records(connection, number, first):
            if isinstance(record, StreamStarted) or (
                isinstance(record, TermBegan) and record.engine
            ):
                return _as_opening(record)
    for (seal,) in connection.execute(_SEALS, {"stream": number}).fetchall():
        for record in _records(connection, number, seal):
            if isinstance(record, PartitionSealed):
                return record.opening
    raise CorruptLogError(0, "nothing says which configuration was in force")


def _records(connection: psycopg.Connection, number: int, position: int) -> Iterator[Any]:
    """The records at a position and the next one, if their batch is there."""
    row = connection.execute(_BATCH, (number, position)).fetchone()
    if row is None:
        return
    for stored in StoredBatch(*row).records:
        if position <= stored.position <= position + 1:
            yield stored.record


def _as_opening(record: StreamStarted | TermBegan) -> StreamStarted:
    """The record as a StreamStarted. The seed is in the state."""
    if isinstance(record, StreamStarted):
        return record
    shared = {name: getattr(record, name) for name in _SHARED}
    return StreamStarted(format=1, seed="", **shared)


_SHARED = sorted(set(StreamStarted.__struct_fields__) & set(TermBegan.__struct_fields__))
