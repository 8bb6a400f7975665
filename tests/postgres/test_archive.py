"""``eventsched db archive``: every batch of the days that are over, once, whatever happens."""

import os
import signal
import subprocess
import sys
from contextlib import closing
from datetime import date, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from eventsched.cli.main import main
from eventsched.eventlog.archive import archived_batches, parquet
from eventsched.eventlog.archive.archive_folder import held, manifests, verify_day
from eventsched.eventlog.archive.archive_manifest import BATCHES, DECISIONS, DETAILS, day_file
from eventsched.eventlog.archive.archiver import archive
from eventsched.eventlog.chain import genesis
from eventsched.eventlog.postgres.reader import Reader
from tests.databases import ROOT
from tests.postgres.archives import (
    DAYS,
    FIRST_DAY,
    LATER,
    OWN,
    STREAM,
    archived,
    contents,
    micros,
    rows,
    step,
    write,
)
from tests.postgres.histories import ODD


def test_every_batch_of_each_day_once(four_days: str, whole_archive: Path) -> None:
    with closing(Reader(four_days, STREAM)) as reader:
        stored = reader.rows(
            "SELECT b.first, b.count, b.epoch, e.token, b.written_at, b.mark::text, b.hash,"
            " b.body::text FROM eventsched_log.batch b"
            " JOIN eventsched_log.epoch e ON e.stream = b.stream AND e.epoch = b.epoch"
            " WHERE b.stream = :s ORDER BY 1"
        )
        details = reader.rows(
            "SELECT seq, base, body FROM eventsched_log.detail WHERE stream = :s ORDER BY 1"
        )
    expected = [{**row, "token": row["token"].bytes, "hash": bytes(row["hash"])} for row in stored]
    assert rows(whole_archive, BATCHES) == expected
    assert rows(whole_archive, DETAILS) == [{**row, "body": bytes(row["body"])} for row in details]
    assert sorted(contents(whole_archive)) == [
        f"{OWN}/{day}.{content}.parquet"
        for day in DAYS
        for content in (BATCHES, DECISIONS, DETAILS)
    ]
    for day in DAYS:
        table = pq.read_table(day_file(whole_archive / OWN, day, BATCHES))
        assert {row["written_at"].date().isoformat() for row in table.to_pylist()} == {day}


def test_the_decisions_are_those_of_the_views(four_days: str, tmp_path: Path) -> None:
    """In a history with refusals, retries, waits and pods of one name."""
    archived(four_days, ODD, tmp_path, before=date(2100, 1, 1), today=date(2100, 1, 1))
    [path] = (tmp_path / ODD).glob(f"*.{DECISIONS}.parquet")
    found = pq.read_table(path).to_pylist()
    with closing(Reader(four_days, ODD)) as reader:
        decisions = reader.rows(
            "SELECT stream, seq, at, namespace, pod, pod_uid::text, attempt, profile, outcome,"
            " node, score, runner_up, runner_up_score, feasible, evaluated, ties, draw"
            " FROM eventsched.decisions WHERE stream = 'odd' ORDER BY seq"
        )
        refusals = reader.rows(
            "SELECT seq, plugin, code, reason, nodes FROM eventsched.refusals"
            " WHERE stream = 'odd' ORDER BY seq"
        )
        failed = reader.rows(
            "SELECT seq, record ->> 'plugin' AS plugin, record ->> 'message' AS message"
            " FROM eventsched.events WHERE stream = 'odd' AND kind = 'PodDecided' ORDER BY seq"
        )
    further = ("plugin", "message", "refusals")
    assert [{k: row[k] for k in row if k not in further} for row in found] == [
        dict(row) for row in decisions
    ]
    names = ("plugin", "code", "reason", "nodes")
    assert sorted(
        (row["seq"], *(str(refusal[name]) for name in names))
        for row in found
        for refusal in row["refusals"]
    ) == sorted((row["seq"], *(str(row[name]) for name in names)) for row in refusals)
    assert refusals
    told = [(row["seq"], row["plugin"], row["message"]) for row in found]
    assert told == [(row["seq"], row["plugin"], row["message"]) for row in failed]
    assert any(message for *_, message in told)


