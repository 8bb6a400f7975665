"""The log in Postgres when something goes wrong: lost connections and answers, other writers, and
people who are not allowed to do what they try."""

import struct
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from hashlib import sha256
from itertools import count
from typing import Any
from uuid import uuid4

import numpy as np
import psycopg
import pytest

from eventsched.domain.errors import UnavailableError
from eventsched.domain.records import PodDeleted
from eventsched.domain.records.log_entry import LogEntry
from eventsched.domain.records.verdicts import Detail
from eventsched.eventlog import chain, database
from eventsched.eventlog.chain import SealedBatch
from eventsched.eventlog.log_errors import ConflictError, FencedError
from eventsched.eventlog.port import Batch, StoredRecord, StoredSnapshot
from eventsched.eventlog.postgres.writer import PostgresEventLog
from tests.contract.proxy import Loss, Proxy, between
from tests.contract.test_eventlog import append, batch, stored
from tests.databases import acting_as

_names = count()

TABLES = ("stream", "epoch", "batch", "node", "pod", "decision", "verdict", "scoring")
"""Tables that no role may change."""


@pytest.fixture
def admin(url: str) -> Iterator[psycopg.Connection]:
    """A superuser's connection."""
    with psycopg.connect(url, autocommit=True) as connection:
        yield connection


@pytest.fixture
def name() -> str:
    """The name of an unused stream."""
    return f"f{next(_names)}"


@pytest.fixture
def log(url: str, name: str) -> Iterator[PostgresEventLog]:
    """An empty log; its holder is called as the stream."""
    log = PostgresEventLog(url, name, name, patience=60)
    yield log
    log.close()


@pytest.fixture
def proxy(url: str) -> Iterator[Proxy]:
    """A way to the database that can lose things."""
    with between(url) as proxy:
        yield proxy


@pytest.fixture
def distant(proxy: Proxy, name: str) -> Iterator[PostgresEventLog]:
    """An empty log behind the proxy."""
    log = PostgresEventLog(proxy.url, name, name, patience=60)
    yield log
    log.close()


def until(condition: Callable[[], object]) -> None:
    """Waits for something that is bound to come."""
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


_MINE = "FROM pg_stat_activity WHERE datname = current_database() AND application_name = %s"


def kill(admin: psycopg.Connection, holder: str) -> None:
    """Ends a holder's backends, and waits until they are gone."""
    admin.execute(f"SELECT pg_terminate_backend(pid) {_MINE}", [f"eventsched {holder}"])
    until(lambda: not admin.execute(f"SELECT 1 {_MINE}", [f"eventsched {holder}"]).fetchall())


def blocked(admin: psycopg.Connection, holder: str) -> int:
    """How many of a holder's backends wait for a lock."""
    row = admin.execute(
        f"SELECT count(*) {_MINE} AND wait_event_type = 'Lock'",
        [f"eventsched {holder}"],
    ).fetchone()
    assert row is not None
    return int(row[0])


@contextmanager
def held(url: str, stream: str) -> Iterator[None]:
    """Locks the stream until the block ends."""
    query = (
        "SELECT FROM eventsched_log.head h JOIN eventsched_log.stream s ON s.id = h.stream"
        " WHERE s.name = %s FOR UPDATE OF h"
    )
    with psycopg.connect(url) as holding:
        holding.execute(query, [stream])
        yield
        holding.rollback()


def heads(admin: psycopg.Connection, stream: str) -> tuple[int, int]:
    """The stored head, and the number of batches."""
    row = admin.execute(
        "SELECT h.next, (SELECT count(*) FROM eventsched_log.batch b WHERE b.stream = s.id)"
        " FROM eventsched_log.head h JOIN eventsched_log.stream s ON s.id = h.stream"
        " WHERE s.name = %s",
        [stream],
    ).fetchone()
    assert row is not None
    return row


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


# --- the connection is lost ----------------------------------------------------------------------


