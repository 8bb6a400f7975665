"""Appends many batches by one statement, in a transaction that loads a stream.

Within a transaction each change of a row has to pass all its earlier versions. If the head and the
counts of records changed with every batch, the time would grow with the square of their number.
"""

from typing import Any
from uuid import UUID

import psycopg

from eventsched.eventlog.chain import Term
from eventsched.eventlog.postgres.stored_batch import StoredBatch

BATCHES_AT_ONCE = 256
BYTES_AT_ONCE = 4_000_000
"""The batches that one statement appends, and about the number of their bytes, at most."""
_APPEND = """
SELECT eventsched_log.append_batches(%s::integer, %s::integer, %s, %s::bigint, %s::integer[],
    %s::bigint[], %b::json[], %s::bytea, %b::bytea[], %b::json[], %s::bigint[], %s::bigint[],
    %b::bytea[])
"""
"""Arrays of texts and bytes are sent in binary form: as text, each quote in them is looked for."""


class BatchLoader:
    """Appends the batches of a stream in the open transaction of a connection. The database checks
    their hashes and that their term is the last one."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection
        self._number, self._term, self._previous = 0, Term("", 0, b""), b""
        self._batches: list[StoredBatch] = []
        self._details: list[tuple[Any, ...]] = []
        self._bytes = 0

    def add(
        self,
        number: int,
        term: Term,
        batch: StoredBatch,
        previous: bytes,
        details: list[tuple[Any, ...]],
    ) -> None:
        """Adds a batch of the stream with this ``number``, which was written in ``term`` after one
        with the hash ``previous``, and the vectors of its decisions: position, base, bytes. Raises
        psycopg.Error as ``flush`` does."""
        if self._batches and term != self._term:
            self.flush()
        if not self._batches:
            self._number, self._term, self._previous = number, term, previous
        self._batches.append(batch)
        self._details += details
        self._bytes += len(batch.body) + sum(len(body) for *_, body in details)
        if len(self._batches) >= BATCHES_AT_ONCE or self._bytes >= BYTES_AT_ONCE:
            self.flush()

    def flush(self) -> None:
        """Appends what was added. Raises psycopg.Error, with a code that begins with ES if a batch
        does not follow the one before or is not of the last term."""
        if not self._batches:
            return
        batches, details = self._batches, self._details
        self._batches, self._details, self._bytes = [], [], 0
        seqs, bases, bodies = map(list, zip(*details, strict=True)) if details else ([], [], [])
        self._connection.execute(
            _APPEND,
            (
                self._number, self._term.epoch, UUID(bytes=self._term.token), batches[0].first,
                [batch.count for batch in batches], [batch.written_at for batch in batches],
                [batch.mark for batch in batches], self._previous,
                [batch.hash for batch in batches], [batch.body for batch in batches],
                seqs, bases, bodies,
            ),
        )  # fmt: skip
