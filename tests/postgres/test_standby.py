"""A synchronous standby that does not confirm: unconfirmed records must have no effects."""

from contextlib import closing, suppress
from functools import partial
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
from tests.waiting import until


def only(position: int) -> Batch:
    """A batch of one record."""
    return Batch([StoredRecord.of(LogEntry(position, 0, position, PodDeleted(uid="p")))], {})


def held(log: PostgresEventLog, admin: psycopg.Connection[Any]) -> tuple[Any, ...]:
    """Begins batches until one waits for the standby: when the server has read its configuration
    again is its own affair. Gives the pid of the backend that waits."""

    def seen(position: int) -> list[tuple[Any, ...]]:
        """The backend that waits; 0 if the batch can be seen, which it cannot while one waits."""
        ended = admin.execute("SELECT 0 FROM eventsched_log.head WHERE next > %s", [position])
        found = ended.fetchall()
        waiting = admin.execute("SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep'")
        return waiting.fetchall() or found

    for position in range(1, 1_000):
        log.begin(only(position))
        [found] = until(partial(seen, position), "the batch waits or is there")
        if found != (0,):
            return found
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
