"""A replica's terms on a real database, beside a cluster in memory: follow, lead, be deposed."""

import asyncio
import threading
import zlib
from contextlib import closing
from dataclasses import replace
from typing import Any

import psycopg
import pytest
from structlog.testing import capture_logs

from eventsched.cli.main import main
from eventsched.cluster.messages import Reported
from eventsched.domain.detail_levels import SUMMARY, DetailLevels
from eventsched.domain.errors import UnavailableError
from eventsched.domain.records import TimePassed
from eventsched.domain.records.log_entry import LogEntry
from eventsched.eventlog.chain import Head
from eventsched.eventlog.log_errors import HistoryChangedError, RecordsDroppedError
from eventsched.eventlog.port import Batch, StoredRecord, StoredSnapshot
from eventsched.eventlog.postgres.reader import Reader
from eventsched.eventlog.postgres.session import Session
from eventsched.eventlog.postgres.stored_batch import StoredBatch
from eventsched.eventlog.postgres.tail import Tail
from eventsched.eventlog.postgres.writer import PostgresEventLog
from eventsched.runtime.effects.event_outbox import REFUSED
from eventsched.runtime.leader.followed_stream import FollowedStream, StreamState
from eventsched.runtime.live.follower import Follower
from eventsched.runtime.live.log_housekeeping import Retention
from eventsched.runtime.live.worker import Worker
from tests.builders import engine_of
from tests.contract.proxy import Proxy
from tests.contract.test_eventlog import append
from tests.databases import make_partitions_small
from tests.live.stage import pods, until
from tests.postgres.replicas import STREAM, Scene, kinds, play


def test_a_term_from_its_beginning_to_its_end(database: str) -> None:
    """Every committed record is announced once, in order; the lease is released. The size of the
    database is measured meanwhile."""

    async def story(scene: Scene, running: "asyncio.Task[None]") -> None:
        scene.cluster.put(*pods(20))
        await until(lambda: scene.bound == 20 and scene.settled)
        database = scene.replica.database
        assert database is not None
        await until(lambda: database.size)
        scene.replica.end()
        await running

    scene = play(database, story)
    assert scene.ears.positions == list(range(len(kinds(database))))
    assert (scene.ears.takeovers, scene.ears.fences, scene.booth.released) == (1, 0, 1)
    assert kinds(database).count("PodBound") == 20


def test_the_next_one_goes_on_from_a_snapshot(database: str) -> None:
    """And knows all pods."""

    async def first(scene: Scene, _: "asyncio.Task[None]") -> None:
        scene.cluster.put(*pods(20))
        await until(lambda: scene.bound == 20 and scene.settled)

    async def second(scene: Scene, _: "asyncio.Task[None]") -> None:
        scene.cluster.put(*pods(20))  # as they were before they were bound: a cluster of its own
        await until(lambda: scene.settled)

    play(database, first)
    found = Reader(database, STREAM).snapshot()
    assert found is not None
    assert found.position >= 20
    assert zlib.decompress(found.body).startswith(b"{"), "compressed: appends wait while it is sent"
    before = len(kinds(database))
    scene = play(database, second)
    assert scene.ears.positions[0] == before


def test_who_is_asked_to_end_before_it_begins_stands_for_no_election(database: str) -> None:
    async def story(scene: Scene, running: "asyncio.Task[None]") -> None:
        scene.replica.end()
        await running
        assert scene.booth.stood == 0
        assert not scene.leads

    play(database, story)


def test_a_replica_that_ends_at_any_moment_releases_the_lease(database: str) -> None:
    """While it reads the log, is elected, and takes over."""
    for moment in range(12):

        async def story(
            scene: Scene, running: "asyncio.Task[None]", seconds: float = moment * 0.02
        ) -> None:
            await asyncio.sleep(seconds)
            scene.replica.end()
            await running
            assert scene.booth.released >= scene.booth.stood

        play(database, story)


def test_a_standby_follows_and_takes_over(database: str) -> None:
    """What the leader commits is there when its turn comes."""

    async def story(scene: Scene, _: "asyncio.Task[None]") -> None:
        standby = Scene(database, wins=False)
        standby.cluster = scene.cluster
        standby.replica._cluster = scene.cluster
        following = asyncio.create_task(standby.replica.run())
        scene.cluster.put(*pods(20))
        await until(lambda: scene.bound == 20 and scene.settled)
        await until(lambda: standby.replica.followed_stream.head.next == len(kinds(database)))
        assert not standby.leads
        scene.replica.end()
        await until(lambda: scene.booth.released)
        standby.booth.wins.set()
        await until(lambda: standby.settled)
        scene.cluster.put(*pods(5, "q"))
        await until(lambda: scene.bound == 25 and standby.settled)
        standby.replica.end()
        await following

    play(database, story)
    assert kinds(database).count("TermBegan") == 2


