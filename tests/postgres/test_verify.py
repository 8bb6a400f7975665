"""Logs of real runs in Postgres, whole and tampered with: ``eventsched verify`` has to find it."""

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import pytest

from eventsched.cli.main import main
from eventsched.eventlog.postgres.reader import Reader
from eventsched.history.export import export
from eventsched.history.export_reader import FileLog
from eventsched.history.verify.verification import Result, verify_database, verify_file
from eventsched.history.verify.verified_chain import batch_hash
from eventsched.history.verify.verified_database import one_moment
from eventsched.history.verify.verified_log import BatchRow
from tests.databases import Server, migrate

TABLES = ("stream", "head", "epoch", "batch", "detail", "snapshot", "node", "pod", "decision",
          "verdict", "scoring", "pod_now")  # fmt: skip
GUARDED = ("stream", "epoch", "batch", "node", "pod", "decision", "verdict", "scoring")
STREAM = "simulation"
ACQUIRE = "SELECT eventsched_log.acquire('simulation', gen_random_uuid(), 'somebody', '0')"


def simulate(url: str, load: str, *more: str) -> None:
    """Runs a generated load into a database."""
    assert main(["simulate", "--generate", load, "--database", url, *more]) == 0


def tight(url: str) -> None:
    """A migrated database with a log in many batches: retries, refusals, ends of pods."""
    migrate(url)
    simulate(url, "nodes=8,pods=60,shape=tight,seed=1")


def two_streams(url: str) -> None:
    """A migrated database with two streams, one of them written by two writers in turn."""
    migrate(url)
    load = "nodes=30,pods=120,shape=mixed,seed=1,rate=20"
    simulate(url, load, "--stream", "mixed", "--until", "3")
    simulate(url, load, "--stream", "mixed")
    simulate(url, "nodes=3,pods=5", "--stream", "plain")


