"""Logs that were written on several days, for tests of archives."""

from collections.abc import Iterable, Mapping
from contextlib import closing
from datetime import UTC, date, datetime, timedelta
from itertools import groupby, islice
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from eventsched.domain import records
from eventsched.domain.records.log_entry import LogEntry
from eventsched.domain.records.verdicts import Detail
from eventsched.eventlog import vectors
from eventsched.eventlog.archive.archive_manifest import Manifest
from eventsched.eventlog.archive.archiver import archive
from eventsched.eventlog.port import Batch, StoredRecord
from eventsched.eventlog.postgres.reader import Reader
from eventsched.eventlog.postgres.writer import PostgresEventLog

FIRST_DAY = date(2024, 2, 27)
LATER = date(2025, 1, 1)
_DAY = 86_400_000_000
_DETAILS = "SELECT seq, base, body FROM eventsched_log.detail WHERE stream = :s"

STREAM = "four/days"
"""The stream that fixture ``four_days`` has, and the folder of its files."""
OWN = "four%2Fdays"
DAYS = [f"2024-{day}" for day in ("02-27", "02-28", "02-29", "03-01")]

Step = list[StoredRecord]


def micros(day: date) -> int:
    """The beginning of a day (µs since 1970)."""
    return int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()) * 1_000_000


def spread(address: str, source: str, stream: str, days: int = 4) -> None:
    """Writes the log of a stream again, as another one: on consecutive days, each with a writer of
    its own, in batches of some steps."""
    with closing(Reader(address, source, keeps_connection=True)) as reader:
        rows = reader.rows(_DETAILS)
        details = {row["seq"]: vectors.unpack(bytes(row["body"]), row["base"]) for row in rows}
        whole = [list(step) for _, step in groupby(reader.read(), lambda record: record.cause)]
    a_day = -(-len(whole) // days)
    for number in range(days):
        own = whole[number * a_day : (number + 1) * a_day]
        write(address, stream, FIRST_DAY + timedelta(days=number), own, details)


def write(
    address: str, stream: str, day: date, steps: Iterable[Step], details: Mapping[int, Detail]
) -> None:
    """Appends steps on a day, by a clock that says so."""
    times = iter(range(micros(day) + 1, micros(day) + _DAY, 1_000_000))
    rest = iter(steps)
    with closing(PostgresEventLog(address, stream, f"on {day}", clock=lambda: next(times))) as log:
        while chunk := list(islice(rest, 5)):
            batch = [record for step in chunk for record in step]
            own = {r.position: details[r.position] for r in batch if r.position in details}
            log.begin(Batch(batch, own))
            log.finish()


def archived(
    address: str, stream: str, folder: Path, before: date = LATER, today: date | None = None
) -> list[Manifest]:
    """Archives the days of a stream before ``before``."""
    with closing(Reader(address, stream, keeps_connection=True)) as reader:
        return list(archive(reader, folder, before, today or before))


def contents(folder: Path) -> dict[str, bytes]:
    """The files of an archive."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def rows(folder: Path, content: str) -> list[dict[str, Any]]:
    """The rows of all files of a kind."""
    paths = sorted((folder / OWN).glob(f"*.{content}.parquet"))
    return [row for path in paths for row in pq.read_table(path).to_pylist()]


def step(at: int) -> list[StoredRecord]:
    """A step of one record."""
    record = records.PodDeleted(uid=f"p{at}")
    if at == 0:
        return [
            StoredRecord.of(
                LogEntry(0, 0, 0, records.StreamStarted(format=1, engine="t", seed="s"))
            )
        ]
    return [StoredRecord.of(LogEntry(at, at, at, record))]
