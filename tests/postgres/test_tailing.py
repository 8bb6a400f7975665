"""Tail: a standby reads every batch once, in order, and only batches of the stream."""

from collections.abc import Iterator
from contextlib import closing

import psycopg
import pytest

from eventsched.eventlog import chain
from eventsched.eventlog.chain import Head
from eventsched.eventlog.log_errors import (
    CorruptLogError,
    DatabaseRefusedError,
    HistoryChangedError,
    RecordsDroppedError,
)
from eventsched.eventlog.port import StoredSnapshot
from eventsched.eventlog.postgres.tail import Tail
from eventsched.eventlog.postgres.writer import PostgresEventLog
from tests.contract.proxy import Proxy
from tests.contract.test_eventlog import append, batch, stored
from tests.databases import make_partitions_small


@pytest.fixture
def log(database: str) -> Iterator[PostgresEventLog]:
    """A stream and its writer."""
    with closing(PostgresEventLog(database, "s", "writer")) as log:
        yield log


class Follower(Tail):
    """A tail that remembers the head that it has read up to."""

    place = Head(0, chain.genesis("s"))

    def read(self, limit: int = 64) -> list[int]:
        """The first positions of the next batches."""
        batches = self.poll(self.place, limit)
        if batches:
            self.place = Head(batches[-1].first + batches[-1].count, batches[-1].hash)
        return [batch.first for batch in batches]


@pytest.fixture
def tail(proxy: Proxy) -> Iterator[Follower]:
    """A tail of the stream."""
    with closing(Follower(proxy.url, "s")) as tail:
        yield tail


def test_a_stream_that_is_not_there_yet(database: str, tail: Follower) -> None:
    """It has no batches until a writer begins it."""
    assert tail.read() == []
    assert (tail.last_seen, tail.snapshot()) == (None, None)
    with closing(PostgresEventLog(database, "s", "writer")) as log:
        assert tail.read() == []
        assert tail.last_seen is not None
        assert (tail.last_seen.head, tail.last_seen.epoch) == (Head(0, chain.genesis("s")), 1)
        append(log, batch(0, 2))
        [first] = tail.poll(tail.place)
    assert first.records == stored(0, 2)


def test_batches_are_read_once_and_in_order(tail: Follower, log: PostgresEventLog) -> None:
    """At most the given number at a time."""
    for at in range(0, 6, 2):
        append(log, batch(at, 2))
    assert tail.read(2) == [0, 2]
    assert tail.read() == [4]
    assert tail.read() == []
    assert tail.last_seen is not None
    assert tail.place == tail.last_seen.head == Head(6, log.head_hash)


def test_a_lost_connection_is_made_again(
    proxy: Proxy, tail: Follower, log: PostgresEventLog
) -> None:
    """Nothing is read twice, nothing is missed."""
    append(log, batch(0))
    assert tail.read() == [0]
    proxy.cut()
    append(log, batch(1))
    with pytest.raises(Exception, match="start the database"):
        tail.read()
    assert tail.read() == [1]


def test_a_snapshot_is_a_place_to_begin(tail: Follower, log: PostgresEventLog) -> None:
    """Only if its hash is in the chain."""
    append(log, batch(0, 2))
    log.store_snapshot(StoredSnapshot(2, log.head_hash, "digest", "1", b"body"))
    append(log, batch(2))
    snapshot = tail.snapshot()
    assert snapshot is not None
    assert (snapshot.digest, snapshot.body) == ("digest", b"body")
    tail.place = Head(snapshot.position, snapshot.hash)
    assert tail.read() == [2]
    log.store_snapshot(StoredSnapshot(2, bytes(32), "digest", "1", b"body"))
    assert tail.snapshot() is None


@pytest.mark.parametrize("column", ["body", "mark", "written_at", "hash"])
def test_a_batch_that_was_edited(
    database: str, tail: Follower, log: PostgresEventLog, column: str
) -> None:
    """It is an error."""
    append(log, batch(0))
    append(log, batch(1))
    changed = {
        "body": "replace(body::text, 'p1', 'p9')::json",
        "mark": "'7'",
        "written_at": "written_at + interval '1 s'",
        "hash": "sha256('')",
    }[column]
    with psycopg.connect(database, autocommit=True) as admin:
        admin.execute("ALTER TABLE eventsched_log.batch DISABLE TRIGGER ALL")
        admin.execute(f"UPDATE eventsched_log.batch SET {column} = {changed} WHERE first = 1")
    assert tail.read(1) == [0]
    with pytest.raises(CorruptLogError, match="position 1"):
        tail.read()


