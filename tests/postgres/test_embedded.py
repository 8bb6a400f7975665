"""Processes that share an embedded Postgres: who starts it, who stops it, who writes."""

import os
import shutil
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest
import sqlalchemy

from eventsched.domain.errors import UnavailableError
from eventsched.eventlog.embedded.embedded_server import EmbeddedPostgres
from tests.postgres.processes import child, pid
from tests.waiting import joined, next_line, until


def test_a_new_folder_gets_a_server_on_a_socket_only(place: Path, programs: Path) -> None:
    with EmbeddedPostgres(place / "a" / "b", binaries=programs).open(writer=True) as postgres:
        assert postgres.execute("select current_user, current_database()") == [
            ("postgres", "eventsched")
        ]
        shown = {
            name: postgres.execute(f"show {name}")[0][0]
            for name in (
                *("listen_addresses", "fsync", "synchronous_commit", "full_page_writes", "jit"),
                *("data_checksums", "server_encoding", "lc_collate", "unix_socket_permissions")[:2],
                "unix_socket_permissions",
            )
        }
        assert shown == {
            "listen_addresses": "",
            "fsync": "on",
            "synchronous_commit": "on",
            "full_page_writes": "on",
            "jit": "off",
            "data_checksums": "on",
            "server_encoding": "UTF8",
            "unix_socket_permissions": "0700",
        }
        rights = {path.name: stat.S_IMODE(path.stat().st_mode) for path in place.glob("a/b/*")}
        assert rights.pop("postgres") == rights.pop("socket") == 0o700
        assert set(rights.values()) == {0o600}
        assert place.joinpath("a/b").stat().st_mode & 0o007 == 0
        assert list(place.glob("a/b/*new*")) == list(place.glob("a/.new*")) == []
    assert pid(postgres) is None


def test_what_was_written_is_there_after_a_restart_without_a_recovery(
    postgres: Callable[[], EmbeddedPostgres],
) -> None:
    """A server that was not shut down reads its WAL first, which can take minutes."""
    with postgres().open(writer=True) as first:
        first.execute("create table kept as select 7 as x")
    log = first.data_dir / "postgres.log"
    before = len(log.read_text())
    with postgres().open(writer=True) as second:
        assert second.execute("select x from kept") == [(7,)]
    said = log.read_text()[before:]
    assert "database system was shut down at" in said
    assert "redo starts" not in said