def test_what_an_archive_holds(four_days: str, whole_archive: Path) -> None:
    ranges = held(whole_archive, STREAM)
    assert [each.day for each in ranges] == DAYS
    head = Reader(four_days, STREAM).head
    assert (ranges[0].first, ranges[0].hash_before) == (0, genesis(STREAM))
    assert (ranges[-1].next, ranges[-1].hash_after) == head
    for before, after in pairwise(ranges):
        assert (after.first, after.hash_before) == (before.next, before.hash_after)
    assert held(whole_archive, "another") == []


def test_it_goes_on_after_the_last_day(four_days: str, whole_archive: Path, tmp_path: Path) -> None:
    """Whatever days are archived at a time, the files are the same."""
    days = [FIRST_DAY + timedelta(days=number) for number in range(6)]
    made = [archived(four_days, STREAM, tmp_path, before=day, today=LATER) for day in days]
    assert [[each.day for each in run] for run in made] == [[], *([day] for day in DAYS), []]
    assert contents(tmp_path) == contents(whole_archive)


def test_a_day_that_is_not_over_is_left(four_days: str, tmp_path: Path) -> None:
    today = date(2024, 2, 29)
    assert [each.day for each in archived(four_days, STREAM, tmp_path, before=today)] == DAYS[:2]
    [last] = held(tmp_path, STREAM)[1:]
    assert {path.name[:10] for path in (tmp_path / OWN).iterdir()} == set(DAYS[:2])
    assert last.next < Reader(four_days, STREAM).head.next


def test_no_transaction_stays_open_between_days(four_days: str, tmp_path: Path) -> None:
    open_ones = (
        "SELECT count(*) AS n FROM pg_stat_activity WHERE datname = current_database()"
        " AND backend_type = 'client backend'"  # autovacuum may be at work
        " AND pid <> pg_backend_pid() AND (xact_start IS NOT NULL OR backend_xmin IS NOT NULL)"
    )
    with (
        closing(Reader(four_days, STREAM, keeps_connection=True)) as reader,
        closing(Reader(four_days, STREAM)) as other,
    ):
        made = [other.rows(open_ones)[0]["n"] for _ in archive(reader, tmp_path, LATER, LATER)]
    assert made == [0, 0, 0, 0]


