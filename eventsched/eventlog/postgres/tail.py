"""Follows a stream for a standby: batch after batch as they are committed, with the hash chain
verified.

``poll`` reads one row, the stream's head, to see whether there is anything new. Calls block their
thread for as long as the database takes, at most a minute. ``close`` ends the only connection.
"""

from typing import NamedTuple

import psycopg

from eventsched.domain.records import MemoryForgotten
from eventsched.eventlog import chain
from eventsched.eventlog.address_file import Address, for_login, last_read
from eventsched.eventlog.addresses import shown
from eventsched.eventlog.chain import Head, SealedBatch, Term
from eventsched.eventlog.log_errors import (
    CorruptLogError,
    DatabaseRefusedError,
    HistoryChangedError,
    RecordsDroppedError,
)
from eventsched.eventlog.port import StoredSnapshot
from eventsched.eventlog.postgres.stored_batch import BATCH_COLUMNS, StoredBatch
from eventsched.eventlog.postgres.writer_connection import connect, limited
from eventsched.eventlog.schema import migrations

_ANSWER_LIMIT = 60.0
"""Seconds to wait for an answer, which may be a snapshot."""
_HEAD = """
SELECT h.stream, h.next, h.hash, h.epoch, h.holder, h.renewals
FROM eventsched_log.head h JOIN eventsched_log.stream s ON s.id = h.stream WHERE s.name = %s
"""
_BATCHES = f"""
SELECT {BATCH_COLUMNS}, e.token
FROM eventsched_log.batch b JOIN eventsched_log.epoch e
    ON e.stream = b.stream AND e.epoch = b.epoch
WHERE b.stream = %s AND b.first >= %s ORDER BY b.first LIMIT %s
"""
# Checkpoints are snapshots, too. The batch that ends at one is found by index: it is the last one
# that begins before. If it was the last one of a dropped partition, that one's row has its hash.
_SNAPSHOT = """
SELECT s.seq, s.hash, s.digest, s.version, s.body FROM (
    SELECT * FROM eventsched_log.snapshot UNION ALL SELECT * FROM eventsched_log.checkpoint
) s
CROSS JOIN LATERAL (
    (SELECT b.hash, b.first + b.count AS next FROM eventsched_log.batch b
     WHERE b.stream = s.stream AND b.first < s.seq ORDER BY b.first DESC LIMIT 1)
    UNION ALL
    SELECT p.hash, p.next FROM eventsched_log.pruned p
    WHERE p.stream = s.stream AND p.next = s.seq
) b
WHERE s.stream = %(stream)s AND s.seq < %(before)s AND b.next = s.seq AND b.hash = s.hash
ORDER BY s.seq DESC LIMIT 1
"""

_HASH = """
SELECT hash FROM eventsched_log.batch
WHERE stream = %s AND first < %s ORDER BY first DESC LIMIT 1
"""
_BEGIN = """
SELECT p.next FROM eventsched_log.pruned p JOIN eventsched_log.stream s ON s.id = p.stream
WHERE s.name = %s ORDER BY p.first DESC LIMIT 1
"""
_REQUESTS = """
SELECT plugin, key, asked_by, id FROM eventsched_log.request
WHERE stream = %s AND seq IS NULL ORDER BY id LIMIT %s
"""


_SIZE = "SELECT pg_database_size(current_database())"


class StreamHead(NamedTuple):
    """The stream's end in the database: its head, and who writes it. ``renewals`` grows with every
    append and renewal of the writer."""

    head: Head
    epoch: int
    holder: str
    renewals: int


