"""What goes wrong outside, as its user meets it: one line with the remedy, exit code 2 for input
and 3 for the environment, and nothing half written."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from eventsched.cli.main import main
from eventsched.domain.errors import UnavailableError
from eventsched.eventlog.embedded.embedded_server import EmbeddedPostgres
from eventsched.eventlog.postgres.reader import Reader
from eventsched.eventlog.schema import migrations
from tests.databases import Server, embedded_programs
from tests.postgres.failing_commands import LONG, SIMULATE, Says, content, execute, written
from tests.postgres.processes import child
from tests.postgres.simulations import (
    STREAM,
)

READING = (("replay",), ("replay", "--verify"), ("verify",))


@pytest.fixture
def log(one_server: Server) -> Iterator[str]:
    """The address of a database with a finished run."""
    with one_server.fresh(written) as url:
        yield url


@contextmanager
def unchanged(url: str) -> Iterator[None]:
    """Nothing is written meanwhile, not even half."""
    before = content(url)
    yield
    assert content(url) == before


# --- the database is down, or not ours ----------------------------------------------------


@pytest.mark.parametrize("command", [SIMULATE, *READING])
@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("postgresql://me@127.0.0.1:1/log", "refused"),
        ("postgresql://me@/log?host=/nowhere", "No such file"),
        ("postgresql://me:secret@no-such-host.invalid/log", "no-such-host.invalid"),
    ],
)
def test_an_unreachable_database(
    command: tuple[str, ...], url: str, problem: str, says: Says
) -> None:
    line = says(3, *command, "--database", url)
    assert problem in line
    assert "secret" not in line
    assert line.endswith("; start the database, or correct its address")


@pytest.mark.parametrize("command", [SIMULATE, *READING])
def test_a_database_that_does_not_exist(
    command: tuple[str, ...], one_server: Server, says: Says
) -> None:
    line = says(3, *command, "--database", one_server.url("no_such_database"))
    assert 'database "no_such_database" does not exist' in line


@pytest.mark.parametrize("command", [SIMULATE, *READING])
def test_a_database_without_the_schema(
    command: tuple[str, ...], one_server: Server, says: Says
) -> None:
    with one_server.fresh(nothing) as url:
        line = says(3, *command, "--database", url)
        assert line.endswith(": has no eventsched schema; run `eventsched db upgrade`")


def nothing(url: str) -> None:
    """Prepares nothing."""


@pytest.mark.parametrize("command", [SIMULATE, *READING])
def test_a_newer_schema(command: tuple[str, ...], log: str, says: Says) -> None:
    execute(log, "UPDATE eventsched_log.migration SET version_num = '9999', serves = '9999'")
    with unchanged(log):
        line = says(3, *command, "--database", log)
    assert "its schema 9999 is newer than this version of eventsched knows" in line
    assert line.endswith("; install the version of eventsched that made it, or a newer one")


@pytest.mark.parametrize("command", [SIMULATE, *READING])
@pytest.mark.parametrize(
    "change", ["DELETE FROM eventsched_log.migration", "DROP TABLE eventsched_log.migration"]
)
def test_a_half_migrated_schema(
    command: tuple[str, ...], change: str, log: str, says: Says
) -> None:
    execute(log, change)
    with unchanged(log):
        line = says(3, *command, "--database", log)
    assert "its schema has no revision" in line


@pytest.mark.parametrize("version", ["9999", None])
def test_a_folder_of_another_schema(version: str | None, place: Path, says: Says) -> None:
    """The embedded database is brought up by itself, but neither undone nor guessed at."""
    assert main([*SIMULATE, "--data-dir", str(place / "data")]) == 0
    with EmbeddedPostgres(place / "data").open() as postgres:
        address = postgres.superuser_url
        change = f"UPDATE eventsched_log.migration SET version_num = '{version}', serves = '9'"
        execute(address, change if version else "DELETE FROM eventsched_log.migration")
        with unchanged(address):
            for command in (SIMULATE, *READING):
                line = says(3, *command, "--data-dir", place / "data")
                assert "newer" in line if version else "; " in line


# --- rights -------------------------------------------------------------------------------


@pytest.fixture
def stranger(log: str) -> Iterator[str]:
    """The address of the database for a user without any rights there."""
    name = f"stranger_{urlsplit(log).path[1:]}"[:60]
    execute(log, f'CREATE ROLE "{name}" LOGIN')
    parts = urlsplit(log)
    host = parts.netloc.rpartition("@")[2]
    yield parts._replace(netloc=f"{name}@{host}").geturl()
    execute(log, f'DROP OWNED BY "{name}"', f'DROP ROLE "{name}"')


def grant(log: str, stranger: str, role: str) -> None:
    execute(log, f'GRANT {role} TO "{urlsplit(stranger).username}"')


def test_no_rights(stranger: str, log: str, says: Says) -> None:
    with unchanged(log):
        assert "GRANT eventsched_writer" in says(3, *SIMULATE, "--database", stranger)
        for command in READING:
            assert "eventsched_auditor" in says(3, *command, "--database", stranger)


def test_a_reader_reads_views_only(stranger: str, log: str, says: Says) -> None:
    grant(log, stranger, "eventsched_reader")
    assert main(["sql", "--database", stranger, "-c", "SELECT count(*) FROM decisions"]) == 0
    for command in READING:
        line = says(3, *command, "--database", stranger)
        assert "permission denied" in line
        assert "eventsched_auditor" in line
    line = says(2, "sql", "--database", stranger, "-c", "SELECT record FROM events")
    assert line.endswith("; to read records, GRANT eventsched_auditor to this user")


def test_an_auditor_cannot_write(stranger: str, log: str, says: Says) -> None:
    grant(log, stranger, "eventsched_auditor")
    with unchanged(log):
        line = says(3, *SIMULATE, "--database", stranger)
        assert line.endswith("; GRANT eventsched_writer to this user")
        assert "permission denied" in line
    assert main(["replay", "--verify", "--database", stranger]) == 0


def test_a_writer_is_enough(stranger: str, log: str) -> None:
    grant(log, stranger, "eventsched_writer")
    assert main([*SIMULATE, "--database", stranger, "--stream", "other"]) == 0


def test_no_rights_to_create_roles(one_server: Server) -> None:
    """As ``eventsched db upgrade`` meets it; tests of that command are elsewhere."""
    with one_server.fresh(nothing) as url:
        name = f"owner_{urlsplit(url).path[1:]}"[:60]
        execute(
            url,
            f'CREATE ROLE "{name}" LOGIN',
            f'GRANT ALL ON DATABASE "{urlsplit(url).path[1:]}" TO "{name}"',
        )
        parts = urlsplit(url)
        mine = parts._replace(netloc=f"{name}@{parts.netloc.rpartition('@')[2]}").geturl()
        roles = "SELECT count(*) FROM pg_roles WHERE rolname = 'eventsched_owner'"
        if execute(url, roles) == [(0,)]:
            with pytest.raises(UnavailableError, match="--one-user"):
                migrations.upgrade(mine)
        migrations.upgrade(mine, one_user=True)
        assert main([*SIMULATE, "--database", mine]) == 0
        assert main(["replay", "--verify", "--database", mine]) == 0
        execute(
            url,
            f'REASSIGN OWNED BY "{name}" TO CURRENT_USER',
            f'DROP OWNED BY "{name}"',
            f'DROP ROLE "{name}"',
        )


def test_a_database_that_may_not_be_written(log: str, says: Says) -> None:
    """A standby, or one that was set read-only."""
    name = urlsplit(log).path[1:]
    execute(log, f'ALTER DATABASE "{name}" SET default_transaction_read_only = on')
    with unchanged(log):
        line = says(3, *SIMULATE, "--database", log, "--stream", "other")
    assert "read-only transaction" in line


# --- the stream, the folder and the options -----------------------------------------------


def test_other_inputs(log: str, says: Says) -> None:
    """Named, and refused before anything is written but the epoch that looked."""
    before = Reader(log, STREAM).head
    for more, named in (
        (("--seed", "x"), "seed"),
        (("--limit", 3), "variant"),
        (("--arrivals", "together"), "variant"),
    ):
        line = says(2, *SIMULATE, *more, "--database", log)
        assert line == (
            f"eventsched simulate: stream {STREAM}: holds a run of other inputs ({named}); name "
            "another --stream or --data-dir, or give the inputs that it was begun with"
        )
    line = says(2, "simulate", "--generate", LONG, "--database", log)
    assert "(generate)" in line
    assert Reader(log, STREAM).head == before
    assert main(["replay", "--verify", "--database", log]) == 0


def test_a_finished_run_says_the_same_again(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    said = []
    for _ in range(2):
        before = content(log)
        assert main([*SIMULATE, "--database", log, "-o", "json"]) == 0
        printed = capsys.readouterr()
        assert f"stream {STREAM} holds this run already: nothing was decided now" in printed.err
        said.append(json.loads(printed.out.splitlines()[-1]))
        after = content(log)
        assert after[3:] == before[3:]
        assert len(after[2]) == len(before[2]) + 1
    assert said[0] == said[1]


def test_a_folder_in_use(place: Path, says: Says, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SIMULATE, "--data-dir", str(place / "data")]) == 0
    assert "holds this run already" not in capsys.readouterr().err
    programs = list(embedded_programs().values())[-1]
    postgres = EmbeddedPostgres(place / "data", binaries=programs)
    with child(postgres, "writer") as other:
        line = says(3, *SIMULATE, "--data-dir", place / "data")
        assert f": another process writes here: pid {other.pid}, " in line
        assert line.endswith("; choose another data folder, or wait for its end")
        assert main(["replay", "--data-dir", str(place / "data")]) == 0, "readers may"
    assert main([*SIMULATE, "--data-dir", str(place / "data")]) == 0


def test_folders_that_cannot_be_used(place: Path, says: Says) -> None:
    (place / "file").write_text("")
    assert says(3, *SIMULATE, "--data-dir", place / "file")
    command: tuple[str, ...]
    for command in READING:
        line = says(2, *command, "--data-dir", place / "none")
        assert line.endswith(": there is no database here; see that the folder is right")
    assert not (place / "none").exists()
    assert main([*SIMULATE, "--data-dir", str(place / "data")]) == 0
    version = place / "data/postgres/PG_VERSION"
    version.write_text("9.6\n")
    for command in (SIMULATE, *READING):
        line = says(2, *command, "--data-dir", place / "data")
        assert "it was made by Postgres 9.6" in line


@pytest.mark.parametrize("command", [SIMULATE, *READING])
def test_addresses_that_are_none(command: tuple[str, ...], place: Path, says: Says) -> None:
    for address, problem in (
        ("nonsense", "is not a URL"),
        ("mysql://me@host/log", "names mysql, not Postgres"),
    ):
        line = says(2, *command, "--database", address)
        assert line == (
            f"eventsched {command[0]}: --database: {problem}; "
            "write postgresql://USER@HOST:PORT/DATABASE, or use --data-dir"
        )
    line = says(2, *command, "--database", "postgresql://me@/log", "--data-dir", place)
    assert line.endswith(": options: two databases are named; give --data-dir or --database")


def test_a_port_that_is_none(says: Says) -> None:
    line = says(2, *SIMULATE, "--database", "postgresql://me@host:port/log")
    assert ": --database: is not a URL; " in line
