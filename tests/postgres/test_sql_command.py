"""``eventsched sql`` and ``eventsched db``: what comes out, who may do what, what is refused."""

import csv
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
import yaml

from eventsched.cli.main import main
from eventsched.eventlog.embedded.embedded_server import EmbeddedPostgres
from eventsched.eventlog.schema import migrations
from tests.databases import Server, migrate
from tests.postgres.histories import ODD, TIGHT, odd, simulated

NEWEST = migrations.newest()
EVERY_TYPE = """
SELECT timestamptz '1970-01-01 00:00:01.5+00' AS at, 1.50 AS cents, 18446744073709551615 AS draw,
       NULL AS nothing, '\\x01ff'::bytea AS hash, '{"b": 1,  "a": [2.0]}'::json AS record,
       ARRAY['x', NULL] AS names, true AS yes, 'a,"b"' AS text,
       '00000000-0000-4000-8000-000000000001'::uuid AS uid
"""


@pytest.fixture(scope="module")
def address(one_server: Server) -> Iterator[str]:
    """The URL of a database with a history, for its superuser."""
    with one_server.fresh(migrate) as url:
        odd(url)
        yield url


def printed(capsys: pytest.CaptureFixture[str], address: str, query: str, *options: str) -> str:
    """What a query prints."""
    assert main(["sql", "--database", address, "-c", query, *options]) == 0
    return capsys.readouterr().out


def test_names_are_those_of_the_views(capsys: pytest.CaptureFixture[str], address: str) -> None:
    out = printed(capsys, address, "SELECT pod, node FROM decisions ORDER BY seq LIMIT 2")
    assert out == "pod   node\na     n5\nb     n5\n"


RUNBOOKS = (Path(__file__).parents[2] / "docs" / "runbooks.md").read_text()


@pytest.mark.parametrize("query", re.findall(r'`eventsched sql -c "([^"]+)"', RUNBOOKS))
def test_queries_of_the_runbooks_run(
    capsys: pytest.CaptureFixture[str], address: str, query: str
) -> None:
    """None names a view or a column that is not there."""
    assert printed(capsys, address, " ".join(query.split()))


def test_as_csv(capsys: pytest.CaptureFixture[str], address: str) -> None:
    out = printed(capsys, address, EVERY_TYPE, "-o", "csv")
    names, row = csv.reader(io.StringIO(out))
    assert dict(zip(names, row, strict=True)) == {
        "at": "1970-01-01 00:00:01.5+00", "cents": "1.50", "draw": "18446744073709551615",
        "nothing": "", "hash": "\\x01ff", "record": '{"b": 1,  "a": [2.0]}',
        "names": "{x,NULL}", "yes": "t", "text": 'a,"b"',
        "uid": "00000000-0000-4000-8000-000000000001",
    }  # fmt: skip


def test_as_json(capsys: pytest.CaptureFixture[str], address: str) -> None:
    out = printed(capsys, address, EVERY_TYPE, "-o", "json")
    assert json.loads(out) == [
        {
            "at": "1970-01-01T00:00:01.500000Z", "cents": 1.5, "draw": 18446744073709551615,
            "nothing": None, "hash": "01ff", "record": {"b": 1, "a": [2.0]},
            "names": ["x", None], "yes": True, "text": 'a,"b"',
            "uid": "00000000-0000-4000-8000-000000000001",
        }
    ]  # fmt: skip
    assert '"record":{"b": 1,  "a": [2.0]}' in out  # as it is stored
    assert '"cents":1.50' in out
    as_yaml = printed(capsys, address, f"{EVERY_TYPE} UNION ALL {EVERY_TYPE}", "-o", "yaml")
    assert yaml.safe_load(as_yaml) == json.loads(out) * 2
    several = printed(capsys, address, "SELECT seq FROM events ORDER BY seq", "-o", "json")
    assert [row["seq"] for row in json.loads(several)] == list(range(several.count("seq")))


@pytest.mark.parametrize(
    ("output", "expected"),
    [("table", "a   b\n"), ("csv", "a,b\n"), ("json", "[]\n"), ("yaml", "[]\n")],
)
def test_no_rows(
    capsys: pytest.CaptureFixture[str], address: str, output: str, expected: str
) -> None:
    query = "SELECT 1 AS a, 2 AS b WHERE false"
    assert printed(capsys, address, query, "-o", output) == expected


