"""Bringing the embedded database up: each part of it can be the last one that was done."""

from contextlib import closing
from pathlib import Path

import pytest

from eventsched.eventlog import database
from eventsched.eventlog.embedded.embedded_server import EmbeddedPostgres
from eventsched.eventlog.postgres.reader import Reader
from eventsched.eventlog.postgres.writer import PostgresEventLog
from eventsched.eventlog.schema import migrations


def nothing(address: str) -> None:
    """Killed before the schema was made."""


def schema_only(address: str) -> None:
    """Killed between the schema and the right to log in: the roles are new and have none."""
    migrations.upgrade(address)


@pytest.mark.parametrize("done", [nothing, schema_only])
def test_it_goes_on_where_it_was_cut_off(place: Path, done: object) -> None:
    with EmbeddedPostgres(place / "data").open(writer=True) as postgres:
        assert callable(done)
        done(postgres.superuser_url)
    with (
        database.writer_address(None, place / "data") as address,
        closing(PostgresEventLog(address, "s")) as log,
    ):
        assert (log.head, log.epoch) == (0, 1)
    with database.reader_address(None, place / "data") as address:
        assert Reader(address, "s").head.next == 0