def test_lost_before_the_batch_is_sent(admin: psycopg.Connection, log: PostgresEventLog) -> None:
    """It is sent again."""
    kill(admin, log.stream)
    append(log, batch(0, 2))
    assert list(log.read()) == stored(0, 2)


def test_lost_before_the_commit(url: str, admin: psycopg.Connection, log: PostgresEventLog) -> None:
    """Nothing of the first try is there: the batch is offered again."""
    append(log, batch(0))
    with held(url, log.stream):
        log.begin(batch(1, 2))
        until(lambda: blocked(admin, log.stream) == 1)
        kill(admin, log.stream)
    log.finish()
    assert list(log.read()) == stored(0) + stored(1, 2)
    assert heads(admin, log.stream) == (3, 2)


@pytest.mark.row(4)
def test_lost_after_the_commit(url: str, admin: psycopg.Connection, log: PostgresEventLog) -> None:
    """It is there once."""
    log.begin(batch(0, 2))
    until(lambda: heads(admin, log.stream) == (2, 1))
    kill(admin, log.stream)
    log.finish()
    append(log, batch(2))
    assert list(log.read()) == stored(0, 2) + stored(2)


@pytest.mark.parametrize("loss", Loss)
def test_a_lost_request_or_answer(
    admin: psycopg.Connection, proxy: Proxy, distant: PostgresEventLog, loss: Loss
) -> None:
    """The request, its answer, or only the end of the answer is lost: the batch is stored once,
    with its vectors, and the next one can be appended."""
    append(distant, batch(0))
    before = proxy.connections
    proxy.lose(loss)
    detail = Detail(0, None, np.zeros(0, dtype=np.uint16), ())
    distant.begin(Batch(stored(1, 2), {2: detail}))
    distant.finish()
    assert proxy.lost.is_set()
    assert proxy.connections > before
    append(distant, batch(3))
    assert heads(admin, distant.stream) == (4, 3)
    assert distant.detail(2) is not None


@pytest.mark.row(5)
def test_lost_while_the_first_try_goes_on(
    url: str, admin: psycopg.Connection, proxy: Proxy, distant: PostgresEventLog
) -> None:
    """The second try waits for it, and finds that there is nothing left to do."""
    with ThreadPoolExecutor(1) as threads:
        with held(url, distant.stream):
            distant.begin(batch(0, 2))
            until(lambda: blocked(admin, distant.stream) == 1)
            proxy.cut()
            finished = threads.submit(distant.finish)
            until(lambda: blocked(admin, distant.stream) == 2)
        finished.result(timeout=60)
    assert heads(admin, distant.stream) == (2, 1)
    append(distant, batch(2))


def test_the_same_batch_is_passed_over_for_ever(
    admin: psycopg.Connection, log: PostgresEventLog
) -> None:
    """Also when others have followed it; another one in its place is a conflict."""
    first = _sealed(log, batch(0, 2))
    append(log, batch(0, 2))
    for _ in range(2):
        _offer(log, first)
    append(log, batch(2))
    _offer(log, first)
    assert heads(admin, log.stream) == (3, 2)


def test_patience_runs_out(proxy: Proxy, name: str) -> None:
    """One line says what to do; when the database is back, the same batch can be finished."""
    log = PostgresEventLog(proxy.url, name, patience=0)
    proxy.unreachable = True
    proxy.cut()
    log.begin(batch(0, 2))
    with pytest.raises(UnavailableError) as told:
        log.finish()
    assert told.value.where.startswith("postgresql://")
    assert "continues from the log" in told.value.remedy
    assert "\n" not in str(told.value)
    with pytest.raises(UnavailableError):
        log.finish()
    proxy.unreachable = False
    with pytest.raises(UnavailableError):  # no patience: the first answer decides
        log.finish()
    log._patience = 60
    log.finish()
    assert list(log.read()) == stored(0, 2)
    log.close()


def test_an_answer_that_never_comes(url: str, log: PostgresEventLog) -> None:
    """The database is there, but stuck: patience ends, and the batch can be finished later."""
    with held(url, log.stream):
        log._patience = 0
        log.begin(batch(0))
        with pytest.raises(UnavailableError, match="no answer arrived in time"):
            log.finish()
    log._patience = 60
    log.finish()
    assert list(log.read()) == stored(0)


