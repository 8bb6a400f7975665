"""The tables by position have partitions, made ahead or by the append that needs one; old vectors
go by dropping partitions."""

import asyncio
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
import psycopg
import pytest

from eventsched.domain.errors import UnavailableError
from eventsched.domain.records import verdicts
from eventsched.domain.records.verdicts import Detail
from eventsched.eventlog import chain
from eventsched.eventlog.port import Batch, StoredSnapshot
from eventsched.eventlog.postgres.housekeeping import make_partitions, thin
from eventsched.eventlog.postgres.pruning import prune
from eventsched.eventlog.postgres.session import Session
from eventsched.eventlog.postgres.writer import PostgresEventLog
from eventsched.eventlog.schema import migrations
from eventsched.runtime.live import log_housekeeping
from eventsched.runtime.live.log_housekeeping import Retention
from eventsched.runtime.live.worker import Worker
from tests.contract.test_eventlog import append, stored
from tests.databases import acting_as, make_partitions_small

HOUR = 3600
NOW = 10 * HOUR * 1_000_000
TABLES = {
    "batch", "detail", "decision", "queue_move", "queue_stay", "reservation", "pod_end", "refusal",
    "mention", "victim", "comparison",
}  # fmt: skip


def vector(base: int | None = None) -> Detail:
    """Vectors over no nodes."""
    return Detail(0, base, np.zeros(0, dtype=np.uint16), ())


