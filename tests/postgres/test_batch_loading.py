"""Loading of batches, many at once: the rows are those of one append after another, and the
database refuses what append() refuses."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from eventsched.eventlog.postgres import batch_loader
from eventsched.eventlog.postgres.stored_batch import StoredBatch
from eventsched.eventlog.whole_stream import StreamCopy
from eventsched.history.verify.verification import verify_database
from tests.databases import Server, make_partitions_small, migrate
from tests.postgres.tampered_logs import NAMES, STREAM, TYPED, simulate

_BATCHES = """
SELECT b.first, b.count, b.epoch, (extract(epoch FROM b.written_at) * 1000000)::bigint,
       b.mark::text, b.hash, b.body::text FROM eventsched_log.batch b ORDER BY b.first
"""
_DETAILS = "SELECT seq, base, body FROM eventsched_log.detail ORDER BY seq"
_SAME = ("batch", "detail", *NAMES, "pod_now", "record_count", *TYPED)
Content = tuple[list[StoredBatch], list[tuple[Any, ...]]]


@pytest.fixture
def source(one_server: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A database with a log in many batches and several partitions."""
    with one_server.fresh(migrate) as url:
        make_partitions_small(url, 128, monkeypatch)
        simulate(url, "nodes=8,pods=60,shape=tight,seed=1")
        yield url


@pytest.fixture
def content(source: str) -> Content:
    """The batches of the log, and its vectors."""
    with psycopg.connect(source) as connection:
        batches = [StoredBatch(*row) for row in connection.execute(_BATCHES).fetchall()]
        return batches, connection.execute(_DETAILS).fetchall()


def copied(url: str, content: Content, token: bytes) -> None:
    """Loads the log into a database, in one transaction."""
    batches, details = content
    with psycopg.connect(url) as connection:
        copy = StreamCopy(connection, STREAM, "test")
        copy.begin(1, token, 0)
        for batch in batches:
            end = batch.first + batch.count
            copy.append(batch, [row for row in details if batch.first <= row[0] < end])
        copy.flush()


def token_of(url: str) -> bytes:
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT token FROM eventsched_log.epoch").fetchone()
    assert row is not None
    token: bytes = row[0].bytes
    return token


def rows(url: str) -> dict[str, list[tuple[Any, ...]]]:
    """The rows of all tables, without the number of the stream."""
    with psycopg.connect(url) as connection:
        return {
            table: connection.execute(
                f"SELECT (to_jsonb(t) - 'stream')::text FROM eventsched_log.{table} t ORDER BY 1"
                .encode()
            ).fetchall()
            for table in (*_SAME, "partition")
        }  # fmt: skip


def without_times(found: dict[str, list[tuple[Any, ...]]]) -> dict[str, Any]:
    return {table: each for table, each in found.items() if table != "partition"} | {
        "partition": len(found["partition"])
    }


@pytest.mark.parametrize("at_once", [1, 7, 10_000])
def test_the_rows_are_those_of_single_appends(
    source: str, content: Content, database: str, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    make_partitions_small(database, 128, monkeypatch)
    monkeypatch.setattr(batch_loader, "BATCHES_AT_ONCE", at_once)
    assert len(content[0]) > 20
    copied(database, content, token_of(source))
    found, expected = rows(database), rows(source)
    assert len(expected["partition"]) > 2
    assert without_times(found) == without_times(expected)
    with psycopg.connect(database) as connection:
        [result] = verify_database(connection, thinned=True)
    assert result.problems == []


def test_the_head_changes_once_for_many_batches(
    source: str, content: Content, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one transaction, each change of a row passes all its earlier versions: with one for each
    batch the time grew with the square of their number."""
    monkeypatch.setattr(batch_loader, "BATCHES_AT_ONCE", 10)
    copied(database, content, token_of(source))
    with psycopg.connect(database) as connection:
        query = "SELECT renewals FROM eventsched_log.head"
        [(changes,)] = connection.execute(query).fetchall()
    assert changes == 1 + -(-len(content[0]) // 10)  # and one by the begin of the term


def _altered_body(batch: StoredBatch) -> StoredBatch:
    return replace(batch, body=batch.body.replace('"kind"', '"Kind"', 1))


def _left_out(batch: StoredBatch) -> None:
    return None


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (_altered_body, "ES003"),
        (lambda batch: replace(batch, count=batch.count + 1), "ES003"),
        (lambda batch: replace(batch, written_at=batch.written_at + 1), "ES003"),
        (lambda batch: replace(batch, mark='{"a": 1}'), "ES003"),
        (lambda batch: replace(batch, hash=bytes(32)), "ES003"),
        (lambda batch: replace(batch, epoch=2), "ES001"),
        (_left_out, "ES003"),
    ],
)
def test_a_batch_that_does_not_follow_is_refused(
    source: str,
    content: Content,
    database: str,
    change: Callable[[StoredBatch], StoredBatch | None],
    code: str,
) -> None:
    """Wherever it is among the others. Nothing of them is stored."""
    batches, details = content
    changed = [change(each) if number == 3 else each for number, each in enumerate(batches)]
    kept = [each for each in changed if each is not None]
    with pytest.raises(psycopg.Error) as refused:
        copied(database, (kept, details), token_of(source))
    assert refused.value.sqlstate == code
    with psycopg.connect(database) as connection:
        assert connection.execute("SELECT FROM eventsched_log.batch").fetchall() == []


def test_arguments_that_do_not_go_together_are_refused(
    source: str, content: Content, database: str
) -> None:
    """More counts than bodies, or more bodies than counts."""
    batches, token = content[0][:2], token_of(source)
    for counts, bodies in ((2, 1), (1, 2)):
        with psycopg.connect(database) as connection:
            StreamCopy(connection, STREAM, "test").begin(1, token, 0)
            values: dict[str, Any] = {
                "token": token.hex(),
                "counts": [batch.count for batch in batches[:counts]],
                "times": [batch.written_at for batch in batches],
                "marks": [batch.mark for batch in batches],
                "hashes": [batch.hash for batch in batches],
                "bodies": [batch.body for batch in batches[:bodies]],
                "stream": STREAM,
            }
            with pytest.raises(psycopg.Error) as refused:
                connection.execute(_APPEND, values)
            assert refused.value.sqlstate == "ES003"


_APPEND = """
SELECT eventsched_log.append_batches(h.stream, 1, %(token)s::uuid, 0::bigint, %(counts)s::integer[],
    %(times)s::bigint[], %(marks)s::json[], h.hash, %(hashes)s::bytea[], %(bodies)s::json[],
    '{}', '{}', '{}')
FROM eventsched_log.head h JOIN eventsched_log.stream s ON s.id = h.stream
WHERE s.name = %(stream)s
"""
