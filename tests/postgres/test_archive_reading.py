"""Logs that are read from an archive, alone or with the database that continues it."""

import json
import shutil
from collections.abc import Iterator
from contextlib import closing
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from eventsched.cli.main import main
from eventsched.domain.errors import InputError
from eventsched.eventlog.archive import parquet
from eventsched.eventlog.archive.archive_folder import held
from eventsched.eventlog.archive.archive_log import ArchiveLog
from eventsched.eventlog.archive.archive_manifest import BATCHES, DECISIONS, DETAILS, day_file
from eventsched.eventlog.archive.joined_log import JoinedLog
from eventsched.eventlog.postgres.reader import Reader
from eventsched.history.verify.archives.verified_archive import verify_archive
from eventsched.history.verify.verified_checkpoints import Checkpoint
from tests.databases import Server, migrate
from tests.postgres.archives import (
    DAYS,
    FIRST_DAY,
    LATER,
    OWN,
    STREAM,
    archived,
    spread,
    step,
    write,
)
from tests.postgres.histories import TIGHT, simulated
from tests.postgres.tampered_logs import TamperedLog
from tests.postgres.test_archive_refusals import changed, rewritten

OUT = "out.jsonl"
"""What is exported, in a folder of the test."""


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def half(own_archive: Path) -> Path:
    """The archive of the first two days."""
    for path in (own_archive / OWN).iterdir():
        if path.name[:10] > DAYS[1]:
            path.unlink()
    return own_archive


