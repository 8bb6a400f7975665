"""Loads an archive into a database that does not have the stream, batch by batch as its writers
appended them: with the same terms, times and hashes.

All of it is one transaction. Until that commits, no other session sees the stream, a scheduler that
begins a term on it waits, and whatever ends the process leaves nothing behind.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from eventsched.domain.errors import InputError, UnavailableError
from eventsched.eventlog.addresses import NOTICES, libpq_url, shown
from eventsched.eventlog.archive.archive_folder import manifests, verify_digests
from eventsched.eventlog.archive.archive_manifest import (
    BATCHES,
    DETAILS,
    RESTORE,
    Manifest,
    day_file,
    stream_folder,
)
from eventsched.eventlog.archive.archived_batches import read_batches, read_details
from eventsched.eventlog.postgres.stored_batch import StoredBatch
from eventsched.eventlog.whole_stream import EXISTS, SESSION, LoadProgress, StreamCopy

_SEALED = """
SELECT count(*) FROM eventsched_log.partition p
WHERE p.stream = %s AND p.first = %s AND %s = (
    SELECT b.first + b.count FROM eventsched_log.batch b
    WHERE b.stream = p.stream AND b.first < p.next ORDER BY b.first DESC LIMIT 1)
"""
_SEAL = '"kind":"PartitionSealed"'
_HOLDER = "db restore"


@contextmanager
def restored(
    address: str,
    folder: Path,
    stream: str,
    progress: LoadProgress = lambda loaded, total: None,
) -> Iterator[tuple[psycopg.Connection[Any], int]]:
    """Loads all of a stream's archive. Within the block the connection sees the stream, in the open
    transaction that is committed at the end of the block and rolled back if it raises; the number
    is that of the records.

    Raises InputError if the database has the stream, the archive lacks files or has altered ones,
    or the database's partitions are of another size than those that the log's seals name; and
    UnavailableError."""
    days = manifests(folder, stream)
    if not days or days[0].first:
        where = str(stream_folder(folder, stream))
        raise InputError(where, "does not begin at position 0", "restore the files from a copy")
    try:
        with psycopg.connect(libpq_url(address), **NOTICES) as connection:
            connection.execute(SESSION)
            if connection.execute(EXISTS, (stream,)).fetchone() is not None:
                raise InputError(
                    "--stream", f"stream {stream} is in the database", "name an empty database"
                )
            _Restoration(connection, folder, stream).load(days, progress)
            yield connection, days[-1].next
    except psycopg.errors.InsufficientPrivilege as problem:
        remedy = problem.diag.message_hint or "GRANT eventsched_writer to this user"
        raise UnavailableError(shown(address), _first_line(problem), remedy) from problem
    except psycopg.Error as problem:
        if (problem.sqlstate or "").startswith("ES"):  # the hash or the term is another one
            where = str(stream_folder(folder, stream))
            raise InputError(where, f"was altered: {_first_line(problem)}", RESTORE) from problem
        remedy = "nothing was restored; repair the database and run the command again"
        raise UnavailableError(shown(address), _first_line(problem), remedy) from problem


class _Restoration:
    """The loading of one stream."""

    def __init__(self, connection: psycopg.Connection[Any], folder: Path, stream: str) -> None:
        self._connection, self._folder, self._stream = connection, folder, stream
        self._copy = StreamCopy(connection, stream, _HOLDER)
        self._seals: list[dict[str, Any]] = []

    def load(self, days: list[Manifest], progress: LoadProgress) -> None:
        """Appends the records of all days, and begins the terms in between."""
        total = days[-1].next
        for day in days:
            verify_digests(self._folder, day)
            terms = list(day.epochs)
            for batch, details in self._batches(day):
                while terms and terms[0][2] <= batch.first:
                    self._begin(*terms.pop(0))
                self._append(batch, details)
                progress(batch.first + batch.count, total)
            for term in terms:
                self._begin(*term)
        self._copy.flush()
        self._require_partitions()

    def _batches(self, day: Manifest) -> Iterator[tuple[StoredBatch, list[tuple[Any, ...]]]]:
        """The batches of a day, each with the vectors of its decisions."""
        own = stream_folder(self._folder, self._stream)
        details = read_details(day_file(own, day.day, DETAILS))
        ahead = next(details, None)
        for batch in read_batches(day_file(own, day.day, BATCHES), day):
            of_batch = []
            while ahead is not None and ahead[0] < batch.first + batch.count:
                of_batch.append(ahead)
                ahead = next(details, None)
            yield batch, of_batch

    def _begin(self, epoch: int, token: str, first: int) -> None:
        try:
            self._copy.begin(epoch, bytes.fromhex(token), first)
        except ValueError as problem:
            where = str(stream_folder(self._folder, self._stream))
            raise InputError(where, str(problem), RESTORE) from None

    def _append(self, batch: StoredBatch, details: list[tuple[Any, ...]]) -> None:
        self._copy.append(batch, details)
        if _SEAL in batch.body:
            self._seals += [
                record for *_, record in json.loads(batch.body)
                if record["kind"] == "PartitionSealed"
            ]  # fmt: skip

    def _require_partitions(self) -> None:
        """Requires that each sealed partition has here the records that its seal names: retention
        drops whole partitions."""
        for seal in self._seals:
            values = (self._copy.number, seal["partition"], seal["next"])
            row = self._connection.execute(_SEALED, values).fetchone()
            if row != (1,):
                raise InputError(
                    "eventsched.partition_records",
                    f"the log has a partition of the positions {seal['partition']} to about "
                    f"{seal['next']}, and this database makes others",
                    "set it as in the database that the archive is of: ALTER DATABASE … SET "
                    "eventsched.partition_records = …",
                )


def _first_line(problem: psycopg.Error) -> str:
    return (str(problem).strip().splitlines() or [type(problem).__name__])[0]
