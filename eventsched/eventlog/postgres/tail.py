"""A stream followed by a standby: batch after batch as they are committed, the chain verified.

Polled: one row, the stream's head, says whether there is anything new. Blocks its thread for as
long as the database takes, up to a minute; ``close`` ends its one connection.
"""

from typing import NamedTuple

import psycopg

from eventsched.domain.records import MemoryForgotten
from eventsched.eventlog import chain
from eventsched.eventlog.addresses import shown
from eventsched.eventlog.chain import Head, SealedBatch, Term
from eventsched.eventlog.log_errors import (
    CorruptLogError,
    DatabaseRefusedError,
    HistoryChangedError,
)
from eventsched.eventlog.port import StoredSnapshot
from eventsched.eventlog.postgres.reader import StoredBatch
from eventsched.eventlog.postgres.writer_connection import connected, limited
from eventsched.eventlog.schema import migrations

_LIMIT = 60.0
"""Seconds for an answer, which may be a snapshot."""
_HEAD = """
SELECT h.stream, h.next, h.hash, h.epoch, h.holder, h.renewals
FROM eventsched_log.head h JOIN eventsched_log.stream s ON s.id = h.stream WHERE s.name = %s
"""
_BATCHES = """
SELECT b.first, b.count, b.epoch, (extract(epoch FROM b.written_at) * 1000000)::bigint,
       b.mark::text, b.hash, b.body::text, e.token
FROM eventsched_log.batch b JOIN eventsched_log.epoch e USING (stream, epoch)
WHERE b.stream = %s AND b.first >= %s ORDER BY b.first LIMIT %s
"""
# The batch that ends there, by index: it is the last one that begins before.
_SNAPSHOT = """
SELECT s.seq, s.hash, s.digest, s.version, s.body FROM eventsched_log.snapshot s
CROSS JOIN LATERAL (
    SELECT b.hash, b.first + b.count AS next FROM eventsched_log.batch b
    WHERE b.stream = s.stream AND b.first < s.seq ORDER BY b.first DESC LIMIT 1
) b
WHERE s.stream = %(stream)s AND s.seq < %(before)s AND b.next = s.seq AND b.hash = s.hash
ORDER BY s.seq DESC LIMIT 1
"""

_REQUESTS = """
SELECT plugin, key, asked_by, id FROM eventsched_log.request
WHERE stream = %s AND seq IS NULL ORDER BY id LIMIT %s
"""


class StreamHead(NamedTuple):
    """The stream's end as the database has it: where, and who writes there. ``renewals`` grows with
    whatever the writer does."""

    head: Head
    epoch: int
    holder: str
    renewals: int


class Tail:
    """What follows any place in a stream."""

    def __init__(self, address: str, stream: str) -> None:
        """Connects at the first call; the stream need not be there yet."""
        self._address, self._stream = address, stream
        self._connection: psycopg.Connection | None = None
        self._number: int | None = None
        self.summit: StreamHead | None = None
        """The stream's end when last looked at; None while there is no such stream."""

    def snapshot(self, before: int = 2**63 - 1) -> StoredSnapshot | None:
        """The newest snapshot that the chain knows, of a position before that one. Raises
        UnavailableError."""
        self._look()
        if self._number is None:
            return None
        rows = self._rows(_SNAPSHOT, {"stream": self._number, "before": before})
        if not rows:
            return None
        position, digest_hash, digest, version, body = rows[0]
        return StoredSnapshot(position, bytes(digest_hash), digest, version, bytes(body))

    def poll(self, place: Head, most: int = 64) -> list[StoredBatch]:
        """The batches that follow a place, at most so many; none where nothing is new.

        Raises HistoryChangedError where the stream no longer has the place (the database lost
        history: begin anew), CorruptLogError for a batch that is not what its hash says, and
        UnavailableError, as RefusedError for what waiting does not mend.
        """
        summit = self._look()
        if summit is None or summit.head == place:
            return []
        if summit.head.next <= place.next:
            raise HistoryChangedError(
                f"the log was read up to {place.next}, and ends at {summit.head.next} now"
            )
        found = []
        rows = self._rows(_BATCHES, (self._number, place.next, most))
        if not rows or rows[0][0] != place.next:
            raise HistoryChangedError(f"no batch begins at {place.next}, where one ended")
        for first, count, epoch, written_at, mark, digest, body, token in rows:
            batch = StoredBatch(first, count, epoch, written_at, mark, bytes(digest), body)
            self._verify(batch, token.bytes, place)
            place = Head(batch.first + batch.count, batch.hash)
            found.append(batch)
        return found

    def requests(self, most: int = 100) -> list[MemoryForgotten]:
        """What people have asked and no record answers yet, the oldest first. Raises
        UnavailableError."""
        if self._number is None and self._look() is None:
            return []
        rows = self._rows(_REQUESTS, (self._number, most))
        return [
            MemoryForgotten(plugin=plugin, key=key, by=by, request=number)
            for plugin, key, by, number in rows
        ]

    def close(self) -> None:
        """Closes the connection; the next call makes a new one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _look(self) -> StreamHead | None:
        rows = self._rows(_HEAD, (self._stream,))
        if rows:
            self._number, following, digest, *holder = rows[0]
            self.summit = StreamHead(Head(following, bytes(digest)), *holder)
        return self.summit

    def _verify(self, batch: StoredBatch, token: bytes, place: Head) -> None:
        sealed = SealedBatch(
            term=Term(self._stream, batch.epoch, token),
            first=batch.first,
            count=batch.count,
            written_at=batch.written_at,
            mark=batch.mark.encode(),
            previous=place.hash,
            hash=batch.hash,
            body=batch.body.encode(),
            details={},
        )
        if batch.first != place.next or chain.batch_hash(sealed) != batch.hash:
            raise CorruptLogError(batch.first, "the batch is not what its hash says")

    def _rows(self, query: str, values: object) -> list[tuple]:  # type: ignore[type-arg]
        try:
            if self._connection is None:
                migrations.require(self._address)
                self._connection = connected(self._address, f"eventsched follows {self._stream}")
                self._connection.execute("SET default_transaction_read_only = on")
            with limited(self._connection, _LIMIT):
                return self._connection.execute(query, values).fetchall()  # type: ignore[call-overload, no-any-return]
        except psycopg.errors.InsufficientPrivilege as problem:
            self.close()
            raise DatabaseRefusedError(
                shown(self._address),
                str(problem).split("\n")[0],
                "GRANT eventsched_writer to this user",
            ) from problem
        except psycopg.Error as problem:
            self.close()
            raise migrations.unreachable(self._address, str(problem).split("\n")[0]) from problem
