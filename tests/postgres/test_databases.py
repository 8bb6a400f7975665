"""The databases that tests get."""

import os
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

from tests.databases import CONTAINERS, GIVEN, ROOT, Server, open_place
from tests.waiting import next_line, until

RUN = """
import sys
from tests import databases
with databases.serving(databases.servers()[-1]) as server:
    print(databases._RUN, flush=True)
    sys.stdin.read()
"""


def test_every_server_gives_fresh_databases(each_server: Server) -> None:
    prepared = []

    def prepare(url: str) -> None:
        prepared.append(url)
        with psycopg.connect(url) as connection:
            connection.execute("create table here (x int)")

    for _ in range(2):
        with each_server.fresh(prepare) as url, psycopg.connect(url) as connection:
            assert connection.execute("insert into here values (1) returning x").fetchall() == [
                (1,)
            ]
            assert connection.execute("select count(*) from here").fetchone() == (1,)
    assert len(prepared) == 1
    with psycopg.connect(each_server.url("postgres")) as connection:
        left = connection.execute("select datname from pg_database").fetchall()
    assert (urlsplit(url).path[1:],) not in left


def test_a_database_has_the_schema(database: str) -> None:
    with psycopg.connect(database) as connection:
        found = connection.execute(
            "select count(*) from pg_namespace where nspname ~ '^eventsched'"
        )
        assert found.fetchone() != (0,)


@pytest.mark.skipif(
    bool(os.environ.get(GIVEN) or os.environ.get(CONTAINERS)), reason="of embedded servers"
)
def test_nothing_is_left_of_a_run_that_was_killed() -> None:
    alone = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_XDIST")}
    with subprocess.Popen(
        [sys.executable, "-c", RUN],
        cwd=ROOT,
        env=alone,  # a run of its own
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as run:
        name = next_line(run).strip()
        (folder,) = open_place().glob(f"eventsched-tests-{name}-*")
        server = int((folder / "data/postgres/postmaster.pid").read_text().split()[0])
        run.kill()
    gone = (folder, Path(f"/proc/{server}"))
    until(lambda: not any(path.exists() for path in gone), "the folder and its server have gone")
