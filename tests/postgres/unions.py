"""Three servers with a log each, and a database on one of them for their union."""

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import pytest

from eventsched.cli.main import main
from eventsched.eventlog.embedded.embedded_server import EmbeddedPostgres
from eventsched.eventlog.postgres.writer import PostgresEventLog
from eventsched.eventlog.schema import migrations
from tests.postgres import histories
from tests.postgres.tampered_logs import simulate
from tests.postgres.test_preemptions import UNTIL, simulation

NAMES = ("west", "east", "north")
"""The servers; each has a stream of this name."""
READER, ANALYST = "union_reader", "analyst"
"""The login at the servers, and one of the union's database that owns nothing."""


class Union(NamedTuple):
    """``servers`` by name, and the URL of the union's database for its owner and for a reader."""

    servers: dict[str, EmbeddedPostgres]
    url: str
    reader: str

    def member(self, name: str, user: str = READER) -> str:
        """The value of --member for a server."""
        return f"{name}={self.servers[name].url(user)}"

    def make(self, *more: str, names: tuple[str, ...] = NAMES) -> int:
        """Runs the command."""
        members = [word for name in names for word in ("--member", self.member(name))]
        return main(["db", "union", "--database", self.url, *members, *more])


def write_history(url: str, name: str) -> None:
    """What a server has: pods that are tried again, or that displace others."""
    if name == "north":
        with closing(PostgresEventLog(url, name, holder="test")) as log:
            simulation(log).run(UNTIL)
        return
    seed = NAMES.index(name) + 1
    simulate(url, f"nodes={7 + seed},pods=60,shape=tight,seed={seed}", "--stream", name)
    if name == "west":
        histories.odd(url)


def rows(url: str, query: str) -> list[tuple[Any, ...]]:
    """The rows of a query."""
    with psycopg.connect(url, options="-c search_path=eventsched") as connection:
        return connection.execute(query.encode()).fetchall()


@contextmanager
def three_servers(programs: Path, place: Path, *, with_union: bool = True) -> Iterator[Union]:
    """Running servers with a history each. ``west`` also has one in which nearly everything
    happens, and the database of the union and its reader, unless a test makes them."""
    servers: dict[str, EmbeddedPostgres] = {}
    with ExitStack() as stack:
        for name in NAMES:
            (place / name).mkdir(mode=0o755)
            server = EmbeddedPostgres(
                place / name / "data", binaries=programs, settings={"fsync": "off"}
            )
            servers[name] = stack.enter_context(server.open())
            migrations.upgrade(server.superuser_url)
            server.execute(
                f"CREATE ROLE {READER} LOGIN IN ROLE eventsched_auditor, eventsched_reader"
            )
            write_history(server.superuser_url, name)
        west = servers["west"]
        found = west.execute(
            "SELECT count(*) FROM pg_available_extensions WHERE name IN ('postgres_fdw', 'dblink')"
        )
        if found != [(2,)]:
            pytest.skip(f"Postgres in {programs} has not the extensions postgres_fdw and dblink")
        if with_union:
            west.execute(f"CREATE ROLE {ANALYST} LOGIN")
            west.create_database("several")
        owner = west.superuser_url.partition("@")[0].rpartition("/")[2]
        yield Union(servers, west.url(owner, "several"), west.url(ANALYST, "several"))


@contextmanager
def reference(union: Union) -> Iterator[str]:
    """The URL of one database with the logs of all servers."""
    north = union.servers["north"]
    north.create_database("all_of_them")
    owner = north.superuser_url.partition("@")[0].rpartition("/")[2]
    url = north.url(owner, "all_of_them")
    migrations.upgrade(url)
    for name in NAMES:
        write_history(url, name)
    yield url
