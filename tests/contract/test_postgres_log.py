"""The log in Postgres: what is stored, other writers, and batches or heads that do not fit."""

import struct
from dataclasses import replace
from hashlib import sha256
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from eventsched.domain.errors import UnavailableError
from eventsched.domain.records import PodDeleted
from eventsched.domain.records.log_entry import LogEntry
from eventsched.eventlog import chain
from eventsched.eventlog.log_errors import ConflictError, FencedError
from eventsched.eventlog.port import Batch, StoredRecord, StoredSnapshot
from eventsched.eventlog.postgres.writer import PostgresEventLog
from tests.contract.postgres_logs import heads, held, offer, sealed_by
from tests.contract.proxy import Loss, Proxy
from tests.contract.test_eventlog import append, batch, stored

# --- what is stored ------------------------------------------------------------------------------


def test_hashes_are_those_of_the_documented_format(
    admin: psycopg.Connection, log: PostgresEventLog
) -> None:
    """docs/log-format.md, The chain: from the stored texts alone."""
    marked = '{ "grün":\n[1.0] }'
    append(log, batch(0, 2)._replace(mark=marked.encode()))
    append(log, batch(2))
    log.close()
    rows = admin.execute(
        "SELECT b.epoch, e.token, b.first, b.count,"
        " (extract(epoch FROM b.written_at) * 1000000)::bigint, b.mark::text, b.body::text, b.hash"
        " FROM eventsched_log.batch b JOIN eventsched_log.stream s ON s.id = b.stream"
        " JOIN eventsched_log.epoch e ON e.stream = b.stream AND e.epoch = b.epoch"
        " WHERE s.name = %s ORDER BY b.first",
        [log.stream],
    ).fetchall()
    hashed = sha256(b"eventsched/1/" + log.stream.encode()).digest()
    for epoch, token, first, number, written_at, mark, body, found in rows:
        numbers = struct.pack(">i16sqiq", epoch, token.bytes, first, number, written_at)
        texts = sha256(mark.encode()).digest() + sha256(body.encode()).digest()
        hashed = sha256(b"\x02" + hashed + numbers + texts).digest()
        assert found == hashed
    assert len(rows) == 2
    assert log.head_hash == hashed
    assert rows[0][5] == marked


def test_the_mark_of_the_last_batch(log: PostgresEventLog) -> None:
    """How far the writer had read."""
    reader = log.reader
    assert reader.last_batch() is None
    append(log, batch(0)._replace(mark=b"[7,1]"))
    append(log, batch(1, 3)._replace(mark=b"[8,0]"))
    last = reader.last_batch()
    assert last is not None
    assert (last.first, last.count, last.mark, last.hash) == (1, 3, "[8,0]", log.head_hash)
    assert reader.head == (4, log.head_hash)
    assert reader.hash_before(4) == log.head_hash
    assert reader.hash_before(3) is None


def test_a_later_writer_goes_on_where_the_log_ends(url: str, log: PostgresEventLog) -> None:
    """With the head's hash, in an epoch of its own."""
    append(log, batch(0, 2))
    log.close()
    later = PostgresEventLog(url, log.stream)
    assert (later.head, later.head_hash, later.epoch) == (2, log.head_hash, log.epoch + 1)
    append(later, batch(2))
    assert list(later.read()) == stored(0, 2) + stored(2)
    later.close()


def test_streams_are_apart(url: str, log: PostgresEventLog) -> None:
    """One database holds many."""
    other = PostgresEventLog(url, f"other {log.stream}")
    append(log, batch(0, 2))
    append(other, batch(0))
    assert (list(log.read()), list(other.read())) == (stored(0, 2), stored(0))
    other.close()


def test_snapshots_are_kept_and_replaced(url: str, log: PostgresEventLog) -> None:
    """The newest is there, by another reader, too."""
    assert log.reader.snapshot() is None
    for position in (3, 7):
        kept = StoredSnapshot(position, bytes(32), f"d{position}", "v", bytes(range(256)))
        log.store_snapshot(kept)
        assert log.reader.snapshot() == kept
    again = PostgresEventLog(url, log.stream)
    assert again.reader.snapshot() == kept
    again.close()


# --- other writers -------------------------------------------------------------------------------


def test_a_writer_that_was_replaced_writes_nothing_more(url: str, log: PostgresEventLog) -> None:
    """It learns this from its next batch or renewal; the new writer is not disturbed."""
    append(log, batch(0))
    log.renew()
    newer = PostgresEventLog(url, log.stream)
    log.begin(batch(1, 2))
    for _ in range(2):
        with pytest.raises(FencedError) as fenced:
            log.finish()
    assert (fenced.value.epoch, fenced.value.now) == (log.epoch, newer.epoch)
    with pytest.raises(FencedError):
        log.renew()
    newer.renew()
    assert list(newer.read()) == stored(0)
    append(newer, batch(1))
    assert list(newer.read()) == stored(0) + stored(1)
    newer.close()


