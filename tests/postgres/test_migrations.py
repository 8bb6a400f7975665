"""The schema: brought up and taken down, checked before use, by users of few rights, and there in
what is installed."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count

import psycopg
import pytest
from alembic.script import ScriptDirectory
from psycopg import sql

from eventsched.domain import records
from eventsched.domain.errors import UnavailableError
from eventsched.domain.records.log_entry import LogEntry
from eventsched.eventlog import database
from eventsched.eventlog.embedded.embedded_server import EmbeddedPostgres
from eventsched.eventlog.port import Batch, StoredRecord
from eventsched.eventlog.postgres import reader as reading
from eventsched.eventlog.postgres.writer import PostgresEventLog
from eventsched.eventlog.schema import migration_files, migrations, revisions
from tests import releases
from tests.builders import added, make_node, make_pod
from tests.databases import ROOT, Server
from tests.postgres.commands import Command

_numbers = count()
NEWEST = migrations.newest()
REVISIONS = migration_files.revisions()[:-1]

LEFT = """
SELECT c.relkind::text, c.relname FROM pg_class c WHERE c.relnamespace = ANY (%(schemas)s::oid[])
AND NOT c.relispartition
UNION ALL SELECT 'f', p.proname FROM pg_proc p WHERE p.pronamespace = ANY (%(schemas)s::oid[])
UNION ALL SELECT 'e', t.typname FROM pg_type t
WHERE t.typnamespace = ANY (%(schemas)s::oid[]) AND t.typtype = 'e'
ORDER BY 2, 1
"""


def nothing(url: str) -> None:
    """Leaves a new database as it is."""


@pytest.fixture
def empty(one_server: Server) -> Iterator[str]:
    """The URL of an empty database."""
    with one_server.fresh(nothing) as url:
        yield url


def ours(url: str) -> list[tuple[str, str]]:
    """Everything in our schemas: kind and name."""
    with psycopg.connect(url) as connection:
        schemas = [
            oid
            for (oid,) in connection.execute(
                "SELECT oid FROM pg_namespace WHERE nspname IN ('eventsched', 'eventsched_log')"
            )
        ]
        return connection.execute(LEFT, {"schemas": schemas}).fetchall()


def use(address: str, reader: str | None = None) -> None:
    """Writes a log of one node and one pod, and reads it back, views included."""
    log = PostgresEventLog(address, "used")
    stimuli = [
        records.StreamStarted(format=1, engine="t", seed="s"),
        *added(make_node(), make_pod()),
    ]
    stored = [StoredRecord.of(LogEntry(at, 0, at, each)) for at, each in enumerate(stimuli)]
    log.begin(Batch(stored, {}))
    log.finish()
    log.renew()
    assert list(log.read()) == stored
    assert log.usage().scheduled_pods == 0
    log.close()
    with psycopg.connect(reader or address) as connection:
        found = connection.execute(
            "SELECT kind, pod FROM eventsched.events ORDER BY seq"
        ).fetchall()
        assert found == [("StreamStarted", None), ("NodeAdded", None), ("PodAdded", "p1")]
        assert connection.execute("SELECT records FROM eventsched.streams").fetchall() == [(3,)]


def problem(url: str) -> UnavailableError:
    """The messages about a database that is not ready; a reader and a writer say the same."""
    said = []
    for use_it in (lambda: PostgresEventLog(url, "s"), lambda: reading.Reader(url, "s")):
        with pytest.raises(UnavailableError) as told:
            use_it()
        said.append(told.value)
    assert str(said[0]) == str(said[1])
    assert "\n" not in str(said[0])
    return said[0]


# --- up and down ---------------------------------------------------------------------------------


def test_up_down_and_up_again(each_server: Server) -> None:
    """Down to only the table that says so; the same comes up again."""
    with each_server.fresh(nothing) as url:
        assert ours(url) == []
        migrations.upgrade(url)
        whole = ours(url)
        assert ("p", "batch") in whole
        assert migrations.drift(url) == []
        use(url)
        migrations.upgrade(url)
        assert ours(url) == whole
        migrations.downgrade(url)
        assert ours(url) == [("r", "migration"), ("i", "migration_pkc")]
        migrations.upgrade(url)
        assert ours(url) == whole
        assert migrations.drift(url) == []
        use(url)


def test_alembic_finds_nothing_to_do(each_database: str) -> None:
    """The command as a developer runs it."""
    done = _alembic(each_database, "check")
    assert (done.returncode, done.stderr) == (0, done.stderr), done.stderr
    assert "No new upgrade operations detected." in done.stdout
    assert _alembic(each_database, "current").stdout.strip() == f"{NEWEST} (head)"


def test_alembic_finds_a_manual_change(database: str) -> None:
    """A column that log_tables.py does not have."""
    with psycopg.connect(database) as connection:
        connection.execute("ALTER TABLE eventsched_log.head ADD extra integer")
    done = _alembic(database, "check")
    assert done.returncode != 0
    assert "extra" in done.stdout + done.stderr
    assert len(migrations.drift(database)) == 1


@pytest.mark.parametrize("revision", REVISIONS)
def test_up_from_each_revision(empty: str, revision: str) -> None:
    """An older schema comes up to the same tables, views and functions, and goes down again."""
    migrations.upgrade(empty)
    whole = ours(empty)
    migrations.downgrade(empty, revision)
    assert revision in problem(empty).problem
    migrations.upgrade(empty)
    assert ours(empty) == whole
    migrations.downgrade(empty)
    migrations.upgrade(empty, revision)
    migrations.upgrade(empty)
    assert ours(empty) == whole
    assert migrations.drift(empty) == []
    use(empty)


def test_a_database_of_release_0_1(each_server: Server) -> None:
    """Its log is read and continued as before, under the same names."""
    with each_server.fresh(releases.restore) as url, each_server.fresh(nothing) as other:
        migrations.upgrade(url)
        assert migrations.drift(url) == []
        migrations.upgrade(other)
        assert ours(url) == ours(other)
        reader = reading.Reader(url, releases.STREAM)
        stored = list(reader.read())
        assert len(stored) == reader.head.next
        log = PostgresEventLog(url, releases.STREAM)
        log.renew()
        log.close()


# --- at the same time ----------------------------------------------------------------------------


@pytest.mark.parametrize("before", [None, *REVISIONS])
def test_two_upgrades_of_a_database_at_the_same_time(empty: str, before: str | None) -> None:
    """Such as the init containers of two replicas: one does it, the other finds it done."""
    if before is not None:
        migrations.upgrade(empty, before)
    upgrade = ("db", "upgrade", "--database", empty)
    with Command(*upgrade) as first, Command(*upgrade) as second:
        errors = [program.communicate(timeout=120)[1] for program in (first, second)]
        assert (first.returncode, second.returncode) == (0, 0), errors
    assert migrations.drift(empty) == []
    use(empty)


def test_an_upgrade_waits_its_turn(empty: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """While another one is under way it does nothing, and says so when it has waited enough."""
    monkeypatch.setattr(revisions, "MIGRATION_LOCK_LIMIT", 0.1)
    with psycopg.connect(empty) as other:
        other.execute("SELECT pg_advisory_xact_lock(%s)", (revisions._MIGRATING,))
        with pytest.raises(UnavailableError) as told:
            migrations.upgrade(empty)
    assert "lock timeout" in told.value.problem
    assert ours(empty) == []
    migrations.upgrade(empty)


def test_an_upgrade_does_not_hold_up_the_log(empty: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind a long transaction it gives up instead of having all appends wait behind itself."""
    monkeypatch.setattr(revisions, "TABLE_LOCK_LIMIT", 0.1)
    migrations.upgrade(empty, "0005")
    with psycopg.connect(empty) as reader:
        reader.execute("SELECT count(*) FROM eventsched_log.batch")
        with pytest.raises(UnavailableError) as told:
            migrations.upgrade(empty)
    assert "another session holds a lock" in told.value.problem
    assert "pg_stat_activity" in told.value.remedy
    assert "\n" not in str(told.value)
    migrations.upgrade(empty)


