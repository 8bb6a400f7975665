"""Stored states in the database: which are kept; what happens to those of earlier releases."""

import asyncio
import zlib
from contextlib import closing

import msgspec
import psycopg
import pytest
from structlog.testing import capture_logs

from eventsched.eventlog.chain import Head
from eventsched.eventlog.port import StoredSnapshot
from eventsched.eventlog.postgres.reader import Reader
from eventsched.eventlog.postgres.session import Session
from eventsched.eventlog.postgres.tail import Tail
from eventsched.eventlog.schema import migrations
from eventsched.runtime import snapshot_policy
from eventsched.runtime.assembly import assemble
from eventsched.runtime.simulation.simulation import SimulationSnapshot
from tests import releases
from tests.databases import Server
from tests.live.stage import pods, until
from tests.postgres.replicas import Scene, play
from tests.postgres.test_session import sealed


def positions(database: str) -> list[int]:
    """The positions of the snapshots."""
    with psycopg.connect(database) as connection:
        rows = connection.execute("SELECT seq FROM eventsched_log.snapshot ORDER BY 1").fetchall()
    return [seq for (seq,) in rows]


def test_the_newest_three_are_kept(database: str) -> None:
    """And the first one, as there is no other one near it. A reader finds one after the other;
    those that the chain does not know are passed over."""
    with closing(Session(database)) as session, closing(Tail(database, "s")) as tail:
        term, head, *_ = session.acquire("s", "me")
        for number in range(5):
            batch = sealed(term, head)
            session.append(batch)
            head = batch.head
            made = StoredSnapshot(
                head.next, head.hash if number != 3 else bytes(32), "d", "v", b"b"
            )
            session.store_snapshot(term, made)
        assert positions(database) == [1, 3, 4, 5]
        assert head == Head(5, head.hash)
        newest = tail.snapshot()
        assert newest is not None
        assert newest.position == 5
        older = tail.snapshot(newest.position)
        assert older is not None
        assert older.position == 3
        oldest = tail.snapshot(older.position)
        assert oldest is not None
        assert oldest.position == 1
        assert tail.snapshot(oldest.position) is None
        session.store_snapshot(term, StoredSnapshot(4, head.hash, "d", "v", b"b"))
        assert positions(database) == [1, 3, 4], "history was lost: the later ones are not of it"


def test_older_ones_are_kept_for_each_12_500_positions(database: str) -> None:
    """As long as their records, but large ones less often: at most 100 bytes for a position."""
    with closing(Session(database)) as session:
        term, head, *_ = session.acquire("s", "me")
        for position in range(5_000, 130_000, 5_000):
            session.store_snapshot(term, StoredSnapshot(position, head.hash, "d", "v", b"b"))
        newest = [115_000, 120_000, 125_000]
        assert positions(database) == [*range(5_000, 115_000, 15_000), *newest]
        large = bytes(4_000_000)
        for position in range(130_000, 230_000, 15_000):
            session.store_snapshot(term, StoredSnapshot(position, head.hash, "d", "v", large))
        assert positions(database) == [
            *range(5_000, 130_000, 15_000), 175_000, 190_000, 205_000, 220_000
        ]  # fmt: skip


def test_a_snapshot_of_release_0_1_is_of_use(one_server: Server) -> None:
    """An upgrade does not fold the log from its first record."""
    with one_server.fresh(releases.restore) as url:
        migrations.upgrade(url)
        reader = Reader(url, releases.STREAM)
        found = reader.snapshot()
        assert found is not None
        assert (found.version, found.position) == ("0.1.0", reader.head.next)
        assert snapshot_policy.is_readable(found.version)
        kept = msgspec.json.decode(zlib.decompress(found.body), type=SimulationSnapshot)
        restored, folded = assemble().engine(), assemble().engine()
        restored.restore(bytes(kept.engine), found.position)
        for stored in reader.read():
            folded.apply(stored.logged)
        assert restored.state.digest() == found.digest == folded.state.digest()


@pytest.mark.parametrize("damaged", ["digest = 'x'", "body = 'x'", "version = '0/0'"])
def test_an_older_snapshot_helps_if_the_newest_does_not(database: str, damaged: str) -> None:
    """A replica begins with it, rather than with the first record."""

    async def first(scene: Scene, _: "asyncio.Task[None]") -> None:
        for name, bound in (("a", 30), ("b", 60)):
            scene.cluster.put(*pods(30, name))
            await until(lambda bound=bound: scene.bound == bound and scene.settled)  # type: ignore[misc]

    async def second(scene: Scene, _: "asyncio.Task[None]") -> None:
        await until(lambda: scene.booth.stood)

    play(database, first)
    found = positions(database)
    assert len(found) > 1
    with psycopg.connect(database) as admin:
        admin.execute(
            f"UPDATE eventsched_log.snapshot SET {damaged} WHERE seq = %s".encode(), (found[-1],)
        )
    with capture_logs() as told:
        play(database, second, wins=False)
    begun = [each["seq"] for each in told if each["event"] == "begun with a snapshot"]
    assert begun == [found[-2]]


def test_without_a_usable_snapshot_the_log_is_read_from_its_first_record(database: str) -> None:
    """As after an upgrade that knows none of the formats, and with nothing sealed."""

    async def first(scene: Scene, _: "asyncio.Task[None]") -> None:
        scene.cluster.put(*pods(30, "a"))
        await until(lambda: scene.bound == 30 and scene.settled)

    async def second(scene: Scene, _: "asyncio.Task[None]") -> None:
        await until(lambda: scene.booth.stood)

    play(database, first)
    assert positions(database)
    with psycopg.connect(database) as admin:
        admin.execute("UPDATE eventsched_log.snapshot SET version = '0/0'")
        sealed = admin.execute("SELECT FROM eventsched_log.partition WHERE seal IS NOT NULL")
        assert sealed.fetchall() == []
    with capture_logs() as told:
        play(database, second, wins=False)
    [caught_up] = [each for each in told if each["event"] == "caught up with the log"]
    assert caught_up["snapshot"] == 0
    assert caught_up["records"] == caught_up["seq"] > 30
