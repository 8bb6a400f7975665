"""A replica of this version meets a log or a schema of a later one while it runs."""

import asyncio

import psycopg
import pytest
import structlog

from eventsched.domain import records
from eventsched.domain.behaviours import CURRENT
from eventsched.domain.records.log_entry import LogEntry
from eventsched.eventlog.log_errors import DatabaseRefusedError
from eventsched.eventlog.port import Batch, StoredRecord
from eventsched.eventlog.postgres.writer import PostgresEventLog
from eventsched.runtime.live import replica
from tests.live.stage import until
from tests.postgres.replicas import STREAM, Scene, play

NEWER = max(CURRENT) + 90


def write(address: str, position: int, record: records.Record) -> None:
    """A batch of one record, by a leader of a later version."""
    log = PostgresEventLog(address, STREAM)
    assert log.head == position
    log.begin(Batch([StoredRecord.of(LogEntry(position, position, position, record))], {}))
    log.finish()
    log.close()


def test_a_standby_does_not_lead_on_a_newer_log(database: str) -> None:
    """It says so once, is not ready, and goes on until it is ended: a restart would not help."""

    async def story(scene: Scene, running: "asyncio.Task[None]") -> None:
        started = records.StreamStarted(format=1, engine="1", seed="s", flags=CURRENT)
        write(database, 0, started)
        await until(lambda: scene.booth.stood == 1)
        flags = (*CURRENT, NEWER)
        write(database, 1, records.TermBegan(epoch=2, token="", engine="2", flags=flags))
        await until(lambda: scene.replica.refusal)
        scene.booth.wins.set()
        assert scene.replica.refusal == (
            "position 1 of the log: was written by a newer version: this one does not know its "
            f"flags {NEWER}; use that version or a later one"
        )
        assert not running.done()
        assert not scene.leads

    with structlog.testing.capture_logs() as lines:
        scene = play(database, story, wins=False)
    assert scene.replica.terms == 0
    assert [line["event"] for line in lines if line["log_level"] == "error"] == [
        "the log is of a newer version; this replica does not lead"
    ]


def test_a_leader_ends_when_the_schema_no_longer_serves_it(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a forced upgrade."""
    monkeypatch.setattr(replica, "_SCHEMA_EVERY", 0.01)

    async def story(scene: Scene, running: "asyncio.Task[None]") -> None:
        await until(lambda: scene.leads)
        with psycopg.connect(database) as admin:
            admin.execute(
                "UPDATE eventsched_log.migration SET version_num = '9999', serves = '9999'"
            )
        await asyncio.wait([running], timeout=60)
        refused = running.exception()
        assert isinstance(refused, DatabaseRefusedError)
        assert "does not serve it; install the version of eventsched that made it" in str(refused)
        assert scene.booth.released

    play(database, story)