# --- checked before use --------------------------------------------------------------------------


def test_a_database_without_the_schema(empty: str) -> None:
    """Nothing is made by the way."""
    told = problem(empty)
    assert told.problem == "has no eventsched schema"
    assert told.remedy == "run `eventsched db upgrade`"
    assert ours(empty) == []


def test_a_newer_schema(database: str) -> None:
    """It is neither used nor touched."""
    with psycopg.connect(database) as connection:
        connection.execute(
            "UPDATE eventsched_log.migration SET version_num = '9999', serves = '9999'"
        )
    told = problem(database)
    assert "schema 9999 is newer" in told.problem
    assert told.remedy == "install the version of eventsched that made it, or a newer one"
    before = ours(database)
    with pytest.raises(UnavailableError) as refused:
        migrations.upgrade(database)
    assert str(refused.value) == str(told)
    assert ours(database) == before


def test_the_revisions_are_those_that_alembic_finds() -> None:
    scripts = ScriptDirectory.from_config(migrations._config())
    found = [script.revision for script in scripts.walk_revisions()]
    assert migration_files.revisions() == found[::-1]
    assert migrations.newest() == scripts.get_current_head()


def test_only_migrating_imports_alembic(database: str) -> None:
    """Importing it takes longer than most commands."""
    program = (
        "import sys; from eventsched.cli.main import main; main(sys.argv[1:]);"
        "print('alembic' in sys.modules)"
    )
    for command, expected in (("streams", "False"), ("upgrade", "True")):
        arguments = ("log", "streams") if command == "streams" else ("db", command)
        done = subprocess.run(
            [sys.executable, "-c", program, *arguments, "--database", database],
            capture_output=True, text=True, check=True, timeout=60,
        )  # fmt: skip
        assert done.stdout.splitlines()[-1] == expected


