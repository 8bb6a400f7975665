"""A log in Postgres and its holders, as the database sees them."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count

import psycopg
import pytest

from eventsched.eventlog import chain
from eventsched.eventlog.chain import SealedBatch
from eventsched.eventlog.port import Batch
from eventsched.eventlog.postgres.writer import PostgresEventLog
from tests.contract.proxy import Proxy, between

_names = count()


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


# -------------------------------------------------------------------------------------------------


def sealed_by(log: PostgresEventLog, sealed: Batch) -> SealedBatch:
    log._clock = lambda: 1_700_000_000_000_000
    return chain.seal(sealed, log._term, log._head, log._clock())


def offer(log: PostgresEventLog, sealed: SealedBatch) -> None:
    log._connection.send(log._number, sealed)
    log._connection.answer(sealed, time.monotonic() + 60)