@pytest.fixture
def small(database: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A database whose partitions hold four records."""
    make_partitions_small(database, 4, monkeypatch)
    return database


def remaining(database: str) -> list[tuple[str, int]]:
    """(stream, position) of all vectors."""
    query = (
        "SELECT s.name, d.seq FROM eventsched_log.detail d"
        " JOIN eventsched_log.stream s ON s.id = d.stream ORDER BY 1, 2"
    )
    with psycopg.connect(database) as admin:
        return admin.execute(query).fetchall()


def partitions(database: str) -> dict[str, set[tuple[int, int]]]:
    """The (stream, first position) of the partitions of each table, from their names."""
    query = (
        "SELECT p.relname, c.relname FROM pg_inherits i JOIN pg_class p ON p.oid = i.inhparent"
        " JOIN pg_class c ON c.oid = i.inhrelid WHERE p.relkind = 'p'"
    )
    found: dict[str, set[tuple[int, int]]] = {}
    with psycopg.connect(database) as admin:
        for table, name in admin.execute(query):
            stream, first = name.removeprefix(f"{table}_").split("_")
            found.setdefault(table, set()).add((int(stream), int(first)))
    return found


def alike(*found: tuple[int, int]) -> dict[str, set[tuple[int, int]]]:
    """The same partitions of each table."""
    return {table: set(found) for table in TABLES}


@contextmanager
def querying(database: str, query: str) -> Iterator[None]:
    """An open transaction that has asked this."""
    with psycopg.connect(database) as reader:
        reader.execute(query.encode())
        yield


def test_an_append_makes_the_partition_that_it_needs(small: str) -> None:
    """In all tables alike, also several at once, for each stream its own."""
    with (
        closing(PostgresEventLog(small, "s", "w")) as log,
        closing(PostgresEventLog(small, "t", "w")) as other,
    ):
        append(log, Batch(stored(0, 3), {}))
        assert partitions(small) == alike((1, 0))
        append(log, Batch(stored(3, 2), {3: vector(), 4: vector()}))
        assert partitions(small) == alike((1, 0), (1, 4))
        append(log, Batch(stored(5, 8), {}))
        append(other, Batch(stored(0), {}))
        assert partitions(small)["batch"] == {(1, 0), (1, 4), (1, 8), (1, 12), (2, 0)}
        assert len(list(log.read())) == 13
        assert len(list(log.read(7))) == 6
    assert remaining(small) == [("s", 3), ("s", 4)]


def test_the_next_partition_is_made_once_the_last_one_is_half_full(small: str) -> None:
    """The append that goes there then finds it."""
    with closing(PostgresEventLog(small, "s", "w")) as log:
        append(log, Batch(stored(0, 2), {}))
        assert make_partitions(small, "s") == 2
        assert partitions(small)["batch"] == {(1, 0)}
        append(log, Batch(stored(2), {}))
        assert make_partitions(small, "s") == 5
        assert make_partitions(acting_as(small, "eventsched_writer"), "s") == 5
        append(log, Batch(stored(3, 5), {}))
        assert partitions(small) == alike((1, 0), (1, 4))
    with pytest.raises(UnavailableError, match="permission denied"):
        make_partitions(acting_as(small, "eventsched_reader"), "s")
    assert make_partitions(small, "unknown") == 0


def test_appends_do_not_wait_while_a_partition_is_made(small: str) -> None:
    """Housekeeping may take its time: its transaction is open here."""
    with closing(PostgresEventLog(small, "s", "w", patience=5.0)) as log:
        append(log, Batch(stored(0, 3), {}))
        with querying(small, "SELECT eventsched_log.make_partitions('s')"):
            append(log, Batch(stored(3), {3: vector()}))
            assert partitions(small)["batch"] == {(1, 0)}
    assert partitions(small)["batch"] == {(1, 0), (1, 4)}
    assert remaining(small) == [("s", 3)]


@contextmanager
def no_room(database: str) -> Iterator[None]:
    """The disk has no room for another partition."""
    with psycopg.connect(database, autocommit=True) as admin:
        admin.execute("""
            CREATE FUNCTION public.fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                RAISE EXCEPTION 'could not extend file: No space left on device'
                USING ERRCODE = '53100';
            END $$;
            CREATE TRIGGER fail BEFORE INSERT ON eventsched_log.partition
                FOR EACH ROW EXECUTE FUNCTION public.fail()""")
        yield
        admin.execute("DROP FUNCTION public.fail CASCADE")


def test_a_full_disk_while_an_append_makes_a_partition(small: str) -> None:
    """Nothing of it is done; with room the same batch is committed."""
    with closing(Session(small)) as session:
        acquired = session.acquire("s", "h")
        first = chain.seal(Batch(stored(0, 3), {}), acquired.term, acquired.head, 0)
        second = chain.seal(Batch(stored(3, 3), {}), acquired.term, first.head, 0)
        session.append(first)
        with no_room(small):
            for _ in range(2):
                with pytest.raises(UnavailableError, match="No space left on device"):
                    session.append(second)
            assert partitions(small) == alike((1, 0))
            with psycopg.connect(small) as admin:
                [(end,)] = admin.execute("SELECT next FROM eventsched_log.head").fetchall()
            assert end == 3
        session.append(second)
    assert partitions(small) == alike((1, 0), (1, 4))


def test_a_full_disk_while_housekeeping_makes_a_partition(small: str) -> None:
    """Old partitions are dropped all the same. That makes room."""
    with closing(PostgresEventLog(small, "s", "w", clock=lambda: 0)) as log:
        append(log, Batch(stored(0, 4), {}))
        log.store_snapshot(StoredSnapshot(4, log.head_hash, "digest", "1", b"body"))
        append(log, Batch(stored(4, 3), {}))
    with psycopg.connect(small, autocommit=True) as admin:
        admin.execute("SELECT eventsched_log.keep_checkpoint('s', 4)")
        admin.execute("UPDATE eventsched_log.partition SET seal = 5 WHERE first = 0")
    worker = Worker("test")
    retention = Retention(records_age=HOUR, needs_archive=False)
    housekeeper = log_housekeeping._Housekeeper(small, "s", retention, lambda: NOW)
    with no_room(small), pytest.raises(UnavailableError, match="No space left on device"):
        asyncio.run(housekeeper.tidy(worker))
    assert partitions(small) == alike((1, 4))
    assert asyncio.run(housekeeper.tidy(worker)).records_ahead == 5
    assert partitions(small) == alike((1, 4), (1, 8))
    worker.stop()


def test_a_day_of_the_archive_that_ends_with_the_last_batch_of_a_partition(small: str) -> None:
    """That batch also has records of the next partition. The note about that day goes with the
    first partition, and the next one may be dropped all the same."""
    with closing(PostgresEventLog(small, "s", "w", clock=lambda: 0)) as log:
        for first in (0, 3, 6):
            append(log, Batch(stored(first, 3), {}))
        log.store_snapshot(StoredSnapshot(9, log.head_hash, "digest", "1", b"body"))
    with psycopg.connect(small, autocommit=True) as admin:
        admin.execute("SELECT eventsched_log.keep_checkpoint('s', 9)")
        admin.execute("UPDATE eventsched_log.partition SET seal = 8 WHERE first < 8")
        for day, first, end in (("2026-01-01", 0, 6), ("2026-01-02", 6, 9)):
            admin.execute(
                "SELECT eventsched_log.note_archived('s', %s, %s, %s, '{}')", [day, first, end]
            )
    assert len(prune(small, "s", 0, NOW, needs_archive=True)) == 2
    assert partitions(small) == alike((1, 8))


def test_partitions_grow_with_their_number(database: str) -> None:
    """So a stream without retention has a bounded number of them for any practical length."""
    with psycopg.connect(database) as admin:
        admin.execute("SET eventsched.partition_records = 2")
        admin.execute("SELECT eventsched_log.acquire('s', gen_random_uuid(), 'h', 'v')")
        admin.execute(
            "INSERT INTO eventsched_log.partition (stream, first, next)"
            " SELECT 1, n * 2, n * 2 + 2 FROM generate_series(0, 127) AS n"
        )
        admin.execute("SELECT eventsched_log.extend_partitions(1, 257)")
        rows = admin.execute(
            "SELECT first, next FROM eventsched_log.partition ORDER BY first DESC LIMIT 1"
        ).fetchall()
    assert rows == [(256, 260)]


def test_old_vectors_go_by_whole_partitions(small: str) -> None:
    """Once all decisions of a partition are old. Records stay, and so do other streams."""
    clock = [0]
    with (
        closing(PostgresEventLog(small, "s", "w", clock=lambda: clock[0])) as log,
        closing(PostgresEventLog(small, "t", "w", clock=lambda: 0)) as other,
    ):
        append(other, Batch(stored(0), {0: vector()}))
        append(log, Batch(stored(0, 3), {0: vector(), 1: vector(0)}))
        append(log, Batch(stored(3, 3), {3: vector(), 4: vector(), 5: vector(4)}))
        clock[0] = 8 * HOUR * 1_000_000
        append(log, Batch(stored(6, 7), {6: vector(), 12: vector()}))

        assert thin(small, "s", 20 * HOUR, NOW) == 0
        assert thin(small, "s", 5 * HOUR, NOW) == 3
        assert remaining(small) == [("s", 4), ("s", 5), ("s", 6), ("s", 12), ("t", 0)]
        assert thin(small, "s", 5 * HOUR, NOW) == 0
        assert thin(small, "s", 1 * HOUR, NOW) == 3
        assert remaining(small) == [("s", 12), ("t", 0)]
        assert len(list(log.read())) == 13
        assert thin(small, "unknown", 0, NOW) == 0
    found = partitions(small)
    assert found["detail"] == {(1, 12), (2, 0)}
    assert found["batch"] == {(1, 0), (1, 4), (1, 8), (1, 12), (2, 0)}


def test_a_partition_that_a_later_vector_builds_on_stays(small: str) -> None:
    """Versions before this one wrote such vectors. It goes with the later one."""
    with closing(PostgresEventLog(small, "s", "w", clock=lambda: 0)) as log:
        append(log, Batch(stored(0, 3), {2: vector()}))
        append(log, Batch(stored(3, 3), {3: vector(2), 4: vector(3), 5: vector(4)}))
        assert thin(small, "s", 0, NOW) == 0
        append(log, Batch(stored(6, 2), {6: vector(), 7: vector(6)}))
        append(log, Batch(stored(8, 1), {8: vector()}))
        assert thin(small, "s", 0, NOW) == 6
        assert remaining(small) == [("s", 8)]


def test_queries_on_vectors_hold_up_their_deletion_and_no_append(
    small: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gives up, and succeeds the next time."""
    monkeypatch.setattr("eventsched.eventlog.postgres.housekeeping._TRIES", 2)
    with closing(PostgresEventLog(small, "s", "w", clock=lambda: 0)) as log:
        append(log, Batch(stored(0, 5), {0: vector(), 4: vector()}))
        with querying(small, "SELECT * FROM eventsched_log.detail"):
            assert thin(small, "s", 0, NOW) == 0
            append(log, Batch(stored(5), {5: vector()}))
        assert thin(small, "s", 0, NOW) == 1
    assert remaining(small) == [("s", 4), ("s", 5)]


def test_a_reader_may_not_delete(database: str) -> None:
    """Only a writer may."""
    with pytest.raises(UnavailableError, match="permission denied"):
        thin(acting_as(database, "eventsched_reader"), "s", 1, NOW)
    assert thin(acting_as(database, "eventsched_writer"), "s", 1, NOW) == 0


@pytest.mark.parametrize("table", sorted(TABLES - {"detail"}))
def test_a_partition_is_append_only(small: str, table: str) -> None:
    """As its table, also for the user who owns it and in a session that replicates."""
    with closing(PostgresEventLog(small, "s", "w")) as log:
        append(log, Batch(stored(0), {}))
    with psycopg.connect(small, autocommit=True) as admin:
        admin.execute("SET session_replication_role = replica")
        with pytest.raises(psycopg.Error, match="append-only: TRUNCATE"):
            admin.execute(f"TRUNCATE eventsched_log.{table}_1_0".encode())
        if table == "batch":
            with pytest.raises(psycopg.Error, match="append-only: DELETE"):
                admin.execute("DELETE FROM eventsched_log.batch_1_0")


def test_the_streams_of_an_older_schema_get_partitions(database: str, tmp_path: Path) -> None:
    """The largest one keeps its rows in place, those of the other one move; and back again."""
    with (
        closing(PostgresEventLog(database, "s", "w")) as log,
        closing(PostgresEventLog(database, "t", "w")) as other,
    ):
        append(other, Batch(stored(0, 3), {2: vector()}))
        append(log, Batch(stored(0, 2), {1: vector()}))
    migrations.downgrade(database, "0011")
    assert partitions(database) == {}
    assert remaining(database) == [("s", 1), ("t", 2)]
    migrations.upgrade(database)
    assert partitions(database) == alike((1, 0), (2, 0))
    assert remaining(database) == [("s", 1), ("t", 2)]
    with closing(PostgresEventLog(database, "s", "w")) as log:
        append(log, Batch(stored(2, 2), {3: vector(1)}))
        assert len(list(log.read())) == 4
        assert len(list(log.reader.batches())) == 2


def test_a_delta_and_its_base_are_in_one_block() -> None:
    """Partitions are made of whole blocks, so none builds on the one before."""
    block = verdicts.DELTA_BLOCK
    assert (4 << 20) % block == 0
    assert verdicts.may_build_on(block, 2 * block - 1)
    assert not verdicts.may_build_on(block - 1, block)
