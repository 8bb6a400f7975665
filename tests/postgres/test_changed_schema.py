"""The schema as its owner changed it: ``verify`` compares it with the facts of its version."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from eventsched.cli.main import main
from eventsched.eventlog.postgres.writer import PostgresEventLog
from eventsched.eventlog.schema import migrations
from eventsched.history.verify.verified_schema import differences
from tests import releases
from tests.databases import Server
from tests.postgres import schema_facts
from tests.postgres.schema_facts import FILE, made
from tests.postgres.test_migrations import nothing

Capture = pytest.CaptureFixture[str]


def test_the_file_is_what_the_migrations_make() -> None:
    """After a new migration: make schema-facts."""
    known, found = json.loads(FILE.read_text()), made()
    servers = {name.rpartition(" on ")[2] for name in found["facts"] if name.startswith("view ")}
    kept = {
        name: digest for name, digest in known["facts"].items()
        if not name.startswith(("view ", "index ", "constraint ", "trigger "))
        or name.rpartition(" on ")[2] in servers
    }  # fmt: skip
    assert {"revision": known["revision"], "facts": kept} == found, "run `make schema-facts`"


def test_facts_of_a_version_that_is_not_here_are_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file stays as it is, and the command says what to install."""
    file = tmp_path / "schema.json"
    file.write_text(json.dumps({"facts": {"view a on 15": "0", "view a on 18": "0"}}))
    before = file.read_text()
    monkeypatch.setattr(schema_facts, "FILE", file)
    monkeypatch.setattr(schema_facts, "made", lambda: {"facts": {"view a on 18": "1"}})
    assert "there is no Postgres 15 here" in schema_facts.write()
    assert file.read_text() == before
    file.write_text(json.dumps({"facts": {"view a on 18": "0"}}))
    assert schema_facts.write() == ""
    assert json.loads(file.read_text())["facts"] == {"view a on 18": "1"}


@pytest.fixture
def owned(each_database: str) -> Iterator[psycopg.Connection[Any]]:
    """A database of every version, at the hands of its owner."""
    with psycopg.connect(each_database, autocommit=True) as connection:
        yield connection


def test_no_false_alarms(each_server: Server) -> None:
    """Made by migrations, upgraded from 0.1, without roles, and after down and up."""
    with each_server.fresh(nothing) as url:
        releases.restore(url)
        migrations.upgrade(url)
        with psycopg.connect(url, autocommit=True) as connection:
            assert differences(connection) == []
        assert main(["verify", "--database", url]) == 0
        migrations.downgrade(url, "0004")
        migrations.upgrade(url)
        with psycopg.connect(url, autocommit=True) as connection:
            assert differences(connection) == []
    with each_server.fresh(nothing) as url:
        migrations.upgrade(url, one_user=True)
        with psycopg.connect(url, autocommit=True) as connection:
            assert differences(connection) == []


_L = "eventsched_log"
CHANGES = [
    (
        f"CREATE OR REPLACE FUNCTION {_L}.deny() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN RETURN NEW; END $$",
        ["function eventsched_log.deny() was changed"],
    ),
    (
        "CREATE OR REPLACE VIEW eventsched.requests AS SELECT s.name AS stream, r.id AS request,"
        " r.asked_at, 'nobody'::text AS asked_by, r.plugin, r.key, r.seq FROM"
        " eventsched_log.request r JOIN eventsched_log.stream s ON s.id = r.stream",
        ["view eventsched.requests was changed"],
    ),
    (f"DROP TRIGGER append_only ON {_L}.batch",
     ["trigger eventsched_log.batch.append_only is missing"]),
    (f"ALTER TABLE {_L}.batch DISABLE TRIGGER append_only",
     ["trigger eventsched_log.batch.append_only was changed"]),
    (f"CREATE TRIGGER mine AFTER INSERT ON {_L}.batch EXECUTE FUNCTION {_L}.deny()",
     ["trigger eventsched_log.batch.mine is not of the migrations"]),
    (f"CREATE RULE mine AS ON UPDATE TO {_L}.batch DO INSTEAD NOTHING",
     ["rule eventsched_log.batch.mine is not of the migrations"]),
    (f"ALTER TABLE {_L}.head DROP CONSTRAINT head_hash_check",
     ["constraint eventsched_log.head.head_hash_check is missing"]),
    (f"ALTER TABLE {_L}.head ADD extra integer", ["table eventsched_log.head was changed"]),
    (f"GRANT UPDATE ON {_L}.batch TO eventsched_writer",
     ["grants on eventsched_log.batch to eventsched_writer was changed"]),
    (f"GRANT EXECUTE ON FUNCTION {_L}.deny() TO PUBLIC",
     ["grants on function eventsched_log.deny() to PUBLIC is not of the migrations"]),
    (f"GRANT SELECT (hash) ON {_L}.head TO PUBLIC",
     ["grants on eventsched_log.head.hash to PUBLIC is not of the migrations"]),
    (f"ALTER FUNCTION {_L}.renew(integer, integer, uuid) SECURITY INVOKER",
     ["function eventsched_log.renew(integer,integer,uuid) was changed"]),
    (f"CREATE FUNCTION {_L}.back_door() RETURNS integer LANGUAGE sql AS 'SELECT 1'",
     ["function eventsched_log.back_door() is not of the migrations",
      "grants on function eventsched_log.back_door() to PUBLIC is not of the migrations",
      "grants on function eventsched_log.back_door() to postgres is not of the migrations"]),
    (f"ALTER VIEW eventsched.events OWNER TO current_user",  # noqa: F541
     ["view eventsched.events was changed"]),
]  # fmt: skip


@pytest.mark.parametrize(("change", "said"), CHANGES)
def test_a_changed_schema_is_named(
    owned: psycopg.Connection[Any], change: str, said: list[str]
) -> None:
    owned.execute(change.encode())
    found = differences(owned)
    assert said[0] in found
    assert set(found) - set(said) <= {each for each in found if each.startswith("grants on")}


def test_the_command_says_so(database: str, capsys: Capture) -> None:
    """In words, in JSON and by the exit code, with the reader's rights."""
    log = PostgresEventLog(database, "used")
    log.close()
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(CHANGES[0][0].encode())
    assert main(["verify", "--database", database, "-o", "json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert (answer["ok"], answer["schema"]) == (False, CHANGES[0][1])
    assert main(["verify", "--database", database]) == 1
    assert f"schema: {CHANGES[0][1][0]}" in capsys.readouterr().out
