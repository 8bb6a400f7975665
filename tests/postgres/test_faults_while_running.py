"""What goes wrong while a simulation writes its log: another writer, refused writes, a full disk, a
damaged log."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from eventsched.cli.main import main
from eventsched.eventlog.database import AUDITOR
from eventsched.eventlog.embedded.embedded_server import EmbeddedPostgres
from eventsched.eventlog.postgres.writer import PostgresEventLog
from tests.databases import Server, migrate
from tests.postgres.failing_commands import LOAD, LONG, SIMULATE, Says, content, execute
from tests.postgres.simulations import (
    STREAM,
    assert_whole,
    complaints,
    ended,
    folder_url,
    reaches,
    small_batches,
    started,
    uninterrupted,
)


def test_a_second_writer_fences_the_first(database: str) -> None:
    position = len(uninterrupted(LONG)[0]) // 3
    arguments = ("simulate", "--generate", LONG, "--database", database, "-o", "json")
    with started(*arguments) as process:
        try:
            assert reaches(process, lambda: database, position, 1)
            second = PostgresEventLog(database, STREAM, holder="second")
            head = second.head
            output, errors = process.communicate(timeout=120)
        finally:
            process.kill()
    assert (process.returncode, output) == (3, "")
    (line,) = complaints(errors)
    assert line == (
        f"eventsched simulate: stream {STREAM}: we write in epoch 1, but another writer has begun "
        "epoch 2; make sure that only one runs, and start it again"
    )
    assert position <= second.head == head == second.reader.head.next < len(uninterrupted(LONG)[0])
    second.close()
    code, output, said = ended(*arguments)
    assert (code, said) == (0, [])
    assert_whole(LONG, output, database)


def failing(table: str, code: str, after: int = 0) -> str:
    """A server-side failure of inserts into a table, once it holds a number of rows."""
    return f"""
        CREATE FUNCTION public.fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            IF (SELECT count(*) FROM eventsched_log.{table}) >= {after} THEN
                RAISE EXCEPTION 'could not extend file: No space left on device'
                USING ERRCODE = '{code}', HINT = 'Check free disk space.';
            END IF;
            RETURN NEW;
        END $$;
        CREATE TRIGGER fail BEFORE INSERT ON eventsched_log.{table}
            FOR EACH ROW EXECUTE FUNCTION public.fail()"""


@pytest.mark.parametrize(
    ("table", "after"), [("batch", 0), ("batch", 7), ("decision", 30), ("detail", 50), ("epoch", 0)]
)
def test_the_server_refuses_an_append(table: str, after: int, database: str, says: Says) -> None:
    """Nothing of the batch is in the log, and the next run continues from there."""
    execute(database, failing(table, "53100", after))
    with small_batches():
        line = says(3, *SIMULATE, "--database", database)
    assert "No space left on device" in line
    batches = execute(database, "SELECT first, count FROM eventsched_log.batch ORDER BY first")
    ends = [first + count for first, count in batches]
    assert [first for first, _ in batches] == [0, *ends][: len(batches)]
    heads = execute(database, "SELECT next FROM eventsched_log.head")
    assert heads == ([] if table == "epoch" else [(ends[-1] if ends else 0,)])
    execute(database, "DROP FUNCTION public.fail CASCADE")
    code, output, said = ended(*SIMULATE, "--database", database, "-o", "json")
    assert (code, said) == (0, [])
    assert_whole(LOAD, output, database)


def test_a_snapshot_that_cannot_be_kept(database: str, capsys: pytest.CaptureFixture[str]) -> None:
    """It is a cache: the run ends as it should."""
    execute(database, failing("snapshot", "53100"))
    code = main([*SIMULATE, "--database", database, "-o", "json"])
    found = capsys.readouterr()
    assert (code, complaints(found.err)) == (0, [])
    assert_whole(LOAD, found.out, database)


@contextmanager
def small_disk(folder: Path, megabytes: int) -> Iterator[Path]:
    """A disk of that size in a folder, where we may mount one."""
    folder.mkdir()
    options = f"size={megabytes}m,mode=755"
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder],
        capture_output=True,
        check=False,
        timeout=60,
    )
    if mounted.returncode:
        pytest.skip("a small disk cannot be mounted here: " + mounted.stderr.decode().strip())
    try:
        yield folder
    finally:
        EmbeddedPostgres(folder / "data").stop_unused()
        subprocess.run(["umount", "-l", folder], check=True, timeout=60)


def test_a_disk_that_fills_up(place: Path) -> None:
    """Under load. Once there is space again, the same command continues."""
    with small_disk(place / "disk", 90) as disk:
        arguments = ("simulate", "--generate", LONG, "--data-dir", disk / "data", "-o", "json")
        position = len(uninterrupted(LONG)[0]) // 4
        with started(*arguments) as process:
            try:
                assert reaches(process, lambda: folder_url(disk / "data", AUDITOR), position, 1)
                fill(disk / "ballast")
                output, errors = process.communicate(timeout=120)
            finally:
                process.kill()
        assert (process.returncode, output) == (3, "")
        (line,) = complaints(errors)
        assert "No space left on device" in line or "no answer for 30 s" in line
        (disk / "ballast").unlink()
        code, output, said = ended(*arguments)
        assert (code, said) == (0, [])
        with EmbeddedPostgres(disk / "data").open(create=False) as postgres:
            assert_whole(LONG, output, postgres.url(AUDITOR))


def test_a_disk_that_is_too_small(place: Path, says: Says) -> None:
    with small_disk(place / "disk", 20) as disk:
        line = says(3, *SIMULATE, "--data-dir", disk / "data")
        assert f"; free space on the disk of {disk / 'data'}" in line
        assert not (disk / "data/postgres").exists()


def fill(path: Path) -> None:
    """Writes until nothing more fits."""
    with path.open("wb", buffering=0) as file:
        for size in (2**20, 2**12):
            with suppress(OSError):
                while file.write(bytes(size)):
                    pass


def test_a_damaged_log_is_not_gone_on_with(one_server: Server, says: Says) -> None:
    """A run that was cut off, then a row altered: neither simulate nor replay pass over it."""
    with one_server.fresh(migrate) as url:
        with small_batches():
            assert main([*SIMULATE, "--database", url, "--until", "100"]) == 0
        first = execute(url, "SELECT first FROM eventsched_log.batch ORDER BY 1")[5][0]
        execute(
            url,
            "ALTER TABLE eventsched_log.batch DISABLE TRIGGER USER",
            "ALTER TABLE eventsched_log.snapshot DISABLE TRIGGER USER",
            "DELETE FROM eventsched_log.snapshot",
            'UPDATE eventsched_log.batch SET body = \'[[0,0,1,{"kind":"What"}]]\''
            f" WHERE first = {first}",
        )
        before = content(url)
        line = says(3, *SIMULATE, "--database", url)
        assert f"the log is damaged: position {first}" in line
        assert "`eventsched verify`" in line
        assert content(url)[3:] == before[3:]