class Stored:
    """A database with a log, at the hands of a superuser."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.connection = psycopg.connect(url, autocommit=True)

    def run(self, statement: str, *values: Any) -> None:
        """Changes something, against all triggers, which are in force again afterwards."""
        self._set_triggers("DISABLE TRIGGER ALL")
        self._execute(f"SET search_path = eventsched_log; {statement}" if not values else statement,
                      *values)  # fmt: skip
        self._set_triggers("ENABLE TRIGGER ALL")
        for table in GUARDED:
            for trigger in ("append_only", "append_only_all"):
                self._execute(f"ALTER TABLE eventsched_log.{table} ENABLE ALWAYS TRIGGER {trigger}")

    def _set_triggers(self, action: str) -> None:
        for table in TABLES:
            self._execute(f"ALTER TABLE eventsched_log.{table} {action}")

    def rows(self, query: str, *values: Any) -> list[Any]:
        """The rows of a query."""
        self._execute("SET search_path = eventsched_log")
        return self.connection.execute(query.encode(), values or None).fetchall()

    def batch(self, at_least: int = 0) -> BatchRow:
        """The first batch from a position on."""
        query = """SELECT first, count, epoch, (extract(epoch FROM written_at) * 1000000)::bigint,
                          convert_to(mark::text, 'UTF8'), hash, convert_to(body::text, 'UTF8')
                   FROM batch WHERE first >= %s ORDER BY first LIMIT 1"""
        return BatchRow(*self.rows(query, at_least)[0])

    def decision(self, where: str = "true", skip: int = 0) -> int:
        """The position of some decision."""
        query = f"SELECT seq FROM decision d WHERE {where} ORDER BY seq OFFSET {skip} LIMIT 1"
        return int(self.rows(query)[0][0])

    def verify(self, **options: Any) -> Result:
        """What the checker says of the only stream."""
        with psycopg.connect(self.url) as connection:
            (result,) = verify_database(connection, **options)
        return result

    def rehash(self, first: int, last: int | None = None) -> None:
        """Gives batches from one position to another the hashes that fit their contents."""
        previous = self.rows(
            "SELECT hash FROM batch WHERE first < %s ORDER BY first DESC LIMIT 1", first
        )[0][0]
        token = self.rows("SELECT token FROM epoch")[0][0].bytes
        while first < self.rows("SELECT next FROM head")[0][0]:
            batch = self.batch(first)
            if last is not None and first > last:
                return
            previous = batch_hash(batch, token, previous)
            self.run("UPDATE eventsched_log.batch SET hash = %s WHERE first = %s", previous, first)
            first = batch.end
        self.run("UPDATE eventsched_log.head SET hash = %s", previous)

    def close(self) -> None:
        """Lets the database go."""
        self.connection.close()

    def _execute(self, statement: str, *values: Any) -> None:
        self.connection.execute(statement.encode(), values or None)


@pytest.fixture
def stored(one_server: Server) -> Iterator[Stored]:
    """A fresh copy of the tight log."""
    with one_server.fresh(tight) as url, closing(Stored(url)) as found:
        yield found


@pytest.fixture
def both(one_server: Server) -> Iterator[Stored]:
    """A fresh database with two streams."""
    with one_server.fresh(two_streams) as url, closing(Stored(url)) as found:
        yield found


# --- logs that are whole ------------------------------------------------------------------


def test_what_was_written_is_found_right(stored: Stored) -> None:
    result = stored.verify()
    assert result.problems == []
    (counted,) = stored.rows(
        "SELECT (SELECT next FROM head), (SELECT count(*) FROM batch),"
        " (SELECT count(*) FROM decision), (SELECT count(*) FROM detail)"
    )
    assert (result.records, result.batches, result.decisions, result.details) == counted
    assert result.batches > 20
    assert result.decisions > 100
    assert (result.stream, result.thinned) == (STREAM, 0)


def test_streams_of_several_epochs_are_right(
    both: Stored, capsys: pytest.CaptureFixture[str]
) -> None:
    assert both.rows("SELECT count(*) FROM epoch WHERE first > 0") == [(1,)]
    capsys.readouterr()
    assert main(["verify", "--database", both.url]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == ["stream mixed", "stream plain"]
    assert all("are what was written" in line for line in lines)
    assert main(["verify", "--database", both.url, "--stream", "plain", "-o", "json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["ok"]
    assert [each["stream"] for each in answer["streams"]] == ["plain"]
    assert main(["verify", "--database", both.url, "--stream", "other"]) == 2
    assert "there is no stream other; there are: mixed, plain" in capsys.readouterr().err


def test_an_empty_stream_is_right(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        token = "5f292200-7a39-5b75-896e-bc862ebc8ce3"
        connection.execute("SELECT eventsched_log.acquire('new', %s, 'me', '0')", [token])
        (result,) = verify_database(connection)
    assert result.problems == []


def test_a_database_without_streams_is_bad_input(
    database: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["verify", "--database", database]) == 2
    assert "holds no stream" in capsys.readouterr().err


def test_an_exported_file_is_right_and_says_the_same(
    both: Stored, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with psycopg.connect(both.url) as connection:
        for name in ("log.jsonl", "log.jsonl.gz", "again.jsonl.gz"):
            records = export(connection, "mixed", tmp_path / name)
            result = verify_file(tmp_path / name)
            assert (result.stream, result.records, result.problems) == ("mixed", records, [])
    assert result.details == result.decisions > 0
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "again.jsonl.gz", "log.jsonl", "log.jsonl.gz",
    ]  # fmt: skip
    packed = (tmp_path / "log.jsonl.gz").read_bytes()
    assert packed == (tmp_path / "again.jsonl.gz").read_bytes()
    capsys.readouterr()
    assert main(["verify", "--file", str(tmp_path / "log.jsonl.gz")]) == 0
    assert f"stream mixed: {records} records in" in capsys.readouterr().out


def test_a_file_reads_as_the_database_does(stored: Stored, tmp_path: Path) -> None:
    with psycopg.connect(stored.url) as connection:
        export(connection, STREAM, tmp_path / "log.jsonl.gz")
    filed, reader = FileLog(tmp_path / "log.jsonl.gz"), Reader(stored.url, STREAM)
    assert (filed.stream, filed.head) == (STREAM, reader.head)
    middle = stored.decision(skip=40)
    for first in (0, middle, reader.head.next):
        assert list(filed.read(first)) == list(reader.read(first))
    assert list(filed.batches(middle)) == list(reader.batches(middle))
    for position in (middle, stored.decision(), stored.decision(skip=90)):
        there, here = reader.detail(position), filed.detail(position)
        assert there is not None
        assert here is not None
        assert there.codes is not None
        assert here.codes is not None
        assert there.codes.tolist() == here.codes.tolist()
        assert [s.tolist() for s in there.scores] == [s.tolist() for s in here.scores]  # type: ignore[union-attr]
    assert filed.detail(0) is None


# --- tampering ----------------------------------------------------------------------------


class Tampering(NamedTuple):
    """``change`` gives the position that has to be named first, and a text in what is said."""

    name: str
    change: Callable[[Stored], tuple[int, str]]


TAMPERINGS: list[Tampering] = []


def tampering(change: Callable[[Stored], tuple[int, str]]) -> Callable[[Stored], tuple[int, str]]:
    """Puts a way of tampering on the list."""
    TAMPERINGS.append(Tampering(change.__name__, change))
    return change


@tampering
def a_byte_of_a_body(log: Stored) -> tuple[int, str]:
    batch = log.batch(log.decision(skip=30) - 4)
    body = batch.body.decode()
    at = body.index('"uid":"') + 7
    other = "0" if body[at] != "0" else "1"
    edited = body[:at] + other + body[at + 1 :]
    log.run("UPDATE eventsched_log.batch SET body = %s WHERE first = %s", edited, batch.first)
    return batch.first, "hash of the batch"


@tampering
def a_record_for_another(log: Stored) -> tuple[int, str]:
    batch = log.batch(200)
    *rest, (at, cause, version, _) = json.loads(batch.body)
    body = json.dumps([*rest, [at, cause, version, {"kind": "TimePassed"}]])
    log.run("UPDATE eventsched_log.batch SET body = %s WHERE first = %s", body, batch.first)
    return batch.first, "hash of the batch"


@tampering
def a_batch_deleted(log: Stored) -> tuple[int, str]:
    batch = log.batch(100)
    log.run(f"DELETE FROM batch WHERE first = {batch.first}")
    return batch.first, f"the next batch begins at {batch.end}, expected {batch.first}"


@tampering
def the_first_batch_deleted(log: Stored) -> tuple[int, str]:
    log.run("DELETE FROM batch WHERE first = 0")
    return 0, "records are missing"


@tampering
def two_batches_swapped(log: Stored) -> tuple[int, str]:
    one = log.batch(100)
    other = log.batch(one.end)
    log.run(
        f"UPDATE batch SET first = -1 WHERE first = {one.first};"
        f"UPDATE batch SET first = {one.first} WHERE first = {other.first};"
        f"UPDATE batch SET first = {one.first + other.count} WHERE first = -1"
    )
    return one.first, "hash of the batch"


@tampering
def the_last_batch_cut_off(log: Stored) -> tuple[int, str]:
    ((first, after),) = log.rows(
        "SELECT first, first + count FROM batch ORDER BY first DESC LIMIT 1"
    )
    log.run(f"DELETE FROM batch WHERE first = {first}")
    return first, f"the log ends at {first}, expected {after} by the head"


@tampering
def a_hash(log: Stored) -> tuple[int, str]:
    first = log.batch(100).first
    log.run(f"UPDATE batch SET hash = sha256('x') WHERE first = {first}")
    return first, "hash of the batch"


@tampering
def a_time_of_writing(log: Stored) -> tuple[int, str]:
    first = log.batch(100).first
    log.run(
        f"UPDATE batch SET written_at = written_at + interval '1 microsecond' WHERE first = {first}"
    )
    return first, "hash of the batch"


@tampering
def a_mark(log: Stored) -> tuple[int, str]:
    first = log.batch(100).first
    log.run(f"UPDATE batch SET mark = '[0,0]' WHERE first = {first}")
    return first, "hash of the batch"


@tampering
def a_count(log: Stored) -> tuple[int, str]:
    batch = log.batch(100)
    log.run(f"UPDATE batch SET count = count + 1 WHERE first = {batch.first}")
    return batch.first, "hash of the batch"


@tampering
def an_epoch_of_a_batch(log: Stored) -> tuple[int, str]:
    first = log.batch(100).first
    log.run(f"UPDATE batch SET epoch = 2 WHERE first = {first}")
    return first, "the batch is of epoch 2, expected 1"


@tampering
def a_token(log: Stored) -> tuple[int, str]:
    log.run("UPDATE epoch SET token = '5f292200-7a39-5b75-896e-bc862ebc8ce3'")
    return 0, "hash of the batch"


@tampering
def an_epoch_deleted(log: Stored) -> tuple[int, str]:
    log.run("DELETE FROM epoch")
    return 0, "the batch is of epoch 1, expected none"


@tampering
def an_epoch_added(log: Stored) -> tuple[int, str]:
    batch = log.batch(100)
    log.run(
        "INSERT INTO epoch (stream, epoch, first, token, holder, version)"
        f" SELECT stream, 2, {batch.first}, token, holder, version FROM epoch"
    )
    return batch.first, "the batch is of epoch 1, expected 2"


@tampering
def the_head_set_back(log: Stored) -> tuple[int, str]:
    end = log.rows("SELECT next FROM head")[0][0]
    log.run("UPDATE head SET next = next - 1")
    return end, f"the log ends at {end}, expected {end - 1} by the head"


@tampering
def the_hash_of_the_head(log: Stored) -> tuple[int, str]:
    log.run("UPDATE head SET hash = sha256('x')")
    return log.rows("SELECT next FROM head")[0][0], "the head's hash"


@tampering
def the_token_of_the_head(log: Stored) -> tuple[int, str]:
    log.run("UPDATE head SET token = '5f292200-7a39-5b75-896e-bc862ebc8ce3'")
    return log.rows("SELECT next FROM head")[0][0], "the head's epoch is 1 and its token 5f2922"


@tampering
def the_head_deleted(log: Stored) -> tuple[int, str]:
    end = log.rows("SELECT next FROM head")[0][0]
    log.run("DELETE FROM head")
    return end, "no head"


@tampering
def the_stream_renamed(log: Stored) -> tuple[int, str]:
    log.run("UPDATE stream SET name = 'other'")
    return 0, "hash of the batch"


@tampering
def a_decision_row(log: Stored) -> tuple[int, str]:
    seq = log.decision(skip=30)
    log.run(f"UPDATE decision SET score = score + 1 WHERE seq = {seq}")
    return seq, "table decision: score is"


@tampering
def a_decision_row_deleted(log: Stored) -> tuple[int, str]:
    seq = log.decision(skip=30)
    log.run(f"DELETE FROM decision WHERE seq = {seq}")
    return seq, "table decision has no row"


@tampering
def a_decision_row_added(log: Stored) -> tuple[int, str]:
    seq = log.decision(skip=30)
    log.run(
        "CREATE TEMP TABLE t AS SELECT * FROM eventsched_log.decision "
        f"WHERE seq = {seq}; UPDATE t SET seq = seq + 1; INSERT INTO decision SELECT * FROM t"
    )
    return seq + 1, "table decision has a row"


@tampering
def a_decision_row_after_the_end(log: Stored) -> tuple[int, str]:
    end = log.rows("SELECT next FROM head")[0][0]
    log.run(
        "CREATE TEMP TABLE t AS SELECT * FROM eventsched_log.decision LIMIT 1;"
        f"UPDATE t SET seq = {end + 5}; INSERT INTO decision SELECT * FROM t"
    )
    return end + 5, "table decision has 1 rows for positions at or after the end"


@tampering
def a_node_row(log: Stored) -> tuple[int, str]:
    log.run("UPDATE node SET name = 'x' WHERE ordinal = 3")
    return log.rows("SELECT seq FROM node WHERE ordinal = 3")[0][0], "table node: name is 'x'"


@tampering
def two_node_rows_swapped(log: Stored) -> tuple[int, str]:
    log.run("UPDATE node SET ordinal = -1 WHERE ordinal = 3;"
            "UPDATE node SET ordinal = 3 WHERE ordinal = 4;"
            "UPDATE node SET ordinal = 4 WHERE ordinal = -1")  # fmt: skip
    return log.rows("SELECT min(seq) FROM node WHERE ordinal IN (3, 4)")[0][0], "ordinal is 4"


@tampering
def a_pod_row(log: Stored) -> tuple[int, str]:
    seq = log.rows("SELECT seq FROM pod ORDER BY seq OFFSET 20 LIMIT 1")[0][0]
    log.run(f"UPDATE pod SET name = 'x' WHERE seq = {seq}")
    return seq, "table pod: name is 'x'"


@tampering
def a_pod_row_deleted(log: Stored) -> tuple[int, str]:
    seq = log.rows("SELECT seq FROM pod ORDER BY seq OFFSET 20 LIMIT 1")[0][0]
    log.run(f"DELETE FROM pod WHERE seq = {seq}")
    return seq, "table pod has no row"


@tampering
def a_verdict_row(log: Stored) -> tuple[int, str]:
    log.run("UPDATE verdict SET reasons = '{fine}' WHERE number = 1")
    return defined(log, "VerdictDefined"), "table verdict, row 1: reasons is ['fine']"


@tampering
def a_verdict_row_deleted(log: Stored) -> tuple[int, str]:
    log.run("DELETE FROM verdict WHERE number = 1")
    return defined(log, "VerdictDefined"), "table verdict has no row 1"


@tampering
def a_verdict_row_added(log: Stored) -> tuple[int, str]:
    log.run("INSERT INTO verdict SELECT stream, 77, plugin, code, reasons FROM verdict LIMIT 1")
    return log.rows("SELECT next FROM head")[0][0], "table verdict has a row 77"


@tampering
def a_scoring_row(log: Stored) -> tuple[int, str]:
    log.run("UPDATE scoring SET weight = weight + 1 WHERE place = 1")
    return defined(log, "ScoringDefined"), "table scoring, row 1/1: weight is"


@tampering
def a_detail(log: Stored) -> tuple[int, str]:
    seq = log.decision("EXISTS (SELECT FROM detail t WHERE t.seq = d.seq AND base IS NULL)", 3)
    log.run(
        "UPDATE detail SET body = set_byte(body, length(body) - 2, "
        f"get_byte(body, length(body) - 2) # 1) WHERE seq = {seq}"
    )
    return seq, ""


@tampering
def a_delta(log: Stored) -> tuple[int, str]:
    query = "EXISTS (SELECT FROM detail t WHERE t.seq = d.seq AND base IS NOT NULL)"
    seq = log.decision(query, 8)
    log.run(f"UPDATE detail SET body = body || '\\x00'::bytea WHERE seq = {seq}")
    return seq, "detail:"


@tampering
def a_detail_deleted(log: Stored) -> tuple[int, str]:
    seq = log.rows("SELECT base FROM detail WHERE base IS NOT NULL ORDER BY seq OFFSET 8 LIMIT 1")
    log.run(f"DELETE FROM detail WHERE seq = {seq[0][0]}")
    return seq[0][0], "there is no detail row"


@tampering
def a_detail_added(log: Stored) -> tuple[int, str]:
    seq = log.decision(skip=30)
    log.run(f"INSERT INTO detail SELECT seq + 1, base, stream, body FROM detail WHERE seq = {seq}")
    return seq + 1, "a detail row, but there is no decision"


@tampering
def a_base_redirected(log: Stored) -> tuple[int, str]:
    ((seq, base),) = log.rows(
        "SELECT seq, base FROM detail WHERE base IS NOT NULL ORDER BY seq OFFSET 8 LIMIT 1"
    )
    other = log.rows("SELECT seq FROM detail WHERE seq < %s AND seq <> %s"
                     " ORDER BY seq LIMIT 1", seq, base)  # fmt: skip
    log.run(f"UPDATE detail SET base = {other[0][0]} WHERE seq = {seq}")
    return seq, "the vectors have digest"


@tampering
def a_base_that_comes_later(log: Stored) -> tuple[int, str]:
    query = "SELECT seq FROM detail WHERE base IS NOT NULL ORDER BY seq OFFSET 8 LIMIT 1"
    ((seq,),) = log.rows(query)
    log.run(f"UPDATE detail SET base = {seq} WHERE seq = {seq}")
    return seq, "is not an earlier position"


@tampering
def two_details_swapped(log: Stored) -> tuple[int, str]:
    query = "SELECT seq FROM detail WHERE base IS NULL ORDER BY seq LIMIT 2"
    (one,), (other,) = log.rows(query)
    log.run(
        f"UPDATE detail SET seq = -1 WHERE seq = {one};"
        f"UPDATE detail SET seq = {one} WHERE seq = {other};"
        f"UPDATE detail SET seq = {other} WHERE seq = -1"
    )
    return one, "the vectors have digest"


@tampering
def the_hash_of_a_snapshot(log: Stored) -> tuple[int, str]:
    log.run("UPDATE snapshot SET hash = sha256('x')")
    return log.rows("SELECT max(seq) FROM snapshot")[0][0], "the snapshot's hash"


@tampering
def the_position_of_a_snapshot(log: Stored) -> tuple[int, str]:
    batch = log.batch(100)
    log.run(f"UPDATE snapshot SET seq = {batch.first}")
    return batch.first, "the snapshot's hash"


@tampering
def a_snapshot_of_the_future(log: Stored) -> tuple[int, str]:
    log.run("UPDATE snapshot SET seq = seq + 1")
    return log.rows("SELECT max(seq) FROM snapshot")[0][0], "not the end of a batch"


@tampering
def a_body_with_its_hash(log: Stored) -> tuple[int, str]:
    batch = log.batch(log.decision(skip=30) + 1)
    (at, cause, version, _), *rest = json.loads(batch.body)
    body = json.dumps([[at, cause, version, {"kind": "TimePassed"}], *rest])
    log.run("UPDATE eventsched_log.batch SET body = %s WHERE first = %s", body, batch.first)
    log.rehash(batch.first, batch.first)
    return batch.end, "hash of the batch"


@tampering
def a_decision_with_all_hashes(log: Stored) -> tuple[int, str]:
    seq = log.decision("outcome = 'scheduled'", 30)
    edit_decision(log, seq, lambda record: record.update(ties=record["ties"] + 1))
    return seq, "table decision: ties is"


@tampering
def a_decision_with_all_hashes_and_its_row(log: Stored) -> tuple[int, str]:
    seq = log.decision("outcome = 'scheduled'", 30)
    edit_decision(log, seq, lambda record: record.update(score=record["score"] + 1))
    log.run(f"UPDATE decision SET score = score + 1 WHERE seq = {seq}")
    return seq, "by the vectors"


@tampering
def another_node_with_all_hashes_and_its_row(log: Stored) -> tuple[int, str]:
    seq = log.decision("outcome = 'scheduled' AND node <> 'node-00000'", 30)
    edit_decision(log, seq, lambda record: record.update(node="node-00000"))
    log.run(f"UPDATE decision SET node = 'node-00000' WHERE seq = {seq}")
    return seq, "node 'node-00000' was chosen, but row"


@tampering
def a_time_with_all_hashes(log: Stored) -> tuple[int, str]:
    batch = log.batch(200)
    items = json.loads(batch.body)
    items[0][0] = 0
    log.run(
        "UPDATE eventsched_log.batch SET body = %s WHERE first = %s", json.dumps(items), batch.first
    )
    log.rehash(batch.first)
    return batch.first, "time 0, expected"


@tampering
def a_cause_with_all_hashes(log: Stored) -> tuple[int, str]:
    batch = log.batch(200)
    items = json.loads(batch.body)
    items[0][1] = 3
    log.run(
        "UPDATE eventsched_log.batch SET body = %s WHERE first = %s", json.dumps(items), batch.first
    )
    log.rehash(batch.first)
    return batch.first, "cause 3, expected"


def defined(log: Stored, kind: str) -> int:
    """The position of the first record of a kind."""
    query = "SELECT seq FROM eventsched.events WHERE kind = %s ORDER BY seq LIMIT 1"
    return int(log.rows(query, kind)[0][0])


def edit_decision(log: Stored, seq: int, edit: Callable[[dict[str, Any]], None]) -> None:
    """Edits a record, and gives its batch and all after it the hashes that fit."""
    first = log.rows("SELECT max(first) FROM batch WHERE first <= %s", seq)[0][0]
    items = json.loads(log.batch(first).body)
    edit(items[seq - first][3])
    log.run("UPDATE eventsched_log.batch SET body = %s WHERE first = %s", json.dumps(items), first)
    log.rehash(first)


@pytest.mark.parametrize("tampering", TAMPERINGS, ids=[each.name for each in TAMPERINGS])
def test_tampering_is_found_where_it_is(stored: Stored, tampering: Tampering) -> None:
    position, text = tampering.change(stored)
    first = stored.verify().first
    assert first is not None
    assert first.position == position
    assert text in first.text


def test_problems_are_printed_in_order(stored: Stored, capsys: pytest.CaptureFixture[str]) -> None:
    late, early = stored.decision(skip=60), stored.decision(skip=20)
    stored.run(f"UPDATE decision SET ties = 77 WHERE seq = {late}")
    stored.run(f"UPDATE decision SET ties = 77 WHERE seq = {early}")
    capsys.readouterr()
    assert main(["verify", "--database", stored.url]) == 1
    lines = capsys.readouterr().out.splitlines()
    said = "table decision: ties is 77, expected"
    assert [line.split(said)[0] for line in lines] == [
        f"stream simulation: position {early}: ", f"stream simulation: position {late}: ",
    ]  # fmt: skip
    assert main(["verify", "--database", stored.url, "-o", "json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert (answer["ok"], answer["streams"][0]["first"]) == (False, early)


def test_the_search_ends_after_twenty_problems(
    stored: Stored, capsys: pytest.CaptureFixture[str]
) -> None:
    stored.run("UPDATE decision SET ties = ties + 1")
    assert len(stored.verify().problems) == 20
    capsys.readouterr()
    assert main(["verify", "--database", stored.url]) == 1
    assert len(capsys.readouterr().out.splitlines()) == 21


def test_a_nameless_stream_is_found(both: Stored) -> None:
    both.run("DELETE FROM stream WHERE name = 'plain'")
    with psycopg.connect(both.url) as connection:
        whole, nameless = verify_database(connection)
    assert whole.problems == []
    assert nameless.first is not None
    assert "no row in table stream" in nameless.first.text


def test_tampering_with_an_epoch_is_found_at_the_first_batch_that_says_otherwise(
    both: Stored,
) -> None:
    both.run("UPDATE epoch SET first = 0 WHERE epoch = 2")
    with psycopg.connect(both.url) as connection:
        (result,) = verify_database(connection, ["mixed"])
    assert result.first is not None
    assert result.first.position == 0
    assert "of epoch 1, expected 2" in result.first.text


def test_a_thinned_log_is_right_only_when_that_is_said(
    stored: Stored, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = stored.verify().details
    middle = stored.decision(skip=50)
    stored.run(f"DELETE FROM detail WHERE seq < {middle}")
    first = stored.verify().first
    assert first is not None
    assert first.position == stored.decision()
    assert "there is no detail row" in first.text
    result = stored.verify(thinned=True)
    assert result.problems == []
    assert result.thinned >= 50
    assert result.details == whole - result.thinned > 0
    capsys.readouterr()
    assert main(["verify", "--database", stored.url, "--thinned"]) == 0
    assert f"({result.thinned} without vectors)" in capsys.readouterr().out


def test_deltas_after_one_that_is_wrong_are_not_blamed(stored: Stored) -> None:
    ((seq,),) = stored.rows("SELECT base FROM detail WHERE base IS NOT NULL ORDER BY seq LIMIT 1")
    stored.run(f"DELETE FROM detail WHERE seq = {seq}")
    assert [problem.position for problem in stored.verify().problems] == [seq]


def test_what_only_an_anchor_outside_would_find(stored: Stored) -> None:
    """Whoever may write tables can shorten the log so that it hangs together (docs/log-format.md);
    the head that somebody else has noted down says so."""
    before = stored.rows("SELECT next, hash FROM head")
    batch = stored.batch(stored.rows("SELECT next - 20 FROM head")[0][0])
    stored.run(f"DELETE FROM batch WHERE first >= {batch.first}")
    for table in ("detail", "decision", "pod", "node", "snapshot"):
        stored.run(f"DELETE FROM {table} WHERE seq >= {batch.first}")
    stored.run(
        f"UPDATE head SET next = {batch.first}, hash ="
        " (SELECT hash FROM batch ORDER BY first DESC LIMIT 1)"
    )
    stored.run("DELETE FROM pod_now")
    stored.rows("SELECT derive(stream, first, body, true)::text FROM (SELECT * FROM batch"
                " ORDER BY first) b")  # fmt: skip
    assert stored.verify().problems == []
    assert stored.rows("SELECT next, hash FROM head") != before


# --- what keeps others from tampering -----------------------------------------------------


@pytest.mark.parametrize("table", GUARDED)
def test_the_log_refuses_changes_of_the_superuser(stored: Stored, table: str) -> None:
    name, column = f"eventsched_log.{table}", "name" if table == "stream" else "stream"
    for statement in (
        f"UPDATE {name} SET {column} = {column}",
        f"DELETE FROM {name}",
        f"TRUNCATE {name} CASCADE",
    ):
        with pytest.raises(psycopg.Error, match="the log is append-only") as refused:
            stored.connection.execute(statement.encode())
        assert refused.value.sqlstate == "ES009"
    assert stored.verify().problems == []


@pytest.mark.parametrize("role", ["eventsched_reader", "eventsched_writer"])
def test_roles_cannot_change_tables(stored: Stored, role: str) -> None:
    stored.connection.execute(f"SET ROLE {role}".encode())
    for table in TABLES:
        name, column = f"eventsched_log.{table}", "name" if table == "stream" else "stream"
        stored.connection.execute(f"SELECT count(*) FROM {name}".encode())
        for statement in (
            f"INSERT INTO {name} ({column}) SELECT {column} FROM {name} LIMIT 0",
            f"UPDATE {name} SET {column} = {column}",
            f"DELETE FROM {name}",
            f"TRUNCATE {name} CASCADE",
            f"ALTER TABLE {name} DISABLE TRIGGER ALL",
            f"DROP TABLE {name} CASCADE",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                stored.connection.execute(statement.encode())


def test_the_reader_cannot_append(stored: Stored) -> None:
    stored.connection.execute("SET ROLE eventsched_reader")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        stored.connection.execute(ACQUIRE)


def test_verifying_can_change_nothing(stored: Stored) -> None:
    with (
        psycopg.connect(stored.url) as connection,
        one_moment(connection),
        pytest.raises(psycopg.errors.ReadOnlySqlTransaction),
    ):
        connection.execute(ACQUIRE)
