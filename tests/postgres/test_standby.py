"""A synchronous standby that does not confirm: unconfirmed records must have no effects."""

import time
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest

from eventsched.domain.errors import UnavailableError
from eventsched.domain.records import PodDeleted
from eventsched.domain.records.log_entry import LogEntry
from eventsched.eventlog.embedded.embedded_server import EmbeddedPostgres
from eventsched.eventlog.port import Batch, StoredRecord
from eventsched.eventlog.postgres.writer import PostgresEventLog
from tests.databases import migrate


def only(position: int) -> Batch:
    """A batch of one record."""
    return Batch([StoredRecord.of(LogEntry(position, 0, position, PodDeleted(uid="p")))], {})


def held(log: PostgresEventLog, admin: psycopg.Connection[Any]) -> tuple[Any, ...]:
    """Begins batches until one waits for the standby: when the server has read its configuration
    again is its own affair. Gives the pid of the backend that waits."""
    for position in range(1, 100):
        log.begin(only(position))
        end = time.monotonic() + 2
        while time.monotonic() < end:
            waiting = admin.execute(
                "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
            ).fetchone()
            if waiting is not None:
                return waiting
        log.finish()
    raise AssertionError("no batch ever waited for the standby")


@pytest.mark.row(5)
def test_a_batch_that_is_there_but_not_confirmed(place: Path) -> None:
    """Its backend is ended while it waits for the standby: the batch can be seen, but the second
    try has to wait as well, and ends when patience does."""
    with EmbeddedPostgres(place / "data").open(writer=True) as postgres:
        migrate(postgres.superuser_url)
        with closing(PostgresEventLog(postgres.superuser_url, "s", "held", patience=1.0)) as log:
            log.begin(only(0))
            log.finish()
            with psycopg.connect(postgres.superuser_url, autocommit=True) as admin:
                admin.execute("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
                admin.execute("SELECT pg_reload_conf()")
                waiting = held(log, admin)
                admin.execute("SELECT pg_terminate_backend(%s)", waiting)
                with pytest.raises(UnavailableError):
                    log.finish()
                admin.execute("ALTER SYSTEM RESET synchronous_standby_names")
                with suppress(psycopg.Error):
                    admin.execute("SELECT pg_reload_conf()")
