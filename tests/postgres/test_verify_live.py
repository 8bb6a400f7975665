"""``eventsched verify`` of a log that is being written: no long transaction, no false alarm."""

import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

import psycopg
import pytest

from eventsched.cli.main import main
from eventsched.domain import records
from eventsched.domain.records.log_entry import LogEntry
from eventsched.eventlog.port import Batch, StoredRecord
from eventsched.eventlog.postgres.housekeeping import thin
from eventsched.eventlog.postgres.writer import PostgresEventLog
from eventsched.history.verify import verification, verified_database, verified_vectors
from eventsched.history.verify.verification import Result, verify_database
from tests.builders import make_pod
from tests.databases import make_partitions_small
from tests.postgres.histories import TIGHT, simulated
from tests.postgres.simulations import small_batches
from tests.waiting import until

Hook = Callable[[int], None]


@pytest.fixture
def log(database: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of a database with a log of many small pages and partitions."""
    make_partitions_small(database, 16, monkeypatch)
    with small_batches():
        simulated(database)
    monkeypatch.setattr(verified_database, "_ROWS_AT_ONCE", 10)
    monkeypatch.setattr(verified_database, "_BATCHES_AT_ONCE", 2)
    monkeypatch.setattr(verified_database, "_WINDOW", 100)
    return database


def verified(monkeypatch: pytest.MonkeyPatch, url: str, hook: Hook) -> Result:
    """What is found, with something that happens before each batch is looked at: it is given the
    number of batches before."""
    look = verification._Verification._batch
    seen: list[int] = []

    def watched(self: Any, batch: Any) -> None:
        hook(len(seen))
        seen.append(batch.first)
        look(self, batch)

    with monkeypatch.context() as patched, psycopg.connect(url, autocommit=True) as connection:
        patched.setattr(verification._Verification, "_batch", watched)
        [result] = verify_database(connection)
    assert len(seen) == result.batches >= 20
    return result


def append(url: str) -> None:
    """A new term, and a batch with a pod."""
    with closing(PostgresEventLog(url, TIGHT, "another")) as log:
        first, pod = log.head, make_pod(f"late-{time.monotonic_ns()}")
        added = LogEntry(first, 10**15, first, records.PodAdded(pod=pod))
        log.begin(Batch([StoredRecord.of(added)], {}))
        log.finish()


def thin_all(url: str) -> int:
    """Deletes all vectors except those of the last partition; how many."""
    return thin(url, TIGHT, -3600, time.time_ns() // 1_000)


def test_no_transaction_is_older_than_a_page(log: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """None is open while a batch is looked at, so that Postgres can clean up; and what is appended
    meanwhile, by another writer too, is none of this verification's concern."""
    query = """
        SELECT count(*), count(xact_start), count(backend_xmin) FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid()
          AND query NOT LIKE 'autovacuum:%' AND backend_type = 'client backend'
    """
    with psycopg.connect(log, autocommit=True) as observer:

        def no_transaction() -> bool:
            [(connections, *transactions)] = observer.execute(query).fetchall()
            assert connections >= 1
            return transactions == [0, 0]

        def look(number: int) -> None:
            until(no_transaction, "no transaction is open")  # a writer's connection may be closing
            if number in (1, 10):
                append(log)

        before = observer.execute("SELECT next FROM eventsched_log.head").fetchone()
        result = verified(monkeypatch, log, look)
    assert result.problems == []
    assert before == (result.records,)
    with psycopg.connect(log, autocommit=True) as connection:
        [later] = verify_database(connection)
    assert (later.problems, later.records) == ([], result.records + 2)


@pytest.mark.parametrize("cache_bytes", [0, verified_vectors.CACHE_BYTES])
def test_thinning_during_verification_is_counted_and_no_problem(
    log: str, monkeypatch: pytest.MonkeyPatch, cache_bytes: int
) -> None:
    """Both with the vectors read before in memory, and with none."""
    monkeypatch.setattr(verified_vectors.Expander.__init__, "__defaults__", (cache_bytes,))
    deleted = []

    def thinning(number: int) -> None:
        if number == 10:
            deleted.append(thin_all(log))

    result = verified(monkeypatch, log, thinning)
    assert result.problems == []
    assert 0 < deleted[0] <= result.details + result.thinned
    assert result.thinned == result.thinned_meanwhile > 0
    assert result.details > 0


def test_details_missing_before_a_thinning_are_reported(
    log: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with psycopg.connect(log, autocommit=True) as connection:
        newest = "(SELECT max(seq) FROM eventsched_log.detail)"
        connection.execute(f"DELETE FROM eventsched_log.detail WHERE seq = {newest}".encode())

    def thinning(number: int) -> None:
        if number == 10:
            assert thin_all(log) > 0

    result = verified(monkeypatch, log, thinning)
    assert result.first is not None
    assert result.first.text.endswith(
        "(the log was thinned meanwhile, but not all of it: verify with --thinned)"
    )


def test_the_command_says_what_was_thinned_meanwhile(
    log: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    look = verification._Verification._batch
    numbers = iter(range(10**6))

    def watched(self: Any, batch: Any) -> None:
        if next(numbers) == 10:
            thin_all(log)
        look(self, batch)

    monkeypatch.setattr(verification._Verification, "_batch", watched)
    capsys.readouterr()
    assert main(["verify", "--database", log]) == 0
    out = capsys.readouterr().out
    assert " of which were thinned while this ran) are what was written" in out
