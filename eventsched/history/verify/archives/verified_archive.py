"""Verifies an archive, alone or with the database that continues it."""

import time
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import psycopg

from eventsched.history.verify.archives.archive_files import ArchiveFiles, check_chain
from eventsched.history.verify.verification import Progress, Result, verify
from eventsched.history.verify.verified_checkpoints import Checkpoint
from eventsched.history.verify.verified_database import DatabaseLog, streams
from eventsched.history.verify.verified_log import (
    BatchRow,
    DamagedError,
    Epoch,
    HeadRow,
    NoLogError,
    Packed,
    Tables,
)
from eventsched.history.verify.verified_problems import Problem

_OTHER = "name the database of this archive, or another folder"


class ContinuedArchive:
    """What an archive holds of a stream from the archive, and what comes after from a database. See
    Log."""

    def __init__(self, archived: ArchiveFiles, database: DatabaseLog) -> None:
        """``database`` reads from the end of the archive on. Raises DamagedError if the database
        does not go on there."""
        self._archived, self._database = archived, database
        self._border = archived.head.next
        epochs = {epoch.epoch: epoch for epoch in database.epochs}
        own = archived.epochs
        head = database.head
        if any(epochs.get(epoch.epoch) != epoch for epoch in own):
            raise DamagedError("the archive", "its epochs are not those of the database", _OTHER)
        if head is None or head.next < self._border:
            problem = f"it ends before the archive, at {self._border}"
            raise DamagedError("the database", problem, _OTHER)
        if head.next == self._border and head.hash != archived.head.hash:
            problem = "its head has another hash than the archive's end"
            raise DamagedError("the database", problem, _OTHER)

    @property
    def stream(self) -> str:
        """The stream's name."""
        return self._archived.stream

    @property
    def tables(self) -> Tables | None:
        """The derived rows of the database, if it has those of the archived positions, too."""
        return self._database.tables if self._database.has_position(0) else None

    @property
    def start(self) -> None:
        """None: the archive has the first record."""
        return

    def hash_at(self, position: int) -> bytes | None:
        """See Log."""
        return self._archived.hash_at(position) or self._database.hash_at(position)

    @property
    def epochs(self) -> list[Epoch]:
        """The stream's rows of table epoch."""
        return self._database.epochs

    @property
    def head(self) -> HeadRow | None:
        """The stream's row of table head."""
        return self._database.head

    def batches(self) -> Iterator[BatchRow]:
        """See Log. Raises DamagedError."""
        yield from self._archived.batches()
        tokens = {epoch.epoch: epoch.token for epoch in self.epochs}
        for number, batch in enumerate(self._database.batches()):
            if number == 0:
                token = tokens.get(batch.epoch, b"")
                where = "the database after the archive"
                is_gap = batch.first > self._border
                remedy = "restore the archive's files of the days between" if is_gap else _OTHER
                check_chain(where, batch, token, self._border, self._archived.head.hash, remedy)
            yield batch

    def details(self, end: int) -> list[Packed]:
        """See Log. Raises DamagedError."""
        archived = self._archived.details(end)
        return archived if end <= self._border else archived + self._database.details(end)

    def detail(self, seq: int) -> Packed | None:
        """See Log. Raises DamagedError."""
        return (self._archived if seq < self._border else self._database).detail(seq)

    @property
    def details_at_first(self) -> int:
        """See Log."""
        return self._database.details_at_first

    def details_now(self) -> int:
        """See Log."""
        return self._database.details_now()


def continued(
    files: ArchiveFiles, connection: psycopg.Connection[Any], *, counts_details: bool = False
) -> ContinuedArchive:
    """The stream of an archive with what a database has after it. The connection must be idle.
    Raises NoLogError if the database has no such stream, DamagedError, and psycopg.Error."""
    numbers = {name: number for number, name in streams(connection)}
    if files.stream not in numbers:
        raise NoLogError("the database", f"has no stream {files.stream}")
    database = DatabaseLog(
        connection, numbers[files.stream], files.stream, counts_details=counts_details,
        begin=files.head.next,
    )  # fmt: skip
    return ContinuedArchive(files, database)


def verify_archive(
    folder: Path,
    stream: str,
    connection: psycopg.Connection[Any] | None = None,
    *,
    thinned: bool = False,
    checkpoints: Collection[Checkpoint] = (),
    progress: Progress = lambda checked, end: None,
) -> Result:
    """Checks a stream of an archive, and with a connection also what the database has after it. The
    SHA-256 of all files is compared as well. The parameters are those of ``verify_database``.
    Raises NoLogError if there is no such stream, OSError if the folder cannot be read, and
    psycopg.Error."""
    started = time.perf_counter()
    try:
        log: ArchiveFiles | ContinuedArchive = ArchiveFiles(folder, stream)
        if connection is not None and isinstance(log, ArchiveFiles):
            log = continued(log, connection, counts_details=not thinned)
        return verify(log, thinned=thinned, checkpoints=checkpoints, progress=progress)
    except NoLogError:
        raise
    except DamagedError as damage:
        seconds = time.perf_counter() - started
        return Result(stream, problems=[Problem(None, damage.advice)], seconds=seconds)
