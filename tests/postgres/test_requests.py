"""Operators' requests: stored once and answered by a record, even if a process is killed in
between."""

from collections.abc import Iterator
from contextlib import closing

import psycopg
import pytest

from eventsched.domain.records import MemoryChanged, MemoryForgotten, Record, StreamStarted
from eventsched.domain.records.log_entry import LogEntry
from eventsched.eventlog import chain, database
from eventsched.eventlog.chain import Head, SealedBatch, Term
from eventsched.eventlog.log_errors import DatabaseRefusedError, FencedError
from eventsched.eventlog.port import Batch, StoredRecord
from eventsched.eventlog.postgres import request_table
from eventsched.eventlog.postgres.session import Session
from eventsched.eventlog.postgres.tail import Tail
from tests.databases import acting_as

STICKY = "FirstScheduledNode"


def sealed(term: Term, head: Head, *records: Record) -> SealedBatch:
    """A batch of records at a head."""
    stored = [
        StoredRecord.of(LogEntry(head.next + number, 1_700_000_000_000_000, head.next, record))
        for number, record in enumerate(records)
    ]
    return chain.seal(Batch(stored, {}), term, head, 1_700_000_000_000_000)


def commit(session: Session, *records: Record) -> None:
    """Begins a term and commits one batch."""
    term, head, *_ = session.acquire("s", "me")
    session.append(sealed(term, head, *records))


@pytest.fixture
def stream(database: str) -> str:
    """The address of a database with a stream in which a node is remembered."""
    with closing(Session(database)) as session:
        changed = MemoryChanged(plugin=STICKY, key="default/a", value={"node": "n1", "at": 5})
        commit(session, StreamStarted(format=1, engine="t", seed="s"), changed)
    return database


@pytest.fixture
def tail(stream: str) -> Iterator[Tail]:
    """A tail of the stream."""
    with closing(Tail(stream, "s")) as tail:
        yield tail


def test_a_request_is_open_until_its_record_is_committed(stream: str, tail: Tail) -> None:
    """It is not stored twice while it is open."""
    assert tail.requests() == []
    with request_table.open_requests(stream, "s") as requests:
        number = requests.ask_to_forget(STICKY, "default/a")
        assert requests.ask_to_forget(STICKY, "default/a") == number
        assert requests.answer(number) is None
        (request,) = tail.requests()
        assert (request.plugin, request.key, request.request) == (STICKY, "default/a", number)
        with closing(Session(stream)) as session:
            commit(session, request, MemoryChanged(plugin=STICKY, key="default/a"))
        assert requests.answer(number) == 2
        assert tail.requests() == []
        assert requests.ask_to_forget(STICKY, "default/a") != number
        assert len(tail.requests()) == 1


def test_a_leader_that_is_deposed_answers_nothing(stream: str, tail: Tail) -> None:
    """Its batch is not written, and the request is still open for the next one. The same batch
    again changes nothing."""
    with request_table.open_requests(stream, "s") as requests:
        requests.ask_to_forget(STICKY, "default/a")
    (request,) = tail.requests()
    with closing(Session(stream)) as old, closing(Session(stream)) as new:
        term, head, *_ = old.acquire("s", "old")
        batch = sealed(term, head, request)
        term, head, *_ = new.acquire("s", "new")
        with pytest.raises(FencedError):
            old.append(batch)
        assert tail.requests() == [request]
        batch = sealed(term, head, request)
        new.append(batch)
        new.append(batch)
    assert tail.requests() == []


def test_a_request_of_another_stream_is_not_marked(stream: str, tail: Tail) -> None:
    """Not even by a record that names its number."""
    with request_table.open_requests(stream, "s") as requests:
        number = requests.ask_to_forget(STICKY, "default/a")
    with closing(Session(stream)) as session:
        term, head, *_ = session.acquire("other", "me")
        request = MemoryForgotten(plugin=STICKY, key="x", by="ada", request=number)
        session.append(sealed(term, head, request))
    assert [each.request for each in tail.requests()] == [number]


def test_the_requester_is_the_session_user(stream: str, tail: Tail) -> None:
    """Regardless of SET ROLE; and a reader may not store requests."""
    writer = acting_as(stream, "eventsched_writer")
    with request_table.open_requests(writer, "s") as requests:
        requests.ask_to_forget(STICKY, "default/a")
    with psycopg.connect(stream) as connection:
        [(user,)] = connection.execute("SELECT session_user::text").fetchall()
        found = connection.execute(
            "SELECT stream, asked_by, plugin, key, seq FROM eventsched.requests"
        ).fetchall()
    assert found == [("s", user, STICKY, "default/a", None)]
    assert [each.by for each in tail.requests()] == [user]
    with (
        database.reader_address(stream, None) as reader,
        pytest.raises(DatabaseRefusedError) as refused,
        request_table.open_requests(reader, "s") as requests,
    ):
        requests.ask_to_forget(STICKY, "default/a")
    assert "eventsched_log.ask_to_forget" in refused.value.remedy


def test_the_smallest_privileges_are_enough(stream: str) -> None:
    """Those to read, and to call one function."""
    with psycopg.connect(stream, autocommit=True) as admin:
        admin.execute("CREATE ROLE eventsched_test_asker NOLOGIN IN ROLE eventsched_auditor")
        try:
            admin.execute(
                "GRANT EXECUTE ON FUNCTION eventsched_log.ask_to_forget(text, text, text)"
                " TO eventsched_test_asker"
            )
            address = acting_as(stream, "eventsched_test_asker")
            with request_table.open_requests(address, "s") as requests:
                assert requests.answer(requests.ask_to_forget(STICKY, "default/a")) is None
            with (
                psycopg.connect(address, autocommit=True) as connection,
                pytest.raises(psycopg.errors.InsufficientPrivilege),
            ):
                connection.execute("UPDATE eventsched_log.request SET seq = 1")
        finally:
            admin.execute("DROP OWNED BY eventsched_test_asker")
            admin.execute("DROP ROLE eventsched_test_asker")


def test_memory_in_sql(stream: str) -> None:
    """Values of old versions are node names without a time."""
    with closing(Session(stream)) as session:
        commit(
            session,
            MemoryChanged(plugin=STICKY, key="default/old", value="n2"),
            MemoryChanged(plugin="Other", key="k", value=[1]),
            MemoryChanged(plugin="Other", key="gone", value=1),
            MemoryChanged(plugin="Other", key="gone"),
        )
    with psycopg.connect(stream) as connection:
        nodes = connection.execute(
            "SELECT key, node, seq FROM eventsched.first_nodes ORDER BY key"
        ).fetchall()
        kept = connection.execute(
            "SELECT plugin, key, value::text FROM eventsched.memory ORDER BY seq"
        ).fetchall()
    assert nodes == [("default/a", "n1", 1), ("default/old", "n2", 2)]
    assert kept == [
        (STICKY, "default/a", '{"at":5,"node":"n1"}'),
        (STICKY, "default/old", '"n2"'),
        ("Other", "k", "[1]"),
    ]