def test_replaced_while_an_answer_is_lost_and_the_batch_is_there(
    url: str, proxy: Proxy, distant: PostgresEventLog
) -> None:
    """It was committed before the new term began: it is acknowledged, and fenced afterwards."""
    proxy.lose(Loss.ANSWER)
    distant.begin(batch(0, 2))
    assert proxy.lost.wait(60)
    newer = PostgresEventLog(url, distant.stream)
    assert newer.head == 2
    distant.finish()
    assert distant.head_hash == newer.head_hash
    append(newer, batch(2))
    distant.begin(batch(2))
    with pytest.raises(FencedError):
        distant.finish()
    newer.close()


@pytest.mark.parametrize("written", [0, 1, 2])
def test_replaced_while_a_batch_is_lost(
    url: str, proxy: Proxy, distant: PostgresEventLog, written: int
) -> None:
    """It never comes in, whether the other one has written or not."""
    proxy.lose(Loss.REQUEST)
    distant.begin(batch(0, 2))
    assert proxy.lost.wait(60)
    newer = PostgresEventLog(url, distant.stream)
    for at in range(written):
        append(newer, batch(at)._replace(mark=b'"newer"'))
    with pytest.raises(FencedError):
        distant.finish()
    assert [each.count for each in newer.reader.batches()] == [1] * written
    newer.close()


@pytest.mark.row(10)
def test_two_epochs_of_one_number(admin: psycopg.Connection, log: PostgresEventLog) -> None:
    """After a failover that lost history the same number may be given again: the token differs."""
    append(log, batch(0))
    admin.execute(
        "UPDATE eventsched_log.head SET token = %s WHERE stream ="
        " (SELECT id FROM eventsched_log.stream WHERE name = %s)",
        [uuid4(), log.stream],
    )
    log.begin(batch(1))
    with pytest.raises(FencedError):
        log.finish()


def test_a_head_that_is_not_where_it_was(url: str, log: PostgresEventLog) -> None:
    """The fence is ours, but history is not: the batch is refused."""
    twin = PostgresEventLog(url, f"twin {log.stream}")
    twin._term, twin._number, twin._head = log._term, log._number, log._head
    append(twin, batch(0, 3))
    log.begin(batch(0, 2))
    with pytest.raises(ConflictError) as conflict:
        log.finish()
    assert (conflict.value.expected, conflict.value.head) == (0, 3)
    assert list(log.read()) == stored(0, 3)
    twin.close()


def test_a_head_of_another_hash(url: str, log: PostgresEventLog) -> None:
    """At the same position, too."""
    twin = PostgresEventLog(url, f"twin {log.stream}")
    twin._term, twin._number, twin._head = log._term, log._number, log._head
    append(twin, batch(0, 2)._replace(mark=b"1"))
    log.begin(batch(0, 2)._replace(mark=b"2"))
    with pytest.raises(ConflictError):
        log.finish()
    twin.close()


@pytest.mark.parametrize("wrong", ["hash", "body", "mark", "count", "written_at"])
def test_a_batch_that_is_not_what_its_hash_says(
    admin: psycopg.Connection, log: PostgresEventLog, wrong: str
) -> None:
    """A flipped bit, or a hash computed by other means: the whole batch is refused."""
    append(log, batch(0))
    sealed = sealed_by(log, batch(1, 2))
    changes: dict[str, Any] = {
        "hash": bytes(32),
        "body": sealed.body.replace(b"p2", b"p3"),
        "mark": b"1",
        "count": 3,
        "written_at": 5,
    }
    with pytest.raises(UnavailableError, match="the batch at 1 is not what its hash says"):
        offer(log, replace(sealed, **{wrong: changes[wrong]}))
    assert heads(admin, log.stream) == (1, 1)


def test_a_count_that_the_body_does_not_have(
    admin: psycopg.Connection, log: PostgresEventLog
) -> None:
    """Though the hash is right."""
    wrong = replace(sealed_by(log, batch(0, 2)), count=3)
    with pytest.raises(UnavailableError, match="is not what its hash says"):
        offer(log, replace(wrong, hash=chain.batch_hash(wrong)))
    assert heads(admin, log.stream) == (0, 0)


def test_a_replaced_writer_keeps_no_snapshot(url: str, log: PostgresEventLog) -> None:
    """The one that replaced it may have a newer one."""
    append(log, batch(0, 2))
    newer = PostgresEventLog(url, log.stream)
    newer.store_snapshot(StoredSnapshot(2, newer.head_hash, "new", "1", b"new"))
    log.store_snapshot(StoredSnapshot(2, log.head_hash, "old", "1", b"old"))
    found = newer.reader.snapshot()
    assert found is not None
    assert found.digest == "new"
    newer.close()


def test_a_large_batch_to_a_server_that_reads_slowly(
    url: str, log: PostgresEventLog, admin: psycopg.Connection
) -> None:
    """Begin does not wait until all of it is sent."""
    records = [
        StoredRecord.of(LogEntry(at, 0, at, PodDeleted(uid="x" * 1000))) for at in range(3000)
    ]
    with held(url, log.stream):
        log.begin(Batch(records, {}))
        assert log.head == 3000
    log.finish()
    assert heads(admin, log.stream) == (3000, 1)
