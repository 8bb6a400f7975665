"""Archives the days of a stream that are over, from the database into Parquet files."""

import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import date, timedelta
from pathlib import Path

from eventsched.domain.errors import InputError, InUseError
from eventsched.eventlog.archive.archive_folder import manifests, verify_day
from eventsched.eventlog.archive.archive_manifest import Manifest, day_of, stream_folder
from eventsched.eventlog.archive.archived_batches import chained_hash
from eventsched.eventlog.archive.day_writer import DayWriter
from eventsched.eventlog.archive.joins import require_join
from eventsched.eventlog.chain import Head, genesis
from eventsched.eventlog.log_errors import CorruptLogError
from eventsched.eventlog.postgres.reader import Reader
from eventsched.eventlog.postgres.stored_batch import StoredBatch

_EPOCHS = "SELECT epoch, token, first FROM eventsched_log.epoch WHERE stream = :s ORDER BY epoch"


def archive(reader: Reader, folder: Path, before: date, today: date) -> Iterator[Manifest]:
    """Archives the days of a stream before the day ``before``, each as soon as the next manifest
    is asked for. It goes on where the archive in ``folder`` ends; the folder is made if necessary.

    ``today`` is the present day (UTC) and not before ``before``. A batch belongs to the day on
    which it was written, with two exceptions, which wrong clocks cause: a batch that was written
    after today is taken as one of the day of the batch before it (of yesterday, if it is the first
    one), and a batch that was written on a day that is archived already as one of the day after it.

    Raises InputError if the folder cannot be written or does not fit the database, InUseError if
    another process archives the stream there, and CorruptLogError."""
    own = stream_folder(folder, reader.stream)
    try:
        own.mkdir(parents=True, exist_ok=True)
        with _locked(own):
            yield from _archived(reader, folder, before, today)
    except OSError as problem:
        reason = f"cannot be written: {problem.strerror or problem}"
        remedy = "name a folder that this user may write and that has room"
        raise InputError(str(own), reason, remedy) from problem


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Runs the block as the only process that archives into a folder."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as problem:
            raise InUseError(
                str(folder), "another process archives into it", "wait until it has ended"
            ) from problem
        for part in folder.glob(".*.part"):
            part.unlink()
        yield
    finally:
        os.close(descriptor)


def _archived(reader: Reader, folder: Path, before: date, today: date) -> Iterator[Manifest]:
    existing = manifests(folder, reader.stream)
    where = str(stream_folder(folder, reader.stream))
    if existing:
        verify_day(folder, existing[-1])
    head, floor = _end(existing, reader.stream)
    if reader.head.next:
        require_join(reader, head, where)
    writer: DayWriter | None = None
    try:
        for day, batch, token in _by_day(reader, head, floor, today):
            if writer is not None and writer.day != day:
                yield writer.finish(_epochs(reader))
                writer = None
            if day >= before:
                return
            if writer is None:
                writer = DayWriter(reader, folder, day, head)
            head = writer.add(batch, token)
        if writer is not None:
            yield writer.finish(_epochs(reader))
            writer = None
    finally:
        if writer is not None:
            writer.discard()


def first_unarchived_day(reader: Reader, folder: Path, today: date) -> date | None:
    """The day of the first batch that the archive lacks, with the exceptions of ``archive``; None
    if there is no such batch. Raises InputError and CorruptLogError."""
    head, floor = _end(manifests(folder, reader.stream), reader.stream)
    return next((day for day, _, _ in _by_day(reader, head, floor, today)), None)


def _end(existing: Sequence[Manifest], stream: str) -> tuple[Head, date]:
    """Where an archive ends, and the first day that it can take."""
    if not existing:
        return Head(0, genesis(stream)), date.min
    last = existing[-1]
    day = date.fromisoformat(last.day) + timedelta(days=1)
    return Head(last.next, bytes.fromhex(last.after)), day


def _by_day(
    reader: Reader, archived: Head, floor: date, today: date
) -> Iterator[tuple[date, StoredBatch, bytes]]:
    """The batches that are not archived, each with its day and the token of its epoch. Raises
    CorruptLogError if the chain is broken."""
    tokens: dict[int, bytes] = {}
    end, digest = archived
    for batch in reader.batches(archived.next):
        if batch.first < archived.next:
            continue  # the log's last batch, if nothing is new
        if batch.epoch not in tokens:
            tokens = {number: token for number, token, _ in _epochs(reader)}
        token = tokens.get(batch.epoch, b"")
        expected = chained_hash(batch, reader.stream, token, digest) if len(token) == 16 else b""
        if (batch.first, batch.hash) != (end, expected):
            raise CorruptLogError(batch.first, "the batch has not the hash of its content")
        written = day_of(batch.written_at)
        if written <= today:
            floor = max(floor, written)
        elif floor == date.min:
            floor = today - timedelta(days=1)
        yield floor, batch, token
        end, digest = batch.first + batch.count, batch.hash


def _epochs(reader: Reader) -> list[tuple[int, bytes, int]]:
    """The writers' terms of the stream so far: number, token, first position."""
    return [(row["epoch"], row["token"].bytes, row["first"]) for row in reader.rows(_EPOCHS)]
