"""Answers the product's SQL on a database in memory, so that its sealing, its retention, its
archiver and its standbys run as they are."""

import re
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any
from uuid import UUID

from eventsched.eventlog.archive import archive_notes, archiver, joins
from eventsched.eventlog.chain import SealedBatch
from eventsched.eventlog.postgres import housekeeping, pruning, reader, sealing, tail
from eventsched.eventlog.postgres.reader import Reader
from eventsched.eventlog.postgres.stored_batch import StoredBatch
from eventsched.eventlog.postgres.tail import Tail
from eventsched.runtime import log_start

from .cluster import STREAM
from .partitioned_database import Archived, PartitionedDatabase

NUMBER = 1
"""The stream's number."""
PAGE = 4
"""Batches that a reader gets at a time."""
Rows = list[tuple[Any, ...]]
_MICROSECONDS = 1e6


def stored_batch(batch: SealedBatch) -> StoredBatch:
    """A batch as it is read."""
    return StoredBatch(
        batch.first, batch.count, batch.term.epoch, batch.written_at, batch.mark.decode(),
        batch.hash, batch.body.decode(),
    )  # fmt: skip


def _row(batch: SealedBatch) -> tuple[Any, ...]:
    return (
        batch.first, batch.count, batch.term.epoch, batch.written_at, batch.mark.decode(),
        batch.hash, batch.body.decode(),
    )  # fmt: skip


def _microseconds(moment: datetime) -> int:
    return round(moment.timestamp() * _MICROSECONDS)


class Connection:
    """A connection of the housekeeping, or of the archiver. ``at_query`` is called before each
    query; it may raise, and may let other things happen."""

    def __init__(self, database: PartitionedDatabase, at_query: Callable[[], None]) -> None:
        self._database, self._at_query = database, at_query
        self._rows: Rows = []

    def execute(self, query: str, values: Any = ()) -> "Connection":
        """Executes one of the queries that are known here."""
        self._at_query()
        if isinstance(values, dict):
            values = tuple(values.values())
        self._rows = _QUERIES[query](self._database, values)
        return self

    def fetchone(self) -> tuple[Any, ...] | None:
        """The first row."""
        return self._rows[0] if self._rows else None

    def fetchall(self) -> Rows:
        """All rows."""
        return self._rows

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return iter(self._rows)

    def close(self) -> None:
        """Nothing."""


def _full(database: PartitionedDatabase, _: Any) -> Rows:
    full = [
        (NUMBER, each.first, each.next)
        for each in database.tables.partitions
        if each.seal is None and each.next <= database.head.next
    ]
    return full[:1]


def _end(database: PartitionedDatabase, values: Any) -> Rows:
    batch = database.last_before(values[1])
    return [] if batch is None else [tuple(batch.head)]


def _archived(database: PartitionedDatabase, values: Any) -> Rows:
    _, begin, end = values
    noted = database.tables.archived
    return [tuple(each) for each in noted if each.next > begin and each.first < end]


def _checkpoint(database: PartitionedDatabase, values: Any) -> Rows:
    return [(s.body,) for s in database.tables.checkpoints if s.position == values[1]]


def _epochs(database: PartitionedDatabase, values: Any) -> Rows:
    return [(each.first,) for each in reversed(database.tables.epochs) if each.first < values[1]]


def _batch(database: PartitionedDatabase, values: Any) -> Rows:
    batch = database.last_before(values[1] + 1)
    return [] if batch is None else [_row(batch)]


def _seal_positions(database: PartitionedDatabase, _: Any = ()) -> Rows:
    tables = database.tables
    of_partitions = {each.seal for each in tables.partitions if each.seal is not None}
    seals = of_partitions | {each.seal for each in tables.pruned}
    return [(seal,) for seal in sorted(seals, reverse=True)]


def _last_pruned(database: PartitionedDatabase, _: Any) -> Rows:
    return [(each.next, each.hash) for each in database.tables.pruned[-1:]]


def _prune(database: PartitionedDatabase, values: Any) -> Rows:
    return [(database.prune(_microseconds(values[1]), needs_archive=values[2]),)]


def _thin(database: PartitionedDatabase, values: Any) -> Rows:
    return [(database.thin(_microseconds(values[1])),)]


def _note(database: PartitionedDatabase, values: Any) -> Rows:
    _, day, first, end, digests = values
    database.note_archived(Archived(first, end, day, digests.obj))
    return []


def _unarchived(database: PartitionedDatabase, _: Any) -> Rows:
    end = max((each.next for each in database.tables.archived), default=0)
    waiting = [batch for batch in database.kept if batch.first >= end]
    return [(waiting[0].written_at / _MICROSECONDS,)] if waiting else []