def test_in_several_row_groups(
    four_days: str, whole_archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = dict.fromkeys((BATCHES, DETAILS, DECISIONS), 2_000)
    monkeypatch.setattr(parquet, "_ROW_GROUP_BYTES", small)
    made = archived(four_days, STREAM, tmp_path)
    for each in made:
        path = day_file(tmp_path / OWN, each.day, BATCHES)
        assert len(parquet.row_group_starts(path)) > 2
        assert sum(1 for _ in archived_batches.read_batches(path, each))
        verify_day(tmp_path, each)
    for content in small:
        assert rows(tmp_path, content) == rows(whole_archive, content)


KILLED = """
import os, signal, sys
from datetime import date
from pathlib import Path
from tests.postgres.archives import archived
address, stream, folder, left = sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4])

def counted(function):
    def run(*arguments):
        global left
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*arguments)
    return run

os.fsync, os.replace = counted(os.fsync), counted(os.replace)
archived(address, stream, folder)
"""


def test_killed_at_any_point(four_days: str, whole_archive: Path, tmp_path: Path) -> None:
    """Before each time that a file is flushed or gets its name: what there is can be read, and the
    next run has nothing missing or twice. Nine such steps a day."""
    ends = {each.next for each in held(whole_archive, STREAM)}
    reached = set()
    for point in range(14):
        folder = tmp_path / str(point)
        command = [sys.executable, "-c", KILLED, four_days, STREAM, str(folder), str(point)]
        ended = subprocess.run(command, cwd=ROOT, timeout=60, check=False)
        assert ended.returncode == -signal.SIGKILL
        so_far = manifests(folder, STREAM)
        reached.add(len(so_far))
        assert {each.next for each in so_far} <= ends
        for each in so_far:
            verify_day(folder, each)
        archived(four_days, STREAM, folder)
        assert contents(folder) == contents(whole_archive)
    assert reached == {0, 1}


def test_clocks_that_are_wrong(database: str, tmp_path: Path) -> None:
    """A batch of tomorrow stays with the one before it; a batch of an archived day goes to the day
    after it. Nothing is missing, and no day is held up."""
    write(database, "s", date(2024, 5, 3), [step(0)], {})
    write(database, "s", date(2024, 5, 9), [step(1)], {})
    write(database, "s", date(2024, 5, 3), [step(2)], {})
    write(database, "s", date(2024, 5, 4), [step(3)], {})
    first = archived(database, "s", tmp_path, before=date(2024, 5, 5))
    assert [(each.day, each.first, each.next) for each in first] == [
        ("2024-05-03", 0, 3),
        ("2024-05-04", 3, 4),
    ]
    write(database, "s", date(2024, 5, 3), [step(4)], {})
    assert archived(database, "s", tmp_path, before=date(2024, 5, 5)) == []
    [second] = archived(database, "s", tmp_path, before=date(2024, 5, 6))
    assert (second.day, second.first, second.next) == ("2024-05-05", 4, 5)
    assert [each.next for each in held(tmp_path, "s")] == [3, 4, 5]


def test_a_log_that_begins_in_the_future(database: str, tmp_path: Path) -> None:
    """Its first batches are taken as ones of yesterday."""
    write(database, "s", date(2031, 5, 9), [step(0)], {})
    write(database, "s", date(2024, 5, 5), [step(1)], {})
    with closing(Reader(database, "s", keeps_connection=True)) as reader:
        today = date(2024, 5, 6)
        days = [(each.day, each.next) for each in archive(reader, tmp_path, today, today)]
    assert days == [("2024-05-05", 2)]


# --- the command --------------------------------------------------------------------------


def test_the_command(four_days: str, whole_archive: Path, tmp_path: Path, capsys: Any) -> None:
    words = ["db", "archive", "--database", four_days, "--stream", STREAM, "--to", str(tmp_path)]
    assert main([*words, "--before", "2024-02-28T23:00"]) == 0
    end = held(tmp_path, STREAM)[0].next
    assert capsys.readouterr().out == (
        f"2024-02-27: {end} records, positions 0 to {end - 1}\n"
        f"1 day of stream {STREAM} archived in {tmp_path}\n"
    )
    assert main([*words, "--days", "7"]) == 0
    assert contents(tmp_path) == contents(whole_archive)
    assert f"3 days of stream {STREAM} archived" in capsys.readouterr().out
    assert main(words) == 0
    assert capsys.readouterr().out == (
        f"0 days of stream {STREAM} archived in {tmp_path}: "
        "all records of the stream are archived\n"
    )
    assert main([*words, "--before", "noon"]) == 2
    assert "--before: 'noon' is not a time" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "today", "reason"),
    [
        ([], 27, "2024-02-27 is not over, it ends at 2024-02-28T00:00Z"),
        (["--days", "7"], 28, "--days 7 leaves out 2024-02-27 and what comes after"),
        (
            ["--before", "2024-02-27T12:00"], 28,
            "--before 2024-02-27T12:00 leaves out 2024-02-27 and what comes after",
        ),
    ],
)  # fmt: skip
def test_why_nothing_is_archived(
    four_days: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any,
    options: list[str], today: int, reason: str,
) -> None:  # fmt: skip
    """The command says which day is the first that it leaves for later."""
    now = micros(date(2024, 2, today)) * 1_000 + 1
    monkeypatch.setattr("eventsched.cli.database_commands.db_archive.time.time_ns", lambda: now)
    words = ["db", "archive", "--database", four_days, "--stream", STREAM, "--to", str(tmp_path)]
    assert main([*words, *options]) == 0
    printed = capsys.readouterr().out
    assert printed == f"0 days of stream {STREAM} archived in {tmp_path}: {reason}\n"


def test_without_pyarrow(four_days: str, tmp_path: Path) -> None:
    """The command says what to install, and the other commands do without it."""
    (tmp_path / "pyarrow.py").write_text("raise ImportError('no pyarrow')")
    words = ["archive", "--database", four_days, "--stream", STREAM, "--to", str(tmp_path / "to")]
    ended = subprocess.run(
        [sys.executable, "-m", "eventsched", "db", *words],
        env={**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}"},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert ended.returncode == 2
    assert ended.stderr == (
        "eventsched db: archive: the package pyarrow is missing; install 'eventsched[archive]'\n"
    )