def test_a_lost_lease_ends_the_term_and_another_begins(database: str) -> None:
    """In the same process, from the log."""

    async def story(scene: Scene, _: "asyncio.Task[None]") -> None:
        await until(lambda: scene.settled)
        scene.booth.wins.clear()
        scene.booth.loses.set()
        await until(lambda: scene.replica.driver is None)
        scene.cluster.put(*pods(5))
        await until(lambda: scene.booth.stood == 2)
        assert scene.bound == 0
        scene.booth.loses.clear()
        scene.booth.wins.set()
        await until(lambda: scene.bound == 5 and scene.settled)

    scene = play(database, story)
    assert scene.replica.terms == 2
    assert kinds(database).count("TermBegan") == 2


def test_a_deposed_leader_drops_its_state_and_starts_again(database: str) -> None:
    """Another leader has begun an epoch: uncommitted decisions of the old one leave no trace."""

    async def story(scene: Scene, _: "asyncio.Task[None]") -> None:
        await until(lambda: scene.settled)
        with closing(Session(database)) as other:
            other.acquire(STREAM, "other")
        scene.cluster.put(*pods(5))
        await until(lambda: scene.bound == 5 and scene.settled)

    scene = play(database, story)
    assert scene.replica.terms == 2
    assert scene.ears.fences == 1
    assert scene.ears.positions == list(range(len(kinds(database))))


def test_a_replica_that_is_deposed_repeatedly_gives_up(database: str) -> None:
    """Two replicas do not depose each other forever."""

    async def story(scene: Scene, running: "asyncio.Task[None]") -> None:
        with closing(Session(database)) as other:
            for term in range(1, 6):
                await until(lambda term=term: scene.replica.terms == term and scene.settled)  # type: ignore[misc]
                other.acquire(STREAM, "other")
                scene.cluster.put(*pods(1, f"{term}-"))
        with pytest.raises(UnavailableError, match="was taken over 5 times"):
            await running

    play(database, story)