class Tail:
    """Reads the batches after any head of a stream."""

    def __init__(self, address: Address, stream: str) -> None:
        """Connects at the first call. The stream need not exist yet."""
        self._address, self._stream = address, stream
        self._connection: psycopg.Connection | None = None
        self._number: int | None = None
        self.last_seen: StreamHead | None = None
        """The stream's end at the last query; None until the stream exists."""
        self.schema = ""
        """The schema's revision when the connection was opened; "" before the first one."""

    def snapshot(self, before: int = 2**63 - 1) -> StoredSnapshot | None:
        """The newest snapshot of a position less than ``before`` whose hash is that of the batch
        before it. Raises UnavailableError."""
        self._query_head()
        if self._number is None:
            return None
        rows = self._rows(_SNAPSHOT, {"stream": self._number, "before": before})
        if not rows:
            return None
        position, batch_hash, digest, version, body = rows[0]
        return StoredSnapshot(position, bytes(batch_hash), digest, version, bytes(body))

    def poll(self, head: Head, limit: int = 64) -> list[StoredBatch]:
        """At most ``limit`` batches that follow ``head``; none if nothing is new.

        Raises HistoryChangedError if the stream no longer contains ``head`` (the database lost
        history; the caller has to read the log from the beginning), RecordsDroppedError if what
        follows ``head`` was dropped, CorruptLogError if a batch does not match its hash, and
        UnavailableError, as DatabaseRefusedError if waiting would not help.
        """
        stream_head = self._query_head()
        if stream_head is None or stream_head.head == head:
            return []
        end = stream_head.head.next
        if end <= head.next:
            raise HistoryChangedError(f"the log was read up to {head.next}, and ends at {end} now")
        rows = self._rows(_BATCHES, (self._number, head.next, limit))
        if not rows or rows[0][0] != head.next:
            begin = self.begin()
            if head.next < begin:
                reason = f"the log was read up to {head.next}, and begins at {begin} now"
                raise RecordsDroppedError(reason)
            raise HistoryChangedError(f"no batch begins at {head.next}, where one ended")
        batches: list[StoredBatch] = []
        for first, count, epoch, written_at, mark, batch_hash, body, token in rows:
            batch = StoredBatch(first, count, epoch, written_at, mark, bytes(batch_hash), body)
            if not self._is_next(batch, token.bytes, head):
                if not batches and not self._has(head):
                    raise HistoryChangedError(f"another batch ends at {head.next} now")
                raise CorruptLogError(batch.first, "the batch does not match its hash")
            head = Head(batch.first + batch.count, batch.hash)
            batches.append(batch)
        return batches

    def begin(self) -> int:
        """The position of the first record that was not dropped. Raises UnavailableError."""
        rows = self._rows(_BEGIN, (self._stream,))
        return int(rows[0][0]) if rows else 0

    def requests(self, limit: int = 100) -> list[MemoryForgotten]:
        """At most ``limit`` open requests of operators, the oldest first. Raises
        UnavailableError."""
        if self._number is None and self._query_head() is None:
            return []
        rows = self._rows(_REQUESTS, (self._number, limit))
        return [
            MemoryForgotten(plugin=plugin, key=key, by=by, request=number)
            for plugin, key, by, number in rows
        ]

    def database_size(self) -> int:
        """Bytes of the whole database, all streams and indexes. Raises UnavailableError."""
        ((size,),) = self._rows(_SIZE, ())
        return int(size)

    def close(self) -> None:
        """Closes the connection; the next call opens a new one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _query_head(self) -> StreamHead | None:
        rows = self._rows(_HEAD, (self._stream,))
        if rows:
            self._number, following, batch_hash, epoch, holder, renewals = rows[0]
            self.last_seen = StreamHead(Head(following, bytes(batch_hash)), epoch, holder, renewals)
        return self.last_seen

    def _has(self, head: Head) -> bool:
        """Whether the stream still has this head. True if the batch before it was dropped."""
        rows = self._rows(_HASH, (self._number, head.next))
        return not rows or bytes(rows[0][0]) == head.hash

    def _is_next(self, batch: StoredBatch, token: bytes, head: Head) -> bool:
        """Whether a batch follows a head, and has the hash of its content."""
        sealed = SealedBatch(
            term=Term(self._stream, batch.epoch, token),
            first=batch.first,
            count=batch.count,
            written_at=batch.written_at,
            mark=batch.mark.encode(),
            previous=head.hash,
            hash=batch.hash,
            body=batch.body.encode(),
            details={},
        )
        return batch.first == head.next and chain.batch_hash(sealed) == batch.hash

    def _rows(self, query: str, values: object) -> list[tuple]:  # type: ignore[type-arg]
        try:
            if self._connection is None:
                self._connection = self._connect()
            with limited(self._connection, _ANSWER_LIMIT):
                return self._connection.execute(query, values).fetchall()  # type: ignore[call-overload, no-any-return]
        except psycopg.errors.InsufficientPrivilege as problem:
            self.close()
            raise DatabaseRefusedError(
                shown(last_read(self._address)),
                str(problem).split("\n")[0],
                "GRANT eventsched_writer to this user",
            ) from problem
        except psycopg.Error as problem:
            self.close()
            with for_login(self._address) as address:
                raise migrations.unreachable(address, str(problem).split("\n")[0]) from problem

    def _connect(self) -> psycopg.Connection:
        with for_login(self._address) as address:
            self.schema = migrations.require(address)
            connection = connect(address, migrations.replica_session(self._stream))
        connection.execute("SET default_transaction_read_only = on")
        return connection