@pytest.mark.parametrize("case", ["unreachable", "another port", "no such database"])
def test_no_database(url: str, proxy: Proxy, case: str) -> None:
    """Neither for a writer nor for a reader."""
    addresses = {
        "unreachable": proxy.url,
        "another port": "postgresql://u:secret@127.0.0.1:1/x",
        "no such database": url.replace("/eventsched_test", "/eventsched_none"),
    }
    proxy.unreachable = True
    with pytest.raises(UnavailableError) as told:
        PostgresEventLog(addresses[case], "s")
    is_there = case == "no such database"
    remedy = "correct the address" if is_there else "start the database, or correct its address"
    assert told.value.remedy == remedy
    assert "secret" not in str(told.value)
    assert "\n" not in str(told.value)
    with pytest.raises(UnavailableError), database.reader_address(addresses[case], None):
        pass


def test_a_snapshot_that_cannot_be_kept_is_no_harm(
    admin: psycopg.Connection, log: PostgresEventLog
) -> None:
    """The log continues."""
    append(log, batch(0))
    kill(admin, log.stream)
    log.store_snapshot(StoredSnapshot(1, log.head_hash, "d", "v", b"body"))
    append(log, batch(1))
    assert log.head == 2


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
    sealed = _sealed(log, batch(1, 2))
    changes: dict[str, Any] = {
        "hash": bytes(32),
        "body": sealed.body.replace(b"p2", b"p3"),
        "mark": b"1",
        "count": 3,
        "written_at": 5,
    }
    with pytest.raises(UnavailableError, match="the batch at 1 is not what its hash says"):
        _offer(log, replace(sealed, **{wrong: changes[wrong]}))
    assert heads(admin, log.stream) == (1, 1)


def test_a_count_that_the_body_does_not_have(
    admin: psycopg.Connection, log: PostgresEventLog
) -> None:
    """Though the hash is right."""
    wrong = replace(_sealed(log, batch(0, 2)), count=3)
    with pytest.raises(UnavailableError, match="is not what its hash says"):
        _offer(log, replace(wrong, hash=chain.batch_hash(wrong)))
    assert heads(admin, log.stream) == (0, 0)


# --- who may do what -----------------------------------------------------------------------------


@pytest.mark.parametrize("table", TABLES)
def test_no_role_changes_the_log(admin: psycopg.Connection, url: str, table: str) -> None:
    """Not even a superuser, nor while triggers are off for replication."""
    log = PostgresEventLog(url, f"{table} stays", "h")
    append(log, batch(0))
    log.close()
    with admin.transaction(force_rollback=True):
        columns = admin.execute(f"SELECT * FROM eventsched_log.{table} LIMIT 0").description
        assert columns is not None
        _fill(admin, table)
        column = next(each.name for each in columns if each.name != "id")
        for statement in (
            f"UPDATE eventsched_log.{table} SET {column} = {column}",
            f"DELETE FROM eventsched_log.{table}",
            f"TRUNCATE eventsched_log.{table} CASCADE",
        ):
            for replicating in ("origin", "replica"):
                admin.execute(f"SET LOCAL session_replication_role = {replicating}")
                with pytest.raises(psycopg.DatabaseError) as denied, admin.transaction():
                    admin.execute(statement)
                assert denied.value.sqlstate == "ES009"
                assert "append-only" in str(denied.value)