def test_an_older_schema(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a later version will find it."""
    later = (*migration_files.migrations(), migration_files.MigrationFile("9998", ""))
    monkeypatch.setattr(migration_files, "migrations", lambda: later)
    told = problem(database)
    assert told.problem == f"has schema {NEWEST}, not 9998"
    assert told.remedy == "run `eventsched db upgrade`"


def test_the_schema_taken_down(database: str) -> None:
    """The table of versions is there, but empty."""
    migrations.downgrade(database)
    assert problem(database).problem == "has no eventsched schema"


# --- users of few rights -------------------------------------------------------------------------


@contextmanager
def user(superuser: str, attributes: str = "") -> Iterator[str]:
    """The address of an empty database for a user who may make things in it, and little else."""
    name = f"eventsched_test_user_{os.getpid()}_{next(_numbers)}"
    named = sql.Identifier(name)
    base = psycopg.conninfo.conninfo_to_dict(superuser)["dbname"]
    statements = [
        sql.SQL("CREATE ROLE {} LOGIN " + attributes),
        sql.SQL("GRANT CREATE ON DATABASE {base} TO {}"),
    ]
    with psycopg.connect(superuser, autocommit=True) as admin:
        for statement in statements:
            admin.execute(statement.format(named, base=sql.Identifier(str(base))))
        try:
            yield superuser.replace("://postgres@", f"://{name}@")
        finally:
            admin.execute(sql.SQL("REASSIGN OWNED BY {} TO CURRENT_USER").format(named))
            admin.execute(sql.SQL("DROP OWNED BY {}").format(named))
            admin.execute(sql.SQL("DROP ROLE {}").format(named))


def test_a_user_who_may_not_make_roles(each_server: Server) -> None:
    """One line, and nothing half made; as the only user there is, everything works."""
    with each_server.fresh(nothing) as url, user(url) as address:
        with pytest.raises(UnavailableError) as told:
            migrations.upgrade(address)
        assert "permission denied to create role" in told.value.problem
        assert "--one-user" in told.value.remedy
        assert "\n" not in str(told.value)
        assert ours(url) == []
        migrations.upgrade(address, one_user=True)
        assert migrations.drift(address) == []
        with (
            database.writer_address(address, None) as writing,
            database.reader_address(address, None) as reader,
        ):
            use(writing, reader)
        migrations.downgrade(address)
        assert [name for _, name in ours(url)] == ["migration", "migration_pkc"]


@pytest.mark.parametrize("one_user", [False, True])
def test_a_user_who_may_not_make_anything(empty: str, one_user: bool) -> None:
    """One line that says what is denied, and does not speak of roles."""
    with user(empty) as address:
        name = address.partition("://")[2].partition("@")[0]
        with psycopg.connect(empty, autocommit=True) as admin:
            base = psycopg.conninfo.conninfo_to_dict(empty)["dbname"]
            admin.execute(
                sql.SQL("REVOKE CREATE ON DATABASE {} FROM {}").format(
                    sql.Identifier(str(base)), sql.Identifier(name)
                )
            )
        with pytest.raises(UnavailableError) as told:
            migrations.upgrade(address, one_user=one_user)
        assert "permission denied for database" in told.value.problem
        assert "role" not in told.value.problem
        assert "CREATE ON DATABASE" in told.value.remedy
        assert "\n" not in str(told.value)
    assert ours(empty) == []


def test_a_user_who_may_make_roles(postgres: Callable[[], EmbeddedPostgres]) -> None:
    """The administrator of a managed server, who is no superuser, on a server of its own; then
    writers and readers who were granted the roles."""
    with postgres().open() as server:
        url = server.superuser_url
        with psycopg.connect(url, autocommit=True) as admin:
            admin.execute("CREATE DATABASE managed")
        url = psycopg_url(url, "managed")
        with user(url, "CREATEROLE") as address:
            migrations.upgrade(address)
            migrations.upgrade(address)
            with user(url) as writer, user(url) as reader:
                with psycopg.connect(address, autocommit=True) as administrator:
                    for role, member in (("writer", writer), ("reader", reader)):
                        name = member.partition("://")[2].partition("@")[0]
                        administrator.execute(f'GRANT eventsched_{role} TO "{name}"')
                use(writer, reader)
            migrations.downgrade(address)
            assert [name for _, name in ours(url)] == ["migration", "migration_pkc"]
            with psycopg.connect(url, autocommit=True) as admin:
                admin.execute("DROP SCHEMA eventsched_log CASCADE")


def psycopg_url(url: str, name: str) -> str:
    """The URL of another database of the same server."""
    base = str(psycopg.conninfo.conninfo_to_dict(url)["dbname"])
    return url.replace(f"/{base}?", f"/{name}?")


def test_two_databases_of_a_server_at_the_same_time(one_server: Server) -> None:
    """Roles belong to the server: the second finds them made."""
    with one_server.fresh(nothing) as first, one_server.fresh(nothing) as second:
        upgrade = ("db", "upgrade", "--database")
        with Command(*upgrade, first) as one, Command(*upgrade, second) as other:
            assert [one.wait(120), other.wait(120)] == [0, 0]
        assert ours(first) == ours(second) != []


def _alembic(url: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "alembic", *arguments],
        cwd=ROOT,
        env={**os.environ, "EVENTSCHED_DATABASE": url},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
