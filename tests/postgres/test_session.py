"""A live writer's session: terms, appends whose outcome is unknown, and failovers under it."""

import socket
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import psycopg
import pytest

from eventsched.domain.errors import UnavailableError
from eventsched.domain.records import PodDeleted
from eventsched.domain.records.log_entry import LogEntry
from eventsched.eventlog import chain
from eventsched.eventlog.addresses import NOTICES
from eventsched.eventlog.chain import Head, SealedBatch, Term
from eventsched.eventlog.embedded.embedded_server import EmbeddedPostgres
from eventsched.eventlog.log_errors import (
    ConflictError,
    DatabaseRefusedError,
    FencedError,
    HistoryChangedError,
    UnknownOutcomeError,
)
from eventsched.eventlog.port import Batch, StoredRecord, StoredSnapshot
from eventsched.eventlog.postgres.reader import Reader
from eventsched.eventlog.postgres.session import AcquiredTerm, Session
from eventsched.eventlog.postgres.tail import Tail
from eventsched.eventlog.postgres.writer_connection import WriterConnection
from eventsched.eventlog.schema import migrations
from tests.contract.proxy import Loss, Proxy
from tests.databases import migrate
from tests.waiting import until


def sealed(term: Term, head: Head, count: int = 1) -> SealedBatch:
    """A batch of a number of records at a head."""
    records = [
        StoredRecord.of(LogEntry(at, 0, at, PodDeleted(uid=f"p{at}")))
        for at in range(head.next, head.next + count)
    ]
    return chain.seal(Batch(records, {}), term, head, 1_700_000_000_000_000)


def positions(address: str) -> list[int]:
    """What is in the log."""
    return [each.position for each in Reader(address, "s").read()]


def test_a_term_and_its_batches(database: str) -> None:
    """One after the other; the same batch again is passed over."""
    with closing(Session(database)) as session:
        term, head, history, _ = session.acquire("s", "me")
        assert (term.epoch, head) == (1, Head(0, chain.genesis("s")))
        assert "/" in history
        first = sealed(term, head, 2)
        session.append(first)
        session.append(first)
        session.renew(term)
        second = sealed(term, first.head)
        session.append(second)
        session.store_snapshot(term, StoredSnapshot(3, second.hash, "d", "v", b"b"))
        assert session.connections == 1
    assert positions(database) == [0, 1, 2]
    found = Reader(database, "s").snapshot()
    assert found == StoredSnapshot(3, second.hash, "d", "v", b"b")


@pytest.mark.parametrize("loss", Loss)
def test_an_unknown_outcome_is_said_and_the_batch_can_come_again(proxy: Proxy, loss: Loss) -> None:
    """On a connection of its own; it is in the log once, and the next one follows."""
    with closing(Session(proxy.url)) as session:
        term, head, *_ = session.acquire("s", "me")
        first = sealed(term, head)
        proxy.lose(loss)
        with pytest.raises(UnknownOutcomeError):
            session.append(first)
        session.append(first)
        session.append(sealed(term, first.head))
        assert session.connections == 2
    assert positions(proxy.url) == [0, 1]


def test_an_unknown_renewal(proxy: Proxy) -> None:
    """It is asked again."""
    with closing(Session(proxy.url)) as session:
        term, *_ = session.acquire("s", "me")
        proxy.lose(Loss.ANSWER)
        with pytest.raises(UnknownOutcomeError):
            session.renew(term)
        session.renew(term)


def test_a_renewal_that_does_not_come_in_time(database: str) -> None:
    """The wait for it is bounded."""
    with closing(Session(database, answer_limit=1.0)) as session:
        term, *_ = session.acquire("s", "me")
        with psycopg.connect(database) as holder:
            holder.execute("SELECT FROM eventsched_log.head FOR UPDATE")
            with pytest.raises(UnknownOutcomeError, match="no answer arrived in time"):
                session.renew(term)
        session.renew(term)
        assert session.connections == 2


def test_a_term_that_does_not_begin_in_time(database: str) -> None:
    """Neither is that waited for: the server holds the connection, and does not answer."""
    with closing(Session(database, answer_limit=1.0)) as session:
        session.acquire("s", "me")
        with psycopg.connect(database) as holder:
            holder.execute("LOCK eventsched_log.head")
            with pytest.raises(UnavailableError) as told:
                session.acquire("s", "me")
        assert not isinstance(told.value, DatabaseRefusedError)
        assert session.acquire("s", "me").term.epoch > 1  # the one given up may have begun


