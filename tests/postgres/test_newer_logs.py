"""A replica of this version meets a log or a schema of a later one while it runs."""

import asyncio
from functools import partial

import msgspec
import psycopg
import pytest
import structlog

from eventsched.domain import behaviours, records
from eventsched.domain.behaviours import CURRENT, Behaviour
from eventsched.domain.records.log_entry import LogEntry
from eventsched.eventlog.log_errors import DatabaseRefusedError
from eventsched.eventlog.port import Batch, StoredRecord
from eventsched.eventlog.postgres.reader import Reader
from eventsched.eventlog.postgres.writer import PostgresEventLog
from eventsched.eventlog.schema import migration_files
from eventsched.plugins.node_resources_fit import NodeResourcesFit
from eventsched.runtime.live import replica
from tests.builders import engine_of
from tests.faults.cluster import OPENING
from tests.live.stage import until
from tests.postgres.replicas import STREAM, Scene, play

NEWER = max(CURRENT) + 90
NEWEST = migration_files.revisions()[-1]


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


def test_a_term_begins_only_with_what_the_schema_then_allows(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failover may lose an upgrade after the replica has looked at the schema. Replicas of the
    earlier version could not read what the term would write."""
    scene, deposed, flags = term_after(database, monkeypatch, "9998", NEWEST)
    assert scene.replica.terms == 2
    assert deposed == [f"the schema has become {NEWEST}"]
    assert flags == [tuple(each for each in CURRENT if each != Behaviour.FREES_COLUMNS)]


def test_a_term_begins_at_once_on_a_schema_that_allows_more(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A standby has followed the log since before an upgrade, and takes the behaviour up later."""
    scene, deposed, flags = term_after(database, monkeypatch, NEWEST, "9998")
    assert scene.replica.terms == 1
    assert deposed == []
    assert flags == [tuple(each for each in CURRENT if each != Behaviour.FREES_COLUMNS)]


def term_after(
    database: str, monkeypatch: pytest.MonkeyPatch, found: str, present: str
) -> tuple[Scene, list[str], list[tuple[int, ...]]]:
    """Runs a replica that finds a schema and leads on another one. Returns the scene, why it was
    deposed, and the flags of the first record."""
    monkeypatch.setitem(behaviours.SWITCHED_ON_BY, Behaviour.FREES_COLUMNS, "9998")

    def set_schema(revision: str) -> None:
        with psycopg.connect(database) as admin:
            admin.execute(
                "UPDATE eventsched_log.migration SET version_num = %s, serves = %s",
                (revision, NEWEST),
            )

    async def story(scene: Scene, running: "asyncio.Task[None]") -> None:
        await until(lambda: scene.booth.stood == 1)
        is_found = Behaviour.FREES_COLUMNS in scene.replica.plan.opening.flags
        assert is_found == (found == "9998")
        set_schema(present)
        scene.booth.wins.set()
        await until(lambda: scene.settled)

    set_schema(found)
    with structlog.testing.capture_logs() as lines:
        scene = play(
            database,
            story,
            wins=False,
            opening=msgspec.structs.replace(OPENING, flags=CURRENT),
            engine_as_of=lambda _: partial(engine_of, NodeResourcesFit()),
        )
    deposed = [line["reason"] for line in lines if line["event"] == "deposed"]
    began = [each.record for each in Reader(database, STREAM).read()]
    return (
        scene,
        deposed,
        [record.flags for record in began if isinstance(record, records.StreamStarted)],
    )