def test_the_url_is_understood_by_psycopg_psql_and_sqlalchemy(
    postgres: Callable[[], EmbeddedPostgres], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPORT", "1")
    with postgres().open() as opened:
        opened.create_database("a b/ü")
        opened.create_database("a b/ü")
        opened.execute('create role "r@:/1" login')
        url = opened.url("r@:/1", "a b/ü")
        asked, expected = "select current_user || current_database()", "r@:/1a b/ü"
        with psycopg.connect(url) as connection:
            assert connection.execute(asked).fetchone() == (expected,)
        engine = sqlalchemy.create_engine(
            sqlalchemy.make_url(url).set(drivername="postgresql+psycopg"),
            poolclass=sqlalchemy.NullPool,
        )
        with engine.connect() as connected:
            assert connected.scalar(sqlalchemy.text(asked)) == expected
        psql = shutil.which("psql")
        if psql:
            said = subprocess.run(
                [psql, url, "-Atc", asked], capture_output=True, check=True, timeout=60
            )
            assert said.stdout.decode().strip() == expected


def test_readers_share_the_server_and_the_last_one_stops_it(
    postgres: Callable[[], EmbeddedPostgres],
) -> None:
    first = postgres().open()
    with child(first, "reader") as other:
        server = pid(first)
        first.close()
        assert pid(first) == server is not None
        other.communicate(timeout=30)
    assert pid(first) is None


def test_a_server_that_another_process_stops_leaves_no_zombie(
    postgres: Callable[[], EmbeddedPostgres],
) -> None:
    first = postgres().open()
    server = pid(first)
    with child(first, "reader") as other:
        first.close()
        other.communicate(timeout=30)
    until(lambda: not Path(f"/proc/{server}").exists(), "the server's process has gone")


def test_a_second_writer_is_refused_with_the_pid_of_the_first(
    postgres: Callable[[], EmbeddedPostgres],
) -> None:
    with child(postgres(), "writer") as other:
        with pytest.raises(
            UnavailableError, match=f"another process writes here: pid {other.pid}, -c"
        ):
            postgres().open(writer=True)
        with postgres().open() as reader:
            assert reader.execute("select 1") == [(1,)]
        other.communicate(timeout=30)
    with postgres().open(writer=True):
        pass


def test_after_kill_9_a_writer_starts_the_server_again(
    postgres: Callable[[], EmbeddedPostgres],
) -> None:
    with child(postgres(), "writer") as other:
        orphan = pid(postgres())
        other.kill()
        other.wait(timeout=30)
    assert pid(postgres()) == orphan is not None
    with postgres().open(writer=True) as writer:
        assert pid(writer) not in (None, orphan)
    assert pid(postgres()) is None


def test_after_kill_9_a_reader_uses_the_server_that_runs(
    postgres: Callable[[], EmbeddedPostgres],
) -> None:
    with child(postgres(), "writer") as other:
        orphan = pid(postgres())
        other.kill()
        other.wait(timeout=30)
    with postgres().open() as reader:
        assert reader.execute("select pg_backend_pid() is not null") == [(True,)]
        assert pid(reader) == orphan
    assert pid(postgres()) is None


def test_a_writer_does_not_disturb_a_reader(postgres: Callable[[], EmbeddedPostgres]) -> None:
    with postgres().open() as reader:
        server = pid(reader)
        with postgres().open(writer=True):
            assert pid(reader) == server
        assert pid(reader) == server


def test_a_killed_server_is_started_again(postgres: Callable[[], EmbeddedPostgres]) -> None:
    first = postgres().open()
    first.execute("create table kept as select 7 as x")
    server = pid(first)
    assert server is not None
    os.kill(server, signal.SIGKILL)
    until(lambda: pid(first) is None, "the server is dead")  # it needs a processor for that
    with postgres().open() as second:
        assert second.execute("select x from kept") == [(7,)]
        assert pid(second) != server
    first.close()
    assert pid(first) is None


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_to_us_stops_the_server(
    postgres: Callable[[], EmbeddedPostgres], ending: signal.Signals
) -> None:
    with child(postgres(), "writer") as other:
        other.send_signal(ending)
        other.communicate(timeout=30)
        assert other.returncode == {signal.SIGINT: -2}.get(ending, 128 + ending)
    assert pid(postgres()) is None
    assert "received fast shutdown" in (postgres().data_dir / "postgres.log").read_text()


def test_the_interpreters_end_closes(postgres: Callable[[], EmbeddedPostgres]) -> None:
    with child(postgres(), "writer", then="sys.exit(3)") as other:
        assert other.wait(timeout=30) == 3
    assert pid(postgres()) is None


def test_a_forked_child_leaves_the_use_to_its_parent(
    postgres: Callable[[], EmbeddedPostgres],
) -> None:
    fork = "sys.exit() if os.fork() == 0 else os.wait()"
    with child(postgres(), "writer", then=f"{fork}; print('forked', flush=True)") as other:
        assert next_line(other) == "forked\n"
        assert pid(postgres()) is not None
        with pytest.raises(UnavailableError, match="another process writes"):
            postgres().open(writer=True)
        other.communicate(timeout=30)
    assert pid(postgres()) is None


HANDLERS = """
import signal, sys
from pathlib import Path
from eventsched.eventlog.embedded.embedded_server import EmbeddedPostgres
folder, programs = map(Path, sys.argv[1:])
with EmbeddedPostgres(folder, binaries=programs).open():
    assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
"""


def test_handlers_of_signals_are_given_back(place: Path, programs: Path) -> None:
    """In a process of its own: another test's server may be open in this one."""
    run = [sys.executable, "-c", HANDLERS, str(place / "data"), str(programs)]
    subprocess.run(run, check=True, timeout=60)


def test_it_opens_in_another_thread(postgres: Callable[[], EmbeddedPostgres]) -> None:
    opened = postgres()
    thread = threading.Thread(target=lambda: opened.open(writer=True))
    thread.start()
    joined(thread)
    assert pid(opened) is not None
    opened.close()


def test_a_server_kept_running_stays_until_a_writer_ends(
    postgres: Callable[[], EmbeddedPostgres],
) -> None:
    kept = postgres()
    kept.keep_running = True
    kept.open(writer=True).close()
    server = pid(kept)
    assert server is not None
    postgres().open().close()
    assert pid(kept) == server
    postgres().open(writer=True).close()
    assert pid(kept) is None


def test_an_unused_server_can_be_stopped(postgres: Callable[[], EmbeddedPostgres]) -> None:
    kept = postgres()
    kept.keep_running = True
    with kept.open():
        assert not postgres().stop_unused()
        assert pid(kept) is not None
    assert postgres().stop_unused()
    assert pid(kept) is None