def test_a_writer_may_write_through_functions_only(url: str, name: str) -> None:
    """A member of eventsched_writer can call everything in the port and nothing else."""
    address = acting_as(url, "eventsched_writer")
    log = PostgresEventLog(address, name)
    append(log, batch(0, 2))
    log.renew()
    log.store_snapshot(StoredSnapshot(2, log.head_hash, "d", "v", b"b"))
    assert list(log.read()) == stored(0, 2)
    assert log.reader.snapshot() is not None
    log.close()
    with psycopg.connect(address, autocommit=True) as connection:
        for table in (*TABLES, "head", "detail", "snapshot", "migration"):
            _denied(connection, f"INSERT INTO eventsched_log.{table} DEFAULT VALUES")
            _denied(connection, f"DELETE FROM eventsched_log.{table}")
            _denied(connection, f"TRUNCATE eventsched_log.{table}")
        _denied(connection, "UPDATE eventsched_log.head SET epoch = 0")
        _denied(connection, "SELECT eventsched_log.derive(1, 0, '[]')")
        _denied(connection, "CREATE TABLE eventsched_log.mine ()")
        _denied(connection, "ALTER TABLE eventsched_log.batch DISABLE TRIGGER ALL")
        _denied(connection, "DROP FUNCTION eventsched_log.deny() CASCADE")


def test_a_reader_may_read_only(url: str, log: PostgresEventLog) -> None:
    """Views, and the functions behind them; no table of the log, and nothing that writes."""
    append(log, batch(0, 2))
    address = acting_as(url, "eventsched_reader")
    with psycopg.connect(address, autocommit=True) as connection:
        for view in ("streams", "decisions", "bindings", "queue_moves", "reservations",
                     "first_nodes", "refusals", "memory", "requests"):  # fmt: skip
            connection.execute(f"SELECT * FROM eventsched.{view}").fetchall()
        for function in ("verdicts", "scores"):
            connection.execute(f"SELECT * FROM eventsched.{function}('s', 0)").fetchall()
        _denied(connection, "SELECT eventsched_log.ask_to_forget('s', 'p', 'k')")
        for table in (*TABLES, "head", "detail", "snapshot", "request"):
            if table != "stream":
                _denied(connection, f"SELECT * FROM eventsched_log.{table}")
            _denied(connection, f"DELETE FROM eventsched_log.{table}")
        _denied(connection, f"SELECT eventsched_log.acquire('s', '{uuid4()}', 'h', 'v')")
        _denied(connection, f"SELECT eventsched_log.renew(1, 1, '{uuid4()}')")
        _denied(
            connection,
            "SELECT eventsched_log.keep_snapshot(1, 1, gen_random_uuid(), 0, '', '', '', '')",
        )
    with pytest.raises(UnavailableError) as told:
        PostgresEventLog(address, log.stream)
    assert told.value.remedy == "GRANT eventsched_writer to this user"


def test_an_address_for_reading_changes_nothing(url: str, log: PostgresEventLog) -> None:
    """Though its user may do everything."""
    with (
        database.reader_address(url, None) as address,
        psycopg.connect(address, autocommit=True) as connection,
    ):
        assert connection.execute("SELECT current_user").fetchone() == ("eventsched_auditor",)
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            connection.execute("CREATE TEMPORARY TABLE mine ()")


# -------------------------------------------------------------------------------------------------


def _sealed(log: PostgresEventLog, sealed: Batch) -> SealedBatch:
    log._clock = lambda: 1_700_000_000_000_000
    return chain.seal(sealed, log._term, log._head, log._clock())


def _offer(log: PostgresEventLog, sealed: SealedBatch) -> None:
    log._connection.send(log._number, sealed)
    log._connection.answer(sealed, time.monotonic() + 60)


def _denied(connection: psycopg.Connection, statement: str) -> None:
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute(statement)


def _fill(admin: psycopg.Connection, table: str) -> None:
    rows = {
        "node": "(0, 1, 0, 'n')",
        "pod": f"('{uuid4()}', 0, 1, 'd', 'p')",
        "decision": f"(0, 0, 0, 0, 0, '{uuid4()}', 1, 1, 0, 0, 0, 'error', 'p', NULL, NULL)",
        "verdict": "(1, 1, 'p', 'c', '{}')",
        "scoring": "(1, 1, 1, 0, 'p', 'identity')",
    }
    if table in rows:
        admin.execute(f"INSERT INTO eventsched_log.{table} VALUES {rows[table]}")


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