@pytest.fixture(params=["small", "large"])
def row_groups(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of many row groups, and of one."""
    if request.param == "small":
        small = dict.fromkeys((BATCHES, DETAILS, DECISIONS), 2_000)
        monkeypatch.setattr(parquet, "_ROW_GROUP_BYTES", small)


def detail_of(log: Any, position: int) -> Any:
    """The vectors of a position as lists."""
    detail = log.detail(position)
    if detail is None:
        return None
    columns = (detail.codes, *detail.scores, *detail.normalized)
    return [None if column is None else column.tolist() for column in columns]


@pytest.mark.usefixtures("row_groups")
@pytest.mark.parametrize("days", [2, 4])
def test_as_the_database_has_it(four_days: str, tmp_path: Path, days: int) -> None:
    """The same batches, records and vectors, from any position on: from an archive of all days
    alone, and from one of two days with the database."""
    archived(four_days, STREAM, tmp_path, before=date(2024, 2, 29) if days == 2 else LATER)
    with closing(Reader(four_days, STREAM, keeps_connection=True)) as reader:
        archive = ArchiveLog(tmp_path)
        assert len(held(tmp_path, STREAM)) == days
        log = JoinedLog(archive, reader) if days == 2 else archive
        assert (log.stream, log.head) == (STREAM, reader.head)
        assert list(log.batches()) == list(reader.batches())
        expected = list(reader.read())
        assert list(log.read()) == expected
        edges = [edge for each in held(tmp_path, STREAM) for edge in (each.next - 1, each.next)]
        for position in (0, 1, 100, *edges, log.head.next - 1, log.head.next):
            assert list(log.read(position)) == expected[position:]
        found = [detail_of(log, position) for position in range(log.head.next)]
        assert found == [detail_of(reader, position) for position in range(log.head.next)]
        assert sum(each is not None for each in found) > 200


def printed(capsys: Any, *words: str) -> str:
    """What a command prints, which has to succeed."""
    capsys.readouterr()
    assert main([*words]) == 0, capsys.readouterr().err
    return str(capsys.readouterr().out)


def test_commands_say_the_same(
    four_days: str, whole_archive: Path, half: Path, tmp_path: Path, capsys: Any
) -> None:
    """``explain``, ``replay``, ``verify`` and ``log export``: of the database, of an archive alone,
    and of both."""
    database = ("--database", four_days, "--stream", STREAM)
    logs = [
        database,
        ("--from-archive", str(whole_archive)),
        ("--from-archive", str(half), "--database", four_days),
    ]
    exports = []
    for number, log in enumerate(logs):
        file = tmp_path / f"{number}.jsonl"
        printed(capsys, "log", "export", str(file), *log)
        exports.append(file.read_bytes())
    assert exports[0] == exports[1] == exports[2]

    for pod in ("default/pod-000003", "default/pod-000059"):
        told = [json.loads(printed(capsys, "explain", pod, "-o", "json", *log)) for log in logs]
        assert told[0] == told[1] == told[2]
        assert told[0]["attempts"]

    for options in ((), ("--verify",)):
        told = [json.loads(printed(capsys, "replay", "-o", "json", *options, *log)) for log in logs]
        digests = [(each["records"], each["state_digest"], each["divergence"]) for each in told]
        assert digests[0] == digests[1] == digests[2]

    told = [json.loads(printed(capsys, "verify", "-o", "json", *log)) for log in logs]
    assert [each["ok"] for each in told] == [True] * 3
    [[first], *others] = [each["streams"] for each in told]
    for [other] in others:
        assert {**other, "seconds": first["seconds"]} == first


def test_the_environment_is_not_a_database(
    whole_archive: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setenv("EVENTSCHED_DATABASE", "postgresql://nobody@nowhere.invalid/none")
    assert "every decision" in printed(
        capsys, "replay", "--verify", "--from-archive", str(whole_archive)
    )


def refused(capsys: Any, *words: str) -> str:
    """How a command refuses."""
    capsys.readouterr()
    assert main([*words]) == 2
    return str(capsys.readouterr().err)


@pytest.mark.parametrize("words", [("replay",), ("explain", "x"), ("log", "export", OUT)])
def test_a_file_that_was_altered(
    own_archive: Path, words: tuple[str, ...], tmp_path: Path, capsys: Any
) -> None:
    path = day_file(own_archive / OWN, DAYS[1], BATCHES)
    rewritten(path, "body", "[]")
    told = refused(capsys, *words, "--from-archive", str(own_archive))
    assert f"{path}: " in told
    assert "changed" in told or "was altered" in told
    path.unlink()
    told = refused(capsys, *words, "--from-archive", str(own_archive))
    assert f"{DAYS[2]}.batches.parquet: begins at position" in told
    assert "missing" in told


@pytest.mark.parametrize("content", [BATCHES, DETAILS, DECISIONS])
@pytest.mark.parametrize("how", ["byte", "missing"])
def test_verify_finds_what_was_altered(
    own_archive: Path, content: str, how: str, capsys: Any
) -> None:
    path = day_file(own_archive / OWN, DAYS[1], content)
    if how == "missing":
        path.unlink()
    else:
        changed(path, 300)
    assert main(["verify", "--from-archive", str(own_archive)]) == 1
    told = capsys.readouterr().out
    named = day_file(own_archive / OWN, DAYS[2], content) if "begins at" in told else path
    assert str(named) in told
    assert "; restore the " in told


@pytest.mark.parametrize(
    ("column", "value"), [("body", "[]"), ("mark", "1"), ("epoch", 9), ("token", bytes(16))]
)
def test_verify_finds_an_altered_batch(
    own_archive: Path, column: str, value: Any, capsys: Any
) -> None:
    path = day_file(own_archive / OWN, DAYS[1], BATCHES)
    rewritten(path, column, value)
    assert main(["verify", "--from-archive", str(own_archive)]) == 1
    told = capsys.readouterr().out
    assert f"{path}: position " in told
    assert told.endswith("; restore the file from a copy, or archive into an empty folder\n")


@pytest.mark.parametrize("words", [("replay",), ("explain", "x"), ("log", "export", OUT)])
def test_a_database_with_another_log(
    half: Path, one_server: Server, words: tuple[str, ...], capsys: Any
) -> None:
    with one_server.fresh(migrate) as other:
        simulated(other)
        spread(other, TIGHT, STREAM)
        options = ("--from-archive", str(half), "--database", other)
        told = refused(capsys, *words, *options)
        assert "different logs" in told or "not those of the database" in told
        assert main(["verify", *options]) == 1
        told = capsys.readouterr().out
        assert "its epochs are not those of the database; name the database of this" in told


def test_a_database_that_lost_its_end(half: Path, database: str, capsys: Any) -> None:
    write(database, STREAM, FIRST_DAY, [step(0)], {})
    told = refused(capsys, "replay", "--from-archive", str(half), "--database", database)
    assert "ends at 1: it is another log, or has lost its end" in told


def test_an_archive_without_its_beginning(own_archive: Path, capsys: Any) -> None:
    """Verification says it with the words of all other commands, and where the files have to
    come from, and does not report the epochs that began in them."""
    for content in (BATCHES, DETAILS, DECISIONS):
        day_file(own_archive / OWN, DAYS[0], content).unlink()
    with pytest.raises(InputError, match="files of the days before are missing") as raised:
        ArchiveLog(own_archive)
    assert main(["verify", "--from-archive", str(own_archive)]) == 1
    assert capsys.readouterr().out == f"stream {STREAM}: {raised.value}\n"


def test_which_stream(own_archive: Path, tmp_path: Path, capsys: Any) -> None:
    absent, empty = tmp_path / "absent", tmp_path / "empty"
    empty.mkdir()
    for command in ("replay", "verify"):
        told = refused(capsys, command, "--from-archive", str(absent))
        assert f"{absent}: cannot be read: No such file" in told
        told = refused(capsys, command, "--from-archive", str(empty))
        assert f"{empty}: holds no archive" in told
    shutil.copytree(own_archive / OWN, own_archive / "other")
    told = refused(capsys, "replay", "--from-archive", str(own_archive))
    assert f"the archive holds 2 streams; there are: {STREAM}, other" in told
    for command in ("replay", "verify"):
        told = refused(capsys, command, "--from-archive", str(own_archive), "--stream", "x")
        assert f"has no stream x; there are: {STREAM}, other" in told
    words = ("replay", "--from-archive", str(own_archive), "--stream")
    assert f"is of stream {STREAM}, not other" in refused(capsys, *words, "other")
    assert "records applied" in printed(capsys, *words, STREAM)


@pytest.fixture
def pruned(half: Path, database: str, capsys: Any) -> Iterator[tuple[Path, str, TamperedLog]]:
    """An archive of two days, and its database, from which these days were deleted."""
    shutil.rmtree(half / OWN)
    simulated(database)
    spread(database, TIGHT, STREAM)
    archived(database, STREAM, half, before=date(2024, 2, 29))
    with closing(TamperedLog(database)) as log:
        delete(log, held(half, STREAM)[-1].next)
        yield half, database, log


def delete(log: TamperedLog, end: int) -> None:
    """Deletes what the stream has before a position."""
    number = f"(SELECT id FROM stream WHERE name = '{STREAM}')"
    log.run(f"DELETE FROM batch WHERE first < {end} AND stream = {number}")
    log.run(f"DELETE FROM detail WHERE seq < {end} AND stream = {number}")


def test_a_database_that_has_only_what_is_newer(
    pruned: tuple[Path, str, TamperedLog], tmp_path: Path, capsys: Any
) -> None:
    """All commands go on as before, and so does archiving."""
    folder, url, _ = pruned
    joined = ("--from-archive", str(folder), "--database", url)
    told = json.loads(printed(capsys, "replay", "--verify", "-o", "json", *joined))
    assert told["verified"]
    told = json.loads(printed(capsys, "verify", "-o", "json", *joined))
    assert told["ok"]
    assert told["streams"][0]["records"] == Reader(url, STREAM).head.next
    assert json.loads(printed(capsys, "explain", "default/pod-000003", "-o", "json", *joined))
    printed(capsys, "log", "export", str(tmp_path / "joined"), *joined)
    archived(url, STREAM, folder)
    whole = ("--from-archive", str(folder))
    printed(capsys, "log", "export", str(tmp_path / "whole"), *whole)
    assert (tmp_path / "joined").read_bytes() == (tmp_path / "whole").read_bytes()
    assert [each.day for each in held(folder, STREAM)] == DAYS


def test_positions_that_are_nowhere(pruned: tuple[Path, str, TamperedLog], capsys: Any) -> None:
    folder, url, log = pruned
    end = held(folder, STREAM)[-1].next
    delete(log, end + 50)
    joined = ("--from-archive", str(folder), "--database", url)
    assert "the positions between are in neither; restore" in refused(capsys, "replay", *joined)
    assert "expected" in refused(capsys, "log", "export", OUT, *joined)
    assert main(["verify", *joined]) == 1
    told = capsys.readouterr().out
    assert f"expected {end}; restore the archive's files of the days between" in told
    with pytest.raises(InputError, match="the positions between are in neither"):
        archived(url, STREAM, folder)


def test_verify_with_a_checkpoint(whole_archive: Path, half: Path) -> None:
    """It shows that the last files were taken away."""
    head = ArchiveLog(whole_archive).head
    signed = Checkpoint(STREAM, head.next, head.hash.hex(), "2024-03-02T00:00:00Z", "key")
    assert verify_archive(whole_archive, STREAM, checkpoints=[signed]).problems == []
    [problem] = verify_archive(half, STREAM, checkpoints=[signed]).problems
    assert problem.text.startswith("the log ends at")
