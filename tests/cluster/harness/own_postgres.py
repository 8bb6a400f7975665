"""A Postgres server of a test's own: stopped, killed, put back to an earlier state.

postgres.keep()
…
postgres.put_back(branches=True)    # what was committed since is lost
"""

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from eventsched.eventlog.embedded.embedded_server import EmbeddedPostgres
from eventsched.eventlog.embedded.postmaster import Postmaster
from eventsched.eventlog.schema import migrations
from tests.cluster.harness.client import wait_for
from tests.databases import open_place

_BRANCH = {"restore_command": "false"}
"""With it a server in recovery replays its own WAL to the end, then starts a new timeline."""


class OwnPostgres:
    """The server in a folder; ``url`` is that of its database for a user who may do everything."""

    def __init__(self, folder: Path, url: str) -> None:
        self.url = url
        self._folder, self._kept = folder, folder / "kept"

    def start(self, settings: Mapping[str, str] | None = None) -> None:
        """Starts it, and waits until it takes connections."""
        Postmaster(self._folder, settings=settings).start()

    def stop(self, how: str = "stopped") -> None:
        """Ends it: ``stopped`` as it should be, ``stopped at once``, or ``killed`` with -9."""
        server = Postmaster(self._folder)
        running = server.running()
        assert running is not None
        if how == "killed":
            os.kill(running.pid, signal.SIGKILL)
            wait_for(lambda: server.running() is None, "Postgres has gone")
        else:
            server.stop(at_once=how == "stopped at once")

    def keep(self) -> None:
        """Keeps a copy of its data. The server is stopped for that, and started again."""
        self.stop()
        _copy(self._folder / "postgres", self._kept)
        self.start()

    def put_back(self, *, branches: bool) -> None:
        """Starts it, that was stopped, with what was kept: as a restored backup does, on a new
        timeline (``branches``), or as a disk does that was put back, on the same one."""
        assert Postmaster(self._folder).running() is None
        shutil.rmtree(self._folder / "postgres")
        _copy(self._kept, self._folder / "postgres")
        if branches:
            (self._folder / "postgres" / "recovery.signal").touch()
        self.start(_BRANCH if branches else None)

    def execute(self, statement: str) -> list[tuple[Any, ...]]:
        """The rows of a statement, by a connection of its own."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []


@contextmanager
def folder() -> Iterator[Path]:
    """A folder that the account which runs Postgres can enter, for as long as the block runs."""
    made = Path(tempfile.mkdtemp(prefix="evs-", dir=open_place()))
    made.chmod(0o755)
    try:
        yield made
    finally:
        shutil.rmtree(made)


@contextmanager
def template() -> Iterator[Path]:
    """The folder of a server with the schema, that does not run: to be copied, which is faster
    than to make one."""
    with folder() as place:
        with EmbeddedPostgres(place / "server").open() as postgres:
            migrations.upgrade(postgres.superuser_url)
        yield place / "server"


@contextmanager
def own_postgres(template: Path) -> Iterator[OwnPostgres]:
    """A copy of it that runs, for as long as the block does."""
    with folder() as place:
        server = place / "server"
        _copy(template, server)
        with EmbeddedPostgres(server).open() as postgres:
            yield OwnPostgres(server, postgres.superuser_url)
        EmbeddedPostgres(server).stop_unused()


def _copy(source: Path, target: Path) -> None:
    # With owner and rights: for root another account runs Postgres.
    subprocess.run(["cp", "-a", source, target], check=True, timeout=60)