def test_a_snapshot_is_restored_beside_the_event_loop(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes seconds with many pods; the replica runs for leader only afterwards."""
    threads: list[threading.Thread] = []
    restored = FollowedStream.load_snapshot

    def watched(self: FollowedStream, snapshot: StoredSnapshot) -> StreamState | None:
        threads.append(threading.current_thread())
        return restored(self, snapshot)

    async def first(scene: Scene, _: "asyncio.Task[None]") -> None:
        scene.cluster.put(*pods(20))
        await until(lambda: scene.bound == 20 and scene.settled)

    async def second(scene: Scene, _: "asyncio.Task[None]") -> None:
        await until(lambda: scene.booth.stood)
        assert len(scene.replica.followed_stream.stream_state.engine.state.pods) == 20

    play(database, first)
    monkeypatch.setattr(FollowedStream, "load_snapshot", watched)
    play(database, second, wins=False)
    assert len(threads) == 1
    assert threads[0] is not threading.main_thread()


def test_vectors_are_left_out_where_digests_do(database: str) -> None:
    """The log is verified all the same."""

    async def story(scene: Scene, _: "asyncio.Task[None]") -> None:
        scene.cluster.put(*pods(3))
        await until(lambda: scene.bound == 3 and scene.settled)

    play(database, story, detail_levels=DetailLevels(SUMMARY))
    with psycopg.connect(database) as admin:
        assert admin.execute("SELECT count(*) FROM eventsched_log.detail").fetchone() == (0,)
        decided = admin.execute("SELECT count(*) FROM eventsched_log.decision").fetchone()
    assert decided == (3,)
    assert main(["verify", "--database", database, "--thinned"]) == 0
    assert main(["explain", "p1", "--database", database]) == 0


def test_old_vectors_are_deleted_in_a_term(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By partitions. Decisions stay, and so do the vectors that are not old yet."""
    make_partitions_small(database, 4, monkeypatch)
    monkeypatch.setattr("eventsched.runtime.live.log_housekeeping._AFTER", 0.0)

    async def young(scene: Scene, _: "asyncio.Task[None]") -> None:
        scene.cluster.put(*pods(3))
        await until(lambda: scene.bound == 3 and scene.settled)

    def left() -> int:
        with psycopg.connect(database) as admin:
            row = admin.execute("SELECT count(*) FROM eventsched_log.detail").fetchone()
        assert row is not None
        return int(row[0])

    async def old(_: Scene, __: "asyncio.Task[None]") -> None:
        await until(lambda: left() < 3)

    play(database, young, retention=Retention(vectors_age=3600.0))
    assert left() == 3
    play(database, old, retention=Retention(vectors_age=0.001))
    assert main(["verify", "--database", database, "--thinned"]) == 0


def test_what_was_read_when_the_turn_came_is_taken_in(database: str) -> None:
    """The standby stops following while it reads; nothing of that is lost, and its
    observer hears every record once."""

    async def first(scene: Scene, _: "asyncio.Task[None]") -> None:
        scene.cluster.put(*pods(60))
        await until(lambda: scene.bound == 60 and scene.settled)

    async def second(scene: Scene, _: "asyncio.Task[None]") -> None:
        await asyncio.sleep(0)
        scene.booth.wins.set()
        await until(lambda: scene.settled)

    play(database, first)
    for _ in range(3):
        with psycopg.connect(database) as admin:
            admin.execute("DELETE FROM eventsched_log.snapshot")
        ears = play(database, second, wins=False).ears
        assert ears.followed[0] == 0
        assert ears.followed + ears.positions == list(range(len(kinds(database))))
    assert kinds(database).count("TermBegan") == 4


def test_a_term_that_is_over_before_the_log_is_read(database: str) -> None:
    """Another replica has begun one meanwhile and has written records."""

    def ticked(first: int, count: int) -> Batch:
        ticks = [LogEntry(at, at, at, TimePassed()) for at in range(first, first + count)]
        return Batch([StoredRecord.of(each) for each in ticks], {})

    async def run() -> None:
        worker = Worker("test")
        followed_stream = FollowedStream(lambda: engine_of(), STREAM)
        follower = Follower(followed_stream, Tail(database, STREAM), worker)
        with closing(PostgresEventLog(database, STREAM)) as first:
            append(first, ticked(0, 2))
            head = Head(first.head, first.head_hash)
        with closing(PostgresEventLog(database, STREAM)) as later:
            await follower.catch_up(head)
            append(later, ticked(2, 2))
            await follower.catch_up(Head(later.head, later.head_hash))
            append(later, ticked(4, 2))
            append(later, ticked(6, 2))
            middle = Head(6, bytes(32))
            with pytest.raises(HistoryChangedError, match="another replica has written"):
                await follower.catch_up(middle)
            assert not followed_stream.history_lost
            with pytest.raises(HistoryChangedError, match="the log lost its end"):
                await follower.catch_up(Head(99, bytes(32)))
        worker.stop(follower._tail.close)

    asyncio.run(run())


def test_a_standby_that_was_cut_off_for_longer_than_records_are_kept() -> None:
    """It begins again with a snapshot, and history was not lost."""

    class Pruned(Tail):
        last_seen = None

        def poll(self, head: Head, limit: int = 64) -> list[StoredBatch]:
            raise RecordsDroppedError("the log begins later")

    async def run() -> None:
        worker = Worker("test")
        followed_stream = FollowedStream(lambda: engine_of(), STREAM)
        tick = StoredRecord.of(LogEntry(0, 0, 0, TimePassed()))
        followed_stream.follow([tick], Head(1, bytes(32)), b"null")
        follower = Follower(followed_stream, Pruned("", STREAM), worker)
        await follower._step()
        assert (followed_stream.head.next, followed_stream.history_lost) == (0, False)
        assert not follower.caught_up
        worker.stop()

    asyncio.run(run())


def test_a_defect_of_housekeeping_is_reported(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The term goes on."""

    async def broken(*_: object) -> None:
        raise ValueError("a defect")

    async def story(scene: Scene, _: "asyncio.Task[None]") -> None:
        scene.cluster.put(*pods(3))
        await until(lambda: scene.bound == 3 and scene.settled)

    monkeypatch.setattr("eventsched.runtime.live.replica.keep_house", broken)
    with capture_logs() as logs:
        play(database, story)
    [said] = [line for line in logs if line["log_level"] == "error"]
    assert said["event"].startswith("a task beside the term has failed")
    assert "a defect" in said["reason"]


def test_a_replica_reads_the_log_while_the_cluster_is_listed(database: str) -> None:
    """It stands for election when both are done."""

    async def story(scene: Scene, _: "asyncio.Task[None]") -> None:
        scene.cluster.begun.clear()
        await until(lambda: scene.replica.follower is not None)
        follower = scene.replica.follower
        assert follower is not None
        await follower.wait_until_caught_up()
        assert (scene.booth.watched_leader, scene.booth.stood) == (1, 0)
        scene.cluster.begun.set()
        await until(lambda: scene.leads)
        assert scene.booth.stood == 1

    play(database, story)


def test_what_leaders_have_counted_outlives_their_terms(database: str) -> None:
    """Such as Events that the API server would not take."""

    async def story(scene: Scene, _: "asyncio.Task[None]") -> None:
        server: Any = scene.cluster.server
        server.write_event = lambda request: Reported(request, refused="forbidden")
        scene.cluster.put(*pods(3))
        await until(lambda: scene.leads and scene.leader.counts[REFUSED] == 3)
        scene.booth.wins.clear()
        scene.booth.loses.set()
        await until(lambda: scene.replica.driver is None)
        assert scene.replica.counts[REFUSED] == 3

    play(database, story)


def test_an_end_does_not_wait_for_ever(proxy: Proxy) -> None:
    """The database is unreachable: after the grace period the replica ends anyway."""

    async def story(scene: Scene, running: "asyncio.Task[None]") -> None:
        await until(lambda: scene.settled)
        proxy.unreachable = True
        proxy.cut()
        scene.cluster.put(*pods(5))
        await until(
            lambda: scene.replica.database is not None and scene.replica.database.health.problem
        )
        scene.replica.plan = replace(scene.replica.plan, grace=0.1)
        scene.replica.end()
        await running
        assert scene.bound == 0
        assert scene.booth.released == 1

    play(proxy.url, story)