def test_a_history_without_what_was_read(
    database: str, tail: Follower, log: PostgresEventLog
) -> None:
    """The database has lost the last batch, which a standby may have applied already."""
    append(log, batch(0))
    first = log.head_hash
    append(log, batch(1))
    assert tail.read() == [0, 1]
    with psycopg.connect(database, autocommit=True) as admin:
        admin.execute("UPDATE eventsched_log.head SET next = 1, hash = %s", [first])
    with pytest.raises(HistoryChangedError):
        tail.read()


def test_other_batches_in_their_place(database: str, tail: Follower, log: PostgresEventLog) -> None:
    """The new history has other batches: their hashes differ."""
    append(log, batch(0))
    assert tail.read() == [0]
    with psycopg.connect(database, autocommit=True) as admin:
        admin.execute("UPDATE eventsched_log.head SET hash = sha256('')")
    with pytest.raises(HistoryChangedError):
        tail.read()


def test_no_schema(database: str, tail: Follower) -> None:
    """Waiting does not help."""
    with psycopg.connect(database, autocommit=True) as admin:
        admin.execute("DROP SCHEMA eventsched_log CASCADE")
    with pytest.raises(DatabaseRefusedError, match="eventsched db upgrade"):
        tail.read()


def test_the_size_of_the_database(tail: Follower, log: PostgresEventLog) -> None:
    """All of it, in bytes; it grows with the log."""
    before = tail.database_size()
    assert before > 2**20
    for first in range(0, 256, 64):
        append(log, batch(first, 64))
    assert tail.database_size() > before


def test_a_history_that_went_on_with_other_batches(
    database: str, tail: Follower, log: PostgresEventLog
) -> None:
    """Another batch ends where the one that was read did. The log is not damaged."""
    append(log, batch(0))
    first = log.head_hash
    append(log, batch(1))
    assert tail.read() == [0, 1]
    with psycopg.connect(database, autocommit=True) as admin:
        admin.execute("ALTER TABLE eventsched_log.batch DISABLE TRIGGER ALL")
        admin.execute("DELETE FROM eventsched_log.batch WHERE first = 1")
        admin.execute("UPDATE eventsched_log.head SET next = 1, hash = %s", [first])
    with closing(PostgresEventLog(database, "s", "next")) as log:
        append(log, batch(1))
        append(log, batch(2))
    with pytest.raises(HistoryChangedError, match="another batch ends at 2 now"):
        tail.read()


@pytest.fixture
def dropped(database: str, monkeypatch: pytest.MonkeyPatch) -> bytes:
    """The stream has lost the partition with its first batches, which end at 2 and 4, because of
    its age; its only snapshot is a checkpoint at 4. Returns the hash there."""
    make_partitions_small(database, 4, monkeypatch)
    with closing(PostgresEventLog(database, "s", "writer")) as log:
        append(log, batch(0, 2))
        append(log, batch(2, 2))
        border = log.head_hash
        log.store_snapshot(StoredSnapshot(4, border, "digest", "1", b"body"))
        append(log, batch(4, 2))
    with psycopg.connect(database, autocommit=True) as admin:
        admin.execute("SELECT eventsched_log.keep_checkpoint('s', 4)")
        admin.execute("UPDATE eventsched_log.partition SET seal = 5 WHERE first = 0")
        prune = "SELECT eventsched_log.prune('s', now() + interval '1 day')"
        while admin.execute(prune).fetchall() != [(None,)]:
            pass
        admin.execute("DELETE FROM eventsched_log.snapshot")
    return border


def test_a_checkpoint_where_the_log_begins(tail: Follower, dropped: bytes) -> None:
    """The batch before it was dropped. It can be used all the same."""
    snapshot = tail.snapshot()
    assert snapshot is not None
    assert (snapshot.position, snapshot.hash, tail.begin()) == (4, dropped, 4)
    tail.place = Head(4, dropped)
    assert tail.read() == [4]


def test_what_follows_was_dropped(tail: Follower, dropped: bytes) -> None:
    """A standby was cut off for longer than records are kept. History was not lost."""
    tail.place = Head(2, dropped)
    with pytest.raises(RecordsDroppedError, match="was read up to 2, and begins at 4 now"):
        tail.read()