def test_percent_signs_mean_what_they_mean_in_sql(
    capsys: pytest.CaptureFixture[str], address: str
) -> None:
    out = printed(capsys, address, "SELECT 7 % 4 AS x, 'a%s' LIKE '%\\%s' AS y", "-o", "csv")
    assert out == "x,y\n3,t\n"


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("SELEC 1", ("character 1 (at 'SELEC 1')", "syntax error")),
        ("SELECT nod FROM decisions", ("character 8 (at 'nod FROM decisions')", "nod", "node")),
        ("SELECT * FROM nowhere", ("character 15", "nowhere", "docs/sql.md")),
        ("SELECT 1/0", ("division by zero",)),
        ("SELECT 1; SELECT 2", ("more than one statement",)),
        ("", ("returns no rows",)),
        ("SET ROLE none", ("returns no rows",)),
        ("CREATE TABLE eventsched.x ()", ("the log is read-only",)),
        ("DELETE FROM eventsched_log.batch", ("the log is read-only",)),
        ("UPDATE eventsched_log.head SET epoch = 7", ("the log is read-only",)),
        ("TRUNCATE eventsched_log.detail", ("the log is read-only",)),
        (
            "SELECT eventsched_log.renew(1, 1, gen_random_uuid())",
            ("renew", "the log is read-only"),
        ),
        (
            "INSERT INTO eventsched_log.stream (name) VALUES ('x') RETURNING id",
            ("the log is read-only",),
        ),
        ("DELETE FROM decisions", ("decisions", "the log is read-only")),
    ],
)
def test_what_the_server_refuses_is_said_in_one_line(
    capsys: pytest.CaptureFixture[str], address: str, query: str, words: tuple[str, ...]
) -> None:
    assert main(["sql", "--database", address, "-c", query]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.count("\n") == 1
    assert all(word in told.err for word in words), told.err


def test_two_columns_of_one_name_are_no_object(
    capsys: pytest.CaptureFixture[str], address: str
) -> None:
    assert main(["sql", "--database", address, "-c", "SELECT 1 a, 2 a", "-o", "json"]) == 2
    assert "give them names with AS" in capsys.readouterr().err


def test_a_superuser_reads_with_the_auditors_role_too(
    capsys: pytest.CaptureFixture[str], address: str
) -> None:
    out = printed(capsys, address, "SELECT current_user, current_setting('transaction_read_only')")
    assert out.splitlines()[1].split() == ["eventsched_auditor", "on"]


def test_what_each_role_may_do(address: str) -> None:
    """The reader reads; the writer appends by function and changes no table; other roles can do
    neither."""
    tried = {
        "SELECT count(*) FROM eventsched.events": {"eventsched_reader", "eventsched_writer"},
        "SELECT * FROM eventsched.scores('odd', 17)": {"eventsched_reader", "eventsched_writer"},
        "SELECT * FROM eventsched_log.acquire('x', gen_random_uuid(), 'a', 'b')": {
            "eventsched_writer"
        },
        "DELETE FROM eventsched_log.batch": set(),
        "UPDATE eventsched_log.head SET next = 0": set(),
        "INSERT INTO eventsched_log.pod VALUES (gen_random_uuid(), 1, 1, 'a', 'b')": set(),
        "ALTER TABLE eventsched_log.batch DISABLE TRIGGER ALL": set(),
        "DROP VIEW eventsched.events": set(),
    }
    with psycopg.connect(address) as connection:
        connection.execute("CREATE ROLE test_stranger")
        for statement, allowed in tried.items():
            found = set()
            for role in ("eventsched_reader", "eventsched_writer", "test_stranger"):
                try:
                    with connection.transaction(force_rollback=True):
                        connection.execute(f"SET LOCAL ROLE {role}")
                        connection.execute(statement)
                        found.add(role)
                except psycopg.errors.InsufficientPrivilege:
                    pass
            assert found == allowed, statement
        connection.rollback()


def test_an_unreachable_database(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sql", "--database", "postgresql://127.0.0.1:1/x", "-c", "SELECT 1"]) == 3
    assert main(["db", "upgrade", "--database", "postgresql://127.0.0.1:1/x"]) == 3
    told = capsys.readouterr().err.splitlines()
    assert len(told) == 2
    assert all(
        "postgresql://127.0.0.1:1/x" in line and "start the database" in line for line in told
    )


# --- psql ---------------------------------------------------------------------------------


def eventsched(
    *arguments: str, stdin: str = "", **environment: str
) -> "subprocess.CompletedProcess[str]":
    """The program as its users run it."""
    return subprocess.run(
        [sys.executable, "-m", "eventsched", *arguments],
        input=stdin, capture_output=True, text=True, check=False, timeout=120,
        env={**os.environ, **environment},
    )  # fmt: skip


def test_without_a_query_psql_opens(address: str) -> None:
    script = (
        "\\pset format unaligned\nSELECT pod FROM decisions ORDER BY seq LIMIT 1;\nSHOW role;\n"
    )
    done = eventsched("sql", "--database", address, stdin=script)
    assert done.returncode == 0, done.stderr
    assert "pod\na\n(1 row)" in done.stdout
    assert "eventsched_auditor" in done.stdout
    broken = eventsched("sql", "--database", address, stdin="\\set ON_ERROR_STOP on\nSELEC;\n")
    assert broken.returncode == 3  # psql's own


def test_psql_that_is_nowhere(
    capsys: pytest.CaptureFixture[str],
    address: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("eventsched.cli.sql.programs.wheel", lambda: tmp_path)
    assert main(["sql", "--database", address]) == 3
    assert "pass a query with -c" in capsys.readouterr().err


def test_the_password_is_not_on_psqls_command_line(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = []

    def run(command: list[str], *, env: dict[str, str], check: bool) -> object:
        ran.append((command, env))
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr("eventsched.cli.sql.subprocess.run", run)
    monkeypatch.setattr("eventsched.cli.sql.shutil.which", lambda name: sys.executable)
    with_password = address.replace("postgresql://postgres@", "postgresql://postgres:s%20cret@")
    assert with_password != address
    assert main(["sql", "--database", with_password]) == 0
    [(command, environment)] = ran
    assert not any("cret" in word for word in command)
    assert environment["PGPASSWORD"] == "s cret"


# --- one stream of several ----------------------------------------------------------------


@pytest.fixture(scope="module")
def several(one_server: Server) -> Iterator[str]:
    """The URL of a database with two streams, for its superuser."""
    with one_server.fresh(migrate) as url:
        odd(url)
        simulated(url)
        yield url


VIEWS = """
SELECT table_name, (SELECT count(*) FROM information_schema.columns c
                    WHERE c.table_schema = v.table_schema AND c.table_name = v.table_name
                      AND column_name = 'stream')
FROM information_schema.views v WHERE table_schema = 'eventsched' ORDER BY 1
"""


def test_every_view_shows_one_stream_if_it_is_named(
    capsys: pytest.CaptureFixture[str], several: str
) -> None:
    views = list(csv.reader(io.StringIO(printed(capsys, several, VIEWS, "-o", "csv"))))[1:]
    assert len(views) >= 16
    both = set()
    for view, columns in views:
        assert columns == "1", view
        count = f"SELECT stream, count(*) FROM {view} GROUP BY 1 ORDER BY 1"
        everything = printed(capsys, several, count, "-o", "csv").splitlines()[1:]
        for stream in (ODD, TIGHT):
            shown = printed(capsys, several, count, "-o", "csv", "--stream", stream)
            assert shown.splitlines()[1:] == [
                line for line in everything if line.startswith(f"{stream},")
            ], view
        if len(everything) == 2:
            both.add(view)
    assert {"streams", "events", "decisions", "refusals", "bindings"} <= both


def test_psql_shows_one_stream_if_it_is_named(several: str) -> None:
    script = (
        "\\pset format unaligned\nSELECT stream FROM streams;\n\\c\nSELECT stream FROM streams;\n"
    )
    done = eventsched("sql", "--database", several, "--stream", ODD, stdin=script)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("stream\nodd\n(1 row)") == 2  # also after it has connected again


def test_a_stream_is_named_to_the_server_whatever_its_name(
    capsys: pytest.CaptureFixture[str], one_server: Server
) -> None:
    with one_server.fresh(migrate) as url:
        for name in ("a", r"a b\c"):
            with psycopg.connect(url) as connection:
                arguments = (name, "00000000-0000-4000-8000-000000000001")
                connection.execute("SELECT eventsched_log.acquire(%s, %s, 'h', '1')", arguments)
        out = printed(capsys, url, "SELECT stream FROM streams", "--stream", r"a b\c", "-o", "csv")
        assert out == "stream\na b\\c\n"


def test_a_stream_that_is_not_there(capsys: pytest.CaptureFixture[str], several: str) -> None:
    query = ("-c", "SELECT 1")
    assert main(["sql", "--database", several, "--stream", "none", *query]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert "--stream: there is no stream none; there are: odd, tight" in told.err


# --- db -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("role", "user"),
    [("reader", "eventsched_reader"), ("auditor", "eventsched_auditor"), ("writer", None)],
)
def test_the_address_of_a_database(
    capsys: pytest.CaptureFixture[str], address: str, role: str, user: str | None
) -> None:
    assert main(["db", "url", "--role", role, "--database", address]) == 0
    url = capsys.readouterr().out.strip()
    with psycopg.connect(url) as connection:
        [found] = connection.execute("SELECT current_user::text").fetchall()
    assert found == (user or "postgres",)


def test_upgrade(capsys: pytest.CaptureFixture[str], one_server: Server) -> None:
    with one_server.fresh(lambda url: None) as url:
        for expected in (f"schema empty → {NEWEST}", f"schema is at {NEWEST} already"):
            assert main(["db", "upgrade", "--database", url]) == 0
            assert expected in capsys.readouterr().out
    with one_server.fresh(lambda url: None) as url:
        assert main(["db", "upgrade", "--one-user", "--database", url]) == 0
        odd(url)
        assert main(["explain", "huge", "--database", url]) == 0


def test_an_embedded_database(capsys: pytest.CaptureFixture[str], place: Path) -> None:
    """Left running by ``url``, stopped by ``stop``."""
    where = ("--data-dir", str(place / "data"))
    generated = ("--generate", "nodes=2,pods=2,shape=plain,seed=1")
    assert main(["simulate", *generated, *where]) == 0
    assert main(["db", "upgrade", *where]) == 0
    assert f"schema is at {NEWEST} already" in capsys.readouterr().out
    for role in ("reader", "writer"):
        assert main(["db", "url", "--role", role, *where]) == 0
        told = capsys.readouterr()
        assert f"eventsched db stop --data-dir {place / 'data'}" in told.err
        url = told.out.strip()
        with psycopg.connect(url) as connection:
            [(user,)] = connection.execute("SELECT current_user::text").fetchall()
            assert user == f"eventsched_{role}"
    assert main(["sql", "-c", "SELECT count(*) FROM decisions", *where]) == 0
    assert capsys.readouterr().out.split() == ["count", "2"]
    with EmbeddedPostgres(place / "data").open(create=False):
        assert main(["db", "stop", *where]) == 3
        assert "in use" in capsys.readouterr().err
    assert main(["db", "stop", *where]) == 0
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(url)


def test_upgrade_makes_an_embedded_database(
    capsys: pytest.CaptureFixture[str], place: Path
) -> None:
    """In a folder that is not there yet; a second time there is nothing to do."""
    where = ("--data-dir", str(place / "new"))
    newest = migrations.newest()
    assert main(["db", "upgrade", *where]) == 0
    assert capsys.readouterr().out.endswith(f": schema empty → {newest}\n")
    assert main(["db", "upgrade", *where]) == 0
    assert capsys.readouterr().out.endswith(f": schema is at {newest} already\n")


@pytest.mark.parametrize(
    "arguments",
    [
        ("db", "stop"),
        ("db", "stop", "--database", "postgresql://x/y"),
        ("db", "stop", "--data-dir", "/nowhere/at/all"),
        ("db", "url"),
        ("db", "url", "--data-dir", "/nowhere/at/all"),
        ("db", "upgrade", "--one-user", "--data-dir", "/nowhere/at/all"),
        ("db", "url", "--database", "mysql://x/y"),
        ("sql", "-c", "SELECT 1"),
    ],
)
def test_wrong_places_are_refused_in_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    monkeypatch.delenv("EVENTSCHED_DATABASE", raising=False)
    monkeypatch.delenv("EVENTSCHED_DATA_DIR", raising=False)
    assert main(arguments) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.count("\n") == 1


@pytest.mark.parametrize(
    "query",
    [
        "DO $$ BEGIN SET default_transaction_read_only = off; SET ROLE none; COMMIT; "
        "PERFORM eventsched_log.acquire('evil', gen_random_uuid(), 'x', 'y'); END $$",
        "COMMIT",
        "DO $$ BEGIN SET TRANSACTION READ WRITE; END $$",
    ],
)
def test_no_statement_gets_out_of_reading(
    capsys: pytest.CaptureFixture[str], address: str, query: str
) -> None:
    """Not even with a superuser's address."""
    before = printed(capsys, address, "select * from streams")
    assert main(["sql", "--database", address, "-c", query]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
    assert printed(capsys, address, "select * from streams") == before
