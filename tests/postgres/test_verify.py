"""``eventsched verify`` on logs of real runs: intact, exported, thinned and tampered with."""

import json
from pathlib import Path

import psycopg
import pytest

from eventsched.cli.main import main
from eventsched.eventlog.postgres.reader import Reader
from eventsched.history.export import export
from eventsched.history.export_reader import FileLog
from eventsched.history.verify.verification import verify_database, verify_file
from tests.postgres.row_tamperings import ROWS
from tests.postgres.tampered_logs import STREAM, TamperedLog, derive_again
from tests.postgres.tamperings import BATCHES, Tampering


def test_what_was_written_is_found_right(tight_log: TamperedLog) -> None:
    result = tight_log.verify()
    assert result.problems == []
    (counted,) = tight_log.rows(
        "SELECT (SELECT next FROM head), (SELECT count(*) FROM batch),"
        " (SELECT count(*) FROM decision), (SELECT count(*) FROM detail)"
    )
    assert (result.records, result.batches, result.decisions, result.details) == counted
    assert result.batches > 20
    assert result.decisions > 100
    assert (result.stream, result.thinned) == (STREAM, 0)


def test_streams_of_several_epochs_are_right(
    two_streams_log: TamperedLog, capsys: pytest.CaptureFixture[str]
) -> None:
    assert two_streams_log.rows("SELECT count(*) FROM epoch WHERE first > 0") == [(1,)]
    capsys.readouterr()
    assert main(["verify", "--database", two_streams_log.url]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == ["stream mixed", "stream plain"]
    assert all("are what was written" in line for line in lines)
    assert (
        main(["verify", "--database", two_streams_log.url, "--stream", "plain", "-o", "json"]) == 0
    )
    answer = json.loads(capsys.readouterr().out)
    assert answer["ok"]
    assert [each["stream"] for each in answer["streams"]] == ["plain"]
    assert main(["verify", "--database", two_streams_log.url, "--stream", "other"]) == 2
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
    two_streams_log: TamperedLog, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with psycopg.connect(two_streams_log.url) as connection:
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


def test_a_file_reads_as_the_database_does(tight_log: TamperedLog, tmp_path: Path) -> None:
    with psycopg.connect(tight_log.url) as connection:
        export(connection, STREAM, tmp_path / "log.jsonl.gz")
    filed, reader = FileLog(tmp_path / "log.jsonl.gz"), Reader(tight_log.url, STREAM)
    assert (filed.stream, filed.head) == (STREAM, reader.head)
    middle = tight_log.decision(skip=40)
    for first in (0, middle, reader.head.next):
        assert list(filed.read(first)) == list(reader.read(first))
    assert list(filed.batches(middle)) == list(reader.batches(middle))
    for position in (middle, tight_log.decision(), tight_log.decision(skip=90)):
        there, here = reader.detail(position), filed.detail(position)
        assert there is not None
        assert here is not None
        assert there.codes is not None
        assert here.codes is not None
        assert there.codes.tolist() == here.codes.tolist()
        assert [s.tolist() for s in there.scores] == [s.tolist() for s in here.scores]
    assert filed.detail(0) is None


@pytest.mark.parametrize("tampering", [*BATCHES, *ROWS], ids=lambda tampering: tampering.name)
def test_tampering_is_found_where_it_is(tight_log: TamperedLog, tampering: Tampering) -> None:
    position, text = tampering.change(tight_log)
    first = tight_log.verify().first
    assert first is not None
    assert first.position == position
    assert text in first.text


def test_problems_are_printed_in_order(
    tight_log: TamperedLog, capsys: pytest.CaptureFixture[str]
) -> None:
    late, early = tight_log.decision(skip=60), tight_log.decision(skip=20)
    tight_log.run(f"UPDATE decision SET ties = 77 WHERE seq = {late}")
    tight_log.run(f"UPDATE decision SET ties = 77 WHERE seq = {early}")
    capsys.readouterr()
    assert main(["verify", "--database", tight_log.url]) == 1
    lines = capsys.readouterr().out.splitlines()
    said = "table decision: ties is 77, expected"
    assert [line.split(said)[0] for line in lines] == [
        f"stream simulation: position {early}: ", f"stream simulation: position {late}: ",
    ]  # fmt: skip
    assert main(["verify", "--database", tight_log.url, "-o", "json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert (answer["ok"], answer["streams"][0]["first"]) == (False, early)


def test_the_search_ends_after_twenty_problems(
    tight_log: TamperedLog, capsys: pytest.CaptureFixture[str]
) -> None:
    tight_log.run("UPDATE decision SET ties = ties + 1")
    assert len(tight_log.verify().problems) == 20
    capsys.readouterr()
    assert main(["verify", "--database", tight_log.url]) == 1
    assert len(capsys.readouterr().out.splitlines()) == 21


def test_a_nameless_stream_is_found(two_streams_log: TamperedLog) -> None:
    two_streams_log.run("DELETE FROM stream WHERE name = 'plain'")
    with psycopg.connect(two_streams_log.url) as connection:
        whole, nameless = verify_database(connection)
    assert whole.problems == []
    assert nameless.first is not None
    assert "no row in table stream" in nameless.first.text


def test_tampering_with_an_epoch_is_found_at_the_first_batch_that_says_otherwise(
    two_streams_log: TamperedLog,
) -> None:
    two_streams_log.run("UPDATE epoch SET first = 0 WHERE epoch = 2")
    with psycopg.connect(two_streams_log.url) as connection:
        (result,) = verify_database(connection, ["mixed"])
    assert result.first is not None
    assert result.first.position == 0
    assert "of epoch 1, expected 2" in result.first.text


def test_a_thinned_log_is_right_only_when_that_is_said(
    tight_log: TamperedLog, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = tight_log.verify().details
    middle = tight_log.decision(skip=50)
    tight_log.run(f"DELETE FROM detail WHERE seq < {middle}")
    first = tight_log.verify().first
    assert first is not None
    assert first.position == tight_log.decision()
    assert "there is no detail row" in first.text
    result = tight_log.verify(thinned=True)
    assert result.problems == []
    assert result.thinned >= 50
    assert result.details == whole - result.thinned > 0
    capsys.readouterr()
    assert main(["verify", "--database", tight_log.url, "--thinned"]) == 0
    assert f"({result.thinned} without vectors)" in capsys.readouterr().out


def test_deltas_after_one_that_is_wrong_are_not_blamed(tight_log: TamperedLog) -> None:
    ((seq,),) = tight_log.rows(
        "SELECT base FROM detail WHERE base IS NOT NULL ORDER BY seq LIMIT 1"
    )
    tight_log.run(f"DELETE FROM detail WHERE seq = {seq}")
    assert [problem.position for problem in tight_log.verify().problems] == [seq]


def test_what_only_an_anchor_outside_would_find(tight_log: TamperedLog) -> None:
    """A role that can write the tables can shorten the log and keep it consistent
    (docs/log-format.md). A head recorded elsewhere shows it."""
    before = tight_log.rows("SELECT next, hash FROM head")
    batch = tight_log.batch(tight_log.rows("SELECT next - 20 FROM head")[0][0])
    tight_log.run(f"DELETE FROM batch WHERE first >= {batch.first}")
    for table in ("detail", "decision", "pod", "node", "snapshot"):
        tight_log.run(f"DELETE FROM {table} WHERE seq >= {batch.first}")
    tight_log.run(
        f"UPDATE head SET next = {batch.first}, hash ="
        " (SELECT hash FROM batch ORDER BY first DESC LIMIT 1)"
    )
    derive_again(tight_log)
    assert tight_log.verify().problems == []
    assert tight_log.rows("SELECT next, hash FROM head") != before
