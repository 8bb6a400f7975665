"""The log in Postgres when connections, requests or answers are lost, or the database is down."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import psycopg
import pytest

from eventsched.domain.errors import UnavailableError
from eventsched.domain.records.verdicts import Detail
from eventsched.eventlog import database
from eventsched.eventlog.port import Batch, StoredSnapshot
from eventsched.eventlog.postgres.writer import PostgresEventLog
from tests.contract.postgres_logs import blocked, heads, held, kill, offer, sealed_by, until
from tests.contract.proxy import Loss, Proxy
from tests.contract.test_eventlog import append, batch, stored


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
    first = sealed_by(log, batch(0, 2))
    append(log, batch(0, 2))
    for _ in range(2):
        offer(log, first)
    append(log, batch(2))
    offer(log, first)
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