_QUERIES: dict[str, Callable[[PartitionedDatabase, Any], Rows]] = {
    "SELECT eventsched_log.make_partitions(%s)": lambda d, _: [(d.make_partitions(),)],
    "SELECT eventsched_log.thin(%s, %s)": _thin,
    "SELECT eventsched_log.keep_checkpoint(%s, %s)": lambda d, v: [(d.keep_checkpoint(v[1]),)],
    housekeeping._UNARCHIVED: _unarchived,
    sealing._FULL: _full,
    sealing._END: _end,
    sealing._PRUNED: _last_pruned,
    sealing._ARCHIVED: _archived,
    sealing._CHECKPOINT: _checkpoint,
    sealing._EPOCHS: _epochs,
    sealing._BATCH: _batch,
    sealing._SEALS: _seal_positions,
    pruning._NAMES: lambda d, v: [(None,)],
    pruning._PRUNE: _prune,
    pruning._PRUNED: lambda d, _: [(each.first, each.next) for each in d.tables.pruned],
    archive_notes._NOTED: lambda d, _: [(each.first, each.next) for each in d.tables.archived],
    archive_notes._PRUNED: lambda d, _: [(d.tables.pruned[-1].next if d.tables.pruned else 0,)],
    archive_notes._NOTE: _note,
}


class MemoryTail(Tail):
    """The tail that a standby follows with."""

    def __init__(self, database: PartitionedDatabase) -> None:
        super().__init__("postgresql:///log", STREAM)
        self._database = database

    def _rows(self, query: str, values: Any) -> Rows:
        database = self._database
        match query:
            case tail._HEAD if not database.epoch:
                return []
            case tail._HEAD:
                return [(NUMBER, *database.head, database.epoch, "", 0)]
            case tail._BATCHES:
                _, first, limit = values
                tokens = {each.number: UUID(bytes=each.token) for each in database.tables.epochs}
                following = [batch for batch in database.kept if batch.first >= first]
                return [(*_row(each), tokens[each.term.epoch]) for each in following[:limit]]
            case tail._SNAPSHOT:
                usable = [s for s in database.snapshots() if s.position < values["before"]]
                newest = sorted(usable, key=lambda snapshot: snapshot.position)[-1:]
                return [tuple(snapshot) for snapshot in newest]
            case tail._HASH:
                batch = database.last_before(values[1])
                return [] if batch is None else [(batch.hash,)]
            case tail._BEGIN:
                return [(each.next,) for each in reversed(database.tables.pruned)]
        raise AssertionError(query)


class MemoryReader(Reader):
    """The reader of an archiver, or of a command. ``at_query`` as in Connection."""

    def __init__(
        self, database: PartitionedDatabase, at_query: Callable[[], None] = lambda: None
    ) -> None:
        self.address, self.stream, self.number = "postgresql:///log", STREAM, NUMBER
        self._database, self._at_query = database, at_query

    def batches(self, first: int = 0, end: int | None = None) -> Iterator[StoredBatch]:
        """See Reader."""
        begin, most = self.batch_with(first), 1 if end is None else PAGE
        end = self.head.next if end is None else end
        while True:
            self._at_query()
            page = [each for each in self._database.kept if begin <= each.first < end][:most]
            yield from map(stored_batch, page)
            if len(page) < most:
                return
            begin, most = page[-1].first + 1, PAGE

    def rows(self, query: str, **values: Any) -> Any:
        """See Reader."""
        self._at_query()
        database, tables = self._database, self._database.tables
        match query:
            case reader._HEAD:
                return [database.head._asdict()]
            case reader._BEGIN:
                return [{"begin": max((each.next for each in tables.pruned), default=None)}]
            case reader._BATCH_WITH:
                batch = database.last_before(values["position"] + 1)
                return [{"first": None if batch is None else batch.first}]
            case archiver._EPOCHS:
                return [
                    {"epoch": each.number, "token": UUID(bytes=each.token), "first": each.first}
                    for each in tables.epochs
                ]
            case joins._TOKEN:
                return [
                    {"token": UUID(bytes=each.token)}
                    for each in tables.epochs
                    if each.number == values["epoch"]
                ]
            case log_start._SEALS:
                seals = [seal for (seal,) in reversed(_seal_positions(database))]
                return [{"seal": seal} for seal in seals if seal >= values["begin"]]
            case log_start._CHECKPOINTS:
                return [
                    {"seq": s.position, "digest": s.digest, "version": s.version, "body": s.body}
                    for s in sorted(tables.checkpoints, key=lambda snapshot: snapshot.position)
                ]
        raise AssertionError(re.sub(r"\s+", " ", query))
