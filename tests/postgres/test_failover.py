"""Failover to a synchronous standby: what was confirmed is there, and the log goes on."""

import os
import signal
from contextlib import closing
from pathlib import Path

import psycopg

from eventsched.cli.main import main
from eventsched.domain import records
from eventsched.domain.records import StreamStarted
from eventsched.domain.records.log_entry import LogEntry
from eventsched.eventlog.embedded.embedded_server import EmbeddedPostgres
from eventsched.eventlog.port import Batch, StoredRecord
from eventsched.eventlog.postgres.writer import PostgresEventLog
from tests.builders import make_pod
from tests.databases import migrate
from tests.postgres.standbys import standby_of
from tests.waiting import until

_SYNCHRONOUS = "SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'"


def batch(position: int) -> Batch:
    """A batch of one record: the stream's first one, or a new pod."""
    record: records.Record = (
        records.PodAdded(pod=make_pod(f"pod-{position}"))
        if position
        else StreamStarted(format=1, engine="t", seed="s")
    )
    return Batch([StoredRecord.of(LogEntry(position, 0, position, record))], {})


def test_a_synchronous_standby_has_all_that_was_confirmed(place: Path, programs: Path) -> None:
    """The primary is killed while a batch is under way. The writer goes on, on the standby, with
    that batch: it is there once, whether the standby had it or not."""
    (place / "primary").mkdir()
    (place / "primary").chmod(0o755)
    with EmbeddedPostgres(place / "primary" / "data", binaries=programs).open() as server:
        migrate(server.superuser_url)
        with standby_of(server.superuser_url, place, programs) as standby:
            with psycopg.connect(server.superuser_url, autocommit=True) as admin:
                admin.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
                admin.execute("SELECT pg_reload_conf()")
                until(lambda: admin.execute(_SYNCHRONOUS).fetchone() is not None, "it is attached")
            address = f"{standby.both}&target_session_attrs=read-write"
            with closing(PostgresEventLog(address, "s", "first", patience=30.0)) as log:
                for position in range(60):
                    log.begin(batch(position))
                    if position == 40:
                        [pid] = (place / "primary" / "data").rglob("postmaster.pid")
                        os.kill(int(pid.read_text().split()[0]), signal.SIGKILL)
                        standby.do("promote", "--wait")
                    log.finish()
                assert log.epoch == 1
                assert [each.position for each in log.read()] == list(range(60))
            with psycopg.connect(standby.url) as promoted:
                row = promoted.execute("SELECT next FROM eventsched_log.head").fetchone()
            assert row == (60,)
            assert main(["verify", "--database", standby.url]) == 0