def test_a_snapshot_that_is_not_taken_in_time(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is given up, and the connection with it."""
    monkeypatch.setattr(WriterConnection.store_snapshot, "__defaults__", (0.2,))
    with closing(Session(database)) as session:
        term, head, *_ = session.acquire("s", "me")
        with psycopg.connect(database) as holder:
            holder.execute("LOCK eventsched_log.snapshot")
            session.store_snapshot(term, StoredSnapshot(0, head.hash, "d", "v", b"b"))
        with pytest.raises(UnknownOutcomeError):
            session.append(sealed(term, head))
        session.append(sealed(term, head))


@pytest.mark.parametrize("ask", [migrations.require, lambda url: Tail(url, "s").poll(Head(0, b""))])
def test_a_server_that_takes_connections_and_says_nothing(
    ask: Callable[[str], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that is stopped: no connection is waited for without end."""
    monkeypatch.setattr(migrations, "NOTICES", {**NOTICES, "connect_timeout": 2})
    with socket.create_server(("127.0.0.1", 0)) as mute:
        url = f"postgresql://u@127.0.0.1:{mute.getsockname()[1]}/db"
        with pytest.raises(UnavailableError):
            ask(url)


def test_an_answer_that_does_not_come_in_time(database: str) -> None:
    """The head is locked: the append waits and gives up; its outcome is unknown. The same batch is
    sent again until there is an answer."""

    def is_answered() -> bool:
        try:
            session.append(batch)
        except (UnavailableError, UnknownOutcomeError):
            return False
        return True

    def begun() -> list[AcquiredTerm]:
        with suppress(UnavailableError):
            return [session.acquire("s", "me")]
        return []

    with closing(Session(database, answer_limit=0.2)) as session:
        [(term, head, *_)] = until(begun, "a term has begun")  # on a busy machine not at once
        batch = sealed(term, head)
        with psycopg.connect(database) as holder:
            holder.execute("SELECT FROM eventsched_log.head FOR UPDATE")
            with pytest.raises(UnknownOutcomeError, match="no answer arrived in time"):
                session.append(batch)
        until(is_answered, "the batch is answered")
    assert positions(database) == [0]


def test_a_database_that_is_unreachable_for_a_while(proxy: Proxy) -> None:
    """Repeating the request is all that is needed."""
    with closing(Session(proxy.url)) as session:
        term, head, *_ = session.acquire("s", "me")
        proxy.unreachable = True
        proxy.cut()
        with pytest.raises(UnknownOutcomeError):
            session.append(sealed(term, head))
        with pytest.raises(UnavailableError) as told:
            session.renew(term)
        assert not isinstance(told.value, DatabaseRefusedError)
        session.store_snapshot(term, StoredSnapshot(0, head.hash, "d", "v", b"b"))
        proxy.unreachable = False
        session.renew(term)
        session.append(sealed(term, head))
    assert positions(proxy.url) == [0]


def test_a_writer_that_was_replaced(database: str) -> None:
    """Its batches and renewals are refused; the head is not."""
    with closing(Session(database)) as old, closing(Session(database)) as new:
        term, head, *_ = old.acquire("s", "old")
        batch = sealed(term, head)
        old.append(batch)
        later, there, *_ = new.acquire("s", "new")
        assert (later.epoch, there) == (2, batch.head)
        old.append(batch)  # it is there: what was committed before stays so
        with pytest.raises(FencedError):
            old.append(sealed(term, batch.head))
        with pytest.raises(FencedError):
            old.renew(term)
        with pytest.raises(ConflictError):
            new.append(sealed(later, Head(5, bytes(32))))


@pytest.mark.parametrize("address", ["no such database", "no such role", "no schema"])
def test_permanent_connection_errors(database: str, address: str) -> None:
    """The error differs from that of an unreachable database."""
    made = {
        "no such database": database.replace("/eventsched_test", "/eventsched_none"),
        "no such role": "postgresql://no-such-role@" + database.split("@")[1],
        "no schema": database,
    }[address]
    if address == "no schema":
        with psycopg.connect(database, autocommit=True) as admin:
            admin.execute("DROP SCHEMA eventsched_log CASCADE")
    with closing(Session(made)) as session, pytest.raises(DatabaseRefusedError) as told:
        session.acquire("s", "me")
    remedy = "eventsched db upgrade" if address == "no schema" else "correct the address"
    assert remedy in told.value.remedy


@pytest.mark.row(9)
def test_a_term_does_not_outlive_a_failover(place: Path) -> None:
    """Though the log is the same on the new timeline: what the old one had acknowledged may be
    missing."""
    settings = {"restore_command": "false"}
    with (
        EmbeddedPostgres(place / "data").open(writer=True) as postgres,
        closing(Session(postgres.superuser_url)) as session,
    ):
        migrate(postgres.superuser_url)
        term, head, history, _ = session.acquire("s", "me")
        batch = sealed(term, head)
        session.append(batch)
        system, timeline, copy = history.split("/")
        assert timeline == "1"
        session.close()
        postgres.close()
        (place / "data" / "postgres" / "recovery.signal").touch()
        with EmbeddedPostgres(place / "data", settings=settings).open(writer=True):
            promoted(session, term)
            for _ in range(2):
                with pytest.raises(HistoryChangedError):
                    session.append(sealed(term, batch.head))
            later, there, now, _ = session.acquire("s", "me")
            assert (later.epoch, there) == (2, batch.head)
            assert now == f"{system}/2/{copy}"
            session.append(sealed(later, there))
            session.close()


def promoted(session: Session, term: Term) -> None:
    """Waits until the server is a primary: until then it can be connected to, and is of no use."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        with suppress(HistoryChangedError):
            try:
                session.renew(term)
            except UnavailableError:
                continue
        return
    raise AssertionError("the server is still in recovery")
