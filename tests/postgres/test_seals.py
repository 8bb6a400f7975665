"""Full partitions are sealed by a record of the log, and dropped whole when they are old."""

import asyncio
import zlib
from dataclasses import replace
from hashlib import sha256

import psycopg
import pytest

from eventsched import __version__
from eventsched.cli.main import main
from eventsched.domain.behaviours import CURRENT
from eventsched.domain.records import PartitionSealed, StreamStarted
from eventsched.eventlog.postgres.reader import Reader
from eventsched.plugins import IN_TREE
from eventsched.runtime.assembly import assemble_text
from eventsched.runtime.live.log_housekeeping import Retention
from tests.databases import make_partitions_small
from tests.live.stage import pods, until
from tests.postgres.replicas import STREAM, Scene, play

RECORDS = 32
"""Of a partition."""
KEEPS = Retention()
DROPS = Retention(records_age=0.001, needs_archive=False)


@pytest.fixture
def small(database: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A database with small partitions, and housekeeping all the time."""
    make_partitions_small(database, RECORDS, monkeypatch)
    monkeypatch.setattr("eventsched.runtime.live.log_housekeeping._AFTER", 0.0)
    monkeypatch.setattr("eventsched.runtime.live.log_housekeeping._EVERY", 0.01)
    return database


def rows(database: str, query: str) -> list[tuple]:  # type: ignore[type-arg]
    with psycopg.connect(database) as admin:
        return admin.execute(query.encode()).fetchall()


def begin(database: str) -> int:
    """The first position of a batch."""
    return int(rows(database, "SELECT min(first) FROM eventsched_log.batch")[0][0])


def seals(database: str) -> list[PartitionSealed]:
    """The seals in the log."""
    return [
        record
        for stored in Reader(database, STREAM).read()
        if isinstance(record := stored.record, PartitionSealed)
    ]


def fill(database: str, retention: Retention, *, drops: bool) -> None:
    """Runs a replica with 30 pods, until the log begins later (``drops``) or not."""

    async def story(scene: Scene, _: "asyncio.Task[None]") -> None:
        assembly = assemble_text("", [], STREAM, IN_TREE)
        opening = StreamStarted(
            format=1, engine=__version__, seed="s", inputs={"configuration": assembly.digest},
            flags=CURRENT, plugins=assembly.sources,
        )  # fmt: skip
        scene.replica.plan = replace(
            scene.replica.plan, make_engine=assembly.engine, opening=opening
        )
        scene.cluster.put(*pods(30))
        await until(lambda: scene.bound == 30 and scene.settled)
        if drops:
            await until(lambda: begin(database) > 0 and scene.settled)
        else:
            await until(lambda: scene.settled)

    play(database, story, retention=retention)


def test_a_full_partition_is_sealed_and_dropped(small: str) -> None:
    """The seal says what was in it, and that is what the chain says."""
    fill(small, DROPS, drops=True)
    first = begin(small)
    [dropped, *_] = rows(
        small, "SELECT first, next, seal, hash FROM eventsched_log.pruned ORDER BY 1"
    )
    by_partition = {seal.partition: seal for seal in seals(small)}
    assert by_partition
    for seal in by_partition.values():
        checkpoint = rows(
            small, f"SELECT body FROM eventsched_log.checkpoint WHERE seq = {seal.checkpoint}"
        )
        assert seal.checkpoint >= seal.next
        if checkpoint:
            assert sha256(checkpoint[0][0]).hexdigest() == seal.digest
            assert zlib.decompress(checkpoint[0][0]).startswith(b"{")
        assert seal.opening.engine
        assert seal.archived == {}
    assert dropped[0] == 0
    assert first == rows(small, "SELECT max(next) FROM eventsched_log.pruned")[0][0]
    assert rows(small, "SELECT min(seq) >= max(p.next) FROM eventsched_log.checkpoint, "
                       "eventsched_log.pruned p")[0][0]  # fmt: skip


@pytest.mark.parametrize("restarts", [0, 2])
def test_a_log_without_its_first_records_is_verified_and_replayed(
    small: str, capsys: pytest.CaptureFixture[str], restarts: int
) -> None:
    """From its first checkpoint on; before it, the hashes are checked."""
    fill(small, DROPS, drops=True)
    for _ in range(restarts):
        fill(small, DROPS, drops=True)
    assert main(["verify", "--database", small]) == 0
    said = capsys.readouterr().out
    assert f"the records before {begin(small)} were dropped, and the seal at position" in said
    assert main(["replay", "--verify", "--database", small]) == 0
    assert "every decision came out as it is written" in capsys.readouterr().out
    assert main(["replay", "--database", small]) == 0
