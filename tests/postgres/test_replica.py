"""A replica's terms on a real database, beside a cluster in memory: follow, lead, be deposed."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from eventsched.cli.main import main
from eventsched.cluster.messages import Relisted, Reported
from eventsched.domain.errors import UnavailableError
from eventsched.domain.records import TimePassed
from eventsched.eventlog.chain import Head
from eventsched.eventlog.errors import CorruptLogError, HistoryChangedError, RefusedError
from eventsched.eventlog.port import Batch, Snapshot, Stored
from eventsched.eventlog.postgres import PostgresEventLog
from eventsched.eventlog.reading import Reader
from eventsched.eventlog.session import Session
from eventsched.eventlog.tailing import Tail
from eventsched.plugins.node_resources_fit import NodeResourcesFit
from eventsched.runtime.fold import Fold, Standby
from eventsched.runtime.leader import Leader
from eventsched.runtime.limits import Limits
from eventsched.runtime.live.clock import Clock
from eventsched.runtime.live.follower import Follower
from eventsched.runtime.live.ports import Silence
from eventsched.runtime.live.replica import Plan, Replica
from eventsched.runtime.live.worker import Worker
from eventsched.runtime.reports import REFUSED
from eventsched.scheduling.ledger import Logged
from tests.builders import engine_of
from tests.contract.proxy import Proxy, between
from tests.contract.test_eventlog import append
from tests.faults.cluster import OPENING
from tests.live.stage import LiveCluster, nodes, pods, until

STREAM = "s"


class Ears(Silence):
    """Hears what is committed."""

    def __init__(self) -> None:
        self.positions: list[int] = []
        self.takeovers = self.fences = 0

    def observe(self, logged: Sequence[Logged], now: int) -> None:
        """Keeps the positions."""
        self.positions += [each.position for each in logged]

    def took_over(self, seconds: float) -> None:
        """Counts."""
        self.takeovers += 1

    def fenced(self) -> None:
        """Counts."""
        self.fences += 1


class Booth:
    """An election that a test decides."""

    def __init__(self, *, wins: bool = True) -> None:
        self.wins, self.loses = asyncio.Event(), asyncio.Event()
        self.released = self.stood = 0
        if wins:
            self.wins.set()

    async def won(self) -> None:
        """See the port."""
        self.stood += 1
        await self.wins.wait()

    async def lost(self) -> str:
        """See the port."""
        await self.loses.wait()
        return "the lease is held by another"

    async def release(self) -> None:
        """See the port."""
        self.released += 1


class Scene:
    """A replica and what it needs."""

    def __init__(self, address: str, *, wins: bool = True, **more: Any) -> None:
        self.cluster, self.ears, self.booth = LiveCluster(), Ears(), Booth(wins=wins)
        self.cluster.put(*nodes(3))
        plan = Plan(
            lambda: engine_of(NodeResourcesFit()), OPENING, address, STREAM, "me",
            Limits(records=16, snapshot_every=20), **more,
        )  # fmt: skip
        self.replica = Replica(plan, self.cluster, self.booth, self.ears, Clock().now)

    @property
    def leads(self) -> bool:
        """Whether the replica makes attempts."""
        driver = self.replica.driver
        return driver is not None and driver.leader.leading

    @property
    def leader(self) -> Leader:
        """The leader of the term."""
        assert self.replica.driver is not None
        return self.replica.driver.leader

    @property
    def settled(self) -> bool:
        """Whether it does, and everything is committed."""
        driver = self.replica.driver
        return self.leads and driver is not None and driver.leader.settled

    @property
    def bound(self) -> int:
        """Pods on nodes."""
        return sum(bool(seen.pod.node_name) for seen in self.cluster.server.pods.values())


@pytest.fixture
def proxy(database: str) -> Iterator[Proxy]:
    """A way to the database that can be lost."""
    with between(database) as proxy:
        yield proxy


Story = Callable[[Scene, "asyncio.Task[None]"], Awaitable[None]]


def play(address: str, story: Story, **more: Any) -> Scene:
    """Runs a replica beside a story, and ends it where it still runs."""

    async def run() -> Scene:
        scene = Scene(address, **more)
        running = asyncio.create_task(scene.replica.run())
        try:
            await story(scene, running)
        finally:
            scene.replica.end()
            async with asyncio.timeout(30):
                await asyncio.gather(running, return_exceptions=True)
        return scene

    return asyncio.run(run())


def kinds(address: str) -> list[str]:
    """The kinds of all records."""
    return [each.kind for each in Reader(address, STREAM).read()]


def test_a_term_from_its_beginning_to_its_end(database: str) -> None:
    """All that is committed is told once, in order; the lease is given back."""

    async def story(scene: Scene, running: "asyncio.Task[None]") -> None:
        scene.cluster.put(*pods(20))
        await until(lambda: scene.bound == 20 and scene.settled)
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
    before = len(kinds(database))
    scene = play(database, second)
    assert scene.ears.positions[0] == before


def test_a_standby_follows_and_takes_over(database: str) -> None:
    """What the leader commits is there when its turn comes."""

    async def story(scene: Scene, _: "asyncio.Task[None]") -> None:
        standby = Scene(database, wins=False)
        standby.cluster = scene.cluster
        standby.replica._cluster = scene.cluster
        following = asyncio.create_task(standby.replica.run())
        scene.cluster.put(*pods(20))
        await until(lambda: scene.bound == 20 and scene.settled)
        await until(lambda: standby.replica.standby.head.next == len(kinds(database)))
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
        await asyncio.sleep(0.05)
        assert scene.bound == 0
        scene.booth.loses.clear()
        scene.booth.wins.set()
        await until(lambda: scene.bound == 5 and scene.settled)

    scene = play(database, story)
    assert scene.replica.terms == 2
    assert kinds(database).count("TermBegan") == 2


def test_a_deposed_leader_drops_its_state_and_begins_anew(database: str) -> None:
    """Somebody else has begun an epoch; what it had decided meanwhile is nowhere."""

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


def test_two_that_depose_each_other_are_told_apart_by_their_word(database: str) -> None:
    """A replica does not do that for ever."""

    async def story(scene: Scene, running: "asyncio.Task[None]") -> None:
        with closing(Session(database)) as other:
            for term in range(1, 6):
                await until(lambda term=term: scene.replica.terms == term and scene.settled)  # type: ignore[misc]
                other.acquire(STREAM, "other")
                scene.cluster.put(*pods(1, f"{term}-"))
        with pytest.raises(UnavailableError, match="was taken over 5 times"):
            await running

    play(database, story)


def test_a_database_that_is_away_is_waited_for(proxy: Proxy) -> None:
    """At the start, and in a term."""

    async def story(scene: Scene, _: "asyncio.Task[None]") -> None:
        await until(
            lambda: scene.replica.follower is not None and scene.replica.follower.reach.trouble
        )
        assert not scene.booth.stood
        proxy.away = False
        await until(lambda: scene.settled)
        proxy.away = True
        proxy.cut()
        scene.cluster.put(*pods(5))
        await until(lambda: scene.replica.ledger is not None and scene.replica.ledger.reach.trouble)
        assert scene.bound == 0
        proxy.away = False
        await until(lambda: scene.bound == 5 and scene.settled)
        assert scene.replica.ledger is not None
        assert scene.replica.ledger.reach.trouble == ""

    proxy.away = True
    scene = play(proxy.url, story, wins=True)
    assert scene.replica.terms >= 1


@pytest.mark.row(31)
def test_a_database_that_this_replica_alone_does_not_reach(proxy: Proxy, database: str) -> None:
    """It gives the lease back, so that another one leads, and stands for it again when it can read
    the log. Nobody is deposed by that."""

    async def story(scene: Scene, _: "asyncio.Task[None]") -> None:
        await until(lambda: scene.settled)
        other = Scene(database, wins=False)
        other.cluster = other.replica._cluster = scene.cluster
        beside = asyncio.create_task(other.replica.run())
        await until(lambda: other.booth.stood)
        proxy.away = True
        proxy.cut()
        scene.cluster.put(*pods(5))
        await until(lambda: scene.booth.released)
        other.booth.wins.set()
        await until(lambda: scene.bound == 5 and other.settled)
        assert (scene.replica.terms, scene.booth.stood) == (1, 1)
        other.replica.end()
        await beside
        proxy.away = False
        await until(lambda: scene.settled)
        assert scene.booth.stood > 1

    play(proxy.url, story, patience=3.0, rest=0.05)


@pytest.mark.row(31)
def test_a_user_who_is_shut_out_in_a_term(database: str) -> None:
    """Waiting does not mend that: the process ends, and reads its address anew when it starts."""
    user = f"shut_out_{database.split('/')[3].split('?')[0][-8:]}"

    async def story(scene: Scene, running: "asyncio.Task[None]") -> None:
        await until(lambda: scene.settled)
        with psycopg.connect(database, autocommit=True) as admin:
            admin.execute(f"ALTER ROLE {user} NOLOGIN".encode())
            admin.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = %s", [user]
            )
        with pytest.raises(RefusedError, match="not permitted to log in"):
            await running
        assert scene.booth.released == 1

    with psycopg.connect(database, autocommit=True) as admin:
        admin.execute(f"CREATE ROLE {user} LOGIN IN ROLE eventsched_writer".encode())
    try:
        play(database.replace("postgresql://postgres@", f"postgresql://{user}@"), story)
    finally:
        with psycopg.connect(database, autocommit=True) as admin:
            admin.execute(f"DROP ROLE {user}".encode())


@pytest.mark.row(30)
def test_a_cluster_that_was_put_back_is_taken_in_anew(database: str) -> None:
    """As from a backup of etcd: the term ends, and pods that lost their nodes are bound again. The
    log is true, before and after."""

    async def story(scene: Scene, _: "asyncio.Task[None]") -> None:
        server = scene.cluster.server
        await until(lambda: scene.settled)
        scene.cluster.put(*pods(3))
        await until(lambda: kinds(database).count("PodBound") == 3)
        known, server.version = server.version, 3
        for pod in pods(3):
            server.put_pod(pod)
        listing = server.list("Pod")
        for history in server.histories.values():
            history.clear()
        scene.cluster._told = dict.fromkeys(server.histories, 0)
        assert scene.cluster._subscriber is not None
        scene.cluster._subscriber(Relisted(listing, known))
        await until(lambda: kinds(database).count("PodBound") == 6)

    scene = play(database, story)
    assert scene.replica.terms == 2
    assert main(["verify", "--database", database]) == 0
    assert main(["explain", "p1", "--database", database]) == 0


def test_a_snapshot_is_restored_beside_the_event_loop(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes seconds where there are many pods; and nobody stands for election before."""
    threads: list[threading.Thread] = []
    restored = Standby.restored

    def watched(self: Standby, snapshot: Snapshot) -> Fold | None:
        threads.append(threading.current_thread())
        return restored(self, snapshot)

    async def first(scene: Scene, _: "asyncio.Task[None]") -> None:
        scene.cluster.put(*pods(20))
        await until(lambda: scene.bound == 20 and scene.settled)

    async def second(scene: Scene, _: "asyncio.Task[None]") -> None:
        await until(lambda: scene.booth.stood)
        assert len(scene.replica.standby.fold.engine.state.pods) == 20

    play(database, first)
    monkeypatch.setattr(Standby, "restored", watched)
    play(database, second, wins=False)
    assert len(threads) == 1
    assert threads[0] is not threading.main_thread()


def test_vectors_are_left_out_where_digests_do(database: str) -> None:
    """The log is verified all the same."""

    async def story(scene: Scene, _: "asyncio.Task[None]") -> None:
        scene.cluster.put(*pods(3))
        await until(lambda: scene.bound == 3 and scene.settled)

    play(database, story, keeps_vectors=False)
    with psycopg.connect(database) as admin:
        assert admin.execute("SELECT count(*) FROM eventsched_log.detail").fetchone() == (0,)
        decided = admin.execute("SELECT count(*) FROM eventsched_log.decision").fetchone()
    assert decided == (3,)
    assert main(["verify", "--database", database, "--thinned"]) == 0
    assert main(["explain", "p1", "--database", database]) == 0


def test_old_vectors_are_deleted_in_a_term(database: str) -> None:
    """Decisions stay, and so do the vectors that are not old yet."""

    async def young(scene: Scene, _: "asyncio.Task[None]") -> None:
        scene.cluster.put(*pods(3))
        await until(lambda: scene.bound == 3 and scene.settled)

    def left() -> int:
        with psycopg.connect(database) as admin:
            row = admin.execute("SELECT count(*) FROM eventsched_log.detail").fetchone()
        assert row is not None
        return int(row[0])

    async def old(_: Scene, __: "asyncio.Task[None]") -> None:
        await until(lambda: left() == 0)

    play(database, young, vectors_age=3600.0)
    assert left() == 3
    play(database, old, vectors_age=0.001)
    assert main(["verify", "--database", database, "--thinned"]) == 0


def test_a_user_who_may_only_read_is_refused(database: str) -> None:
    """Waiting would not help."""

    async def story(_: Scene, running: "asyncio.Task[None]") -> None:
        with pytest.raises(RefusedError, match="GRANT eventsched_writer"):
            await running

    play(f"{database}&options=-c%20role%3Deventsched_reader", story)


def test_a_log_that_is_damaged_is_not_passed_over(database: str) -> None:
    """The replica ends, and says where."""

    async def first(scene: Scene, _: "asyncio.Task[None]") -> None:
        await until(lambda: scene.settled)

    async def second(_: Scene, running: "asyncio.Task[None]") -> None:
        with pytest.raises(CorruptLogError):
            await running

    play(database, first)
    with psycopg.connect(database, autocommit=True) as admin:
        admin.execute("ALTER TABLE eventsched_log.batch DISABLE TRIGGER ALL")
        admin.execute("UPDATE eventsched_log.batch SET mark = '7' WHERE first = 0")
        admin.execute("DELETE FROM eventsched_log.snapshot")
    play(database, second)


def test_history_that_is_lost_under_a_standby_is_read_anew(database: str) -> None:
    """It begins with what the log has now; its term then begins with the fence."""

    async def first(scene: Scene, _: "asyncio.Task[None]") -> None:
        scene.cluster.put(*pods(5))
        await until(lambda: scene.bound == 5 and scene.settled)
        scene.cluster.put(*nodes(3, labels={"new": "1"}))
        await until(lambda: kinds(database)[-1] == "NodeUpdated")

    async def second(scene: Scene, _: "asyncio.Task[None]") -> None:
        await until(lambda: scene.replica.standby.head.next == len(kinds(database)))
        with psycopg.connect(database, autocommit=True) as admin:
            admin.execute("ALTER TABLE eventsched_log.batch DISABLE TRIGGER ALL")
            admin.execute(
                "DELETE FROM eventsched_log.batch WHERE first ="
                " (SELECT max(first) FROM eventsched_log.batch)"
            )
            admin.execute(
                "UPDATE eventsched_log.head SET (next, hash) = (SELECT first + count, hash"
                " FROM eventsched_log.batch ORDER BY first DESC LIMIT 1)"
            )
        await until(lambda: scene.replica.standby.rewritten)
        scene.booth.wins.set()
        await until(lambda: scene.settled)

    play(database, first)
    play(database, second, wins=False)
    assert "HistoryLost" in kinds(database)


@pytest.mark.row(9)
@pytest.mark.parametrize("loses", ["the last batch", "the term itself"])
def test_history_that_is_lost_under_a_leader_is_read_anew(database: str, loses: str) -> None:
    """It may have been replaced by an older copy of itself, which shows nothing: the term is over,
    and the next one begins with the fence."""
    heads = "(SELECT first + count, hash FROM eventsched_log.batch ORDER BY first DESC LIMIT 1)"
    lost = {
        "the last batch": "DELETE FROM eventsched_log.batch WHERE first ="
        " (SELECT max(first) FROM eventsched_log.batch)",
        "the term itself": "DELETE FROM eventsched_log.batch WHERE epoch = 2;"
        " DELETE FROM eventsched_log.epoch WHERE epoch = 2;"
        " UPDATE eventsched_log.head SET (epoch, token) ="
        " (SELECT epoch, token FROM eventsched_log.epoch)",
    }

    async def first(scene: Scene, _: "asyncio.Task[None]") -> None:
        await until(lambda: scene.settled)

    async def second(scene: Scene, _: "asyncio.Task[None]") -> None:
        await until(lambda: scene.settled)
        scene.cluster.put(*nodes(3, labels={"new": "1"}))
        await until(lambda: kinds(database)[-1] == "NodeUpdated")
        with psycopg.connect(database, autocommit=True) as admin:
            admin.execute("ALTER TABLE eventsched_log.batch DISABLE TRIGGER ALL")
            admin.execute("ALTER TABLE eventsched_log.epoch DISABLE TRIGGER ALL")
            admin.execute(lost[loses].encode())
            admin.execute(f"UPDATE eventsched_log.head SET (next, hash) = {heads}".encode())
        scene.cluster.put(*pods(5))
        await until(lambda: scene.bound == 5 and scene.settled)
        await until(lambda: "HistoryLost" in kinds(database))
        scene.booth.wins.clear()
        scene.booth.loses.set()
        await until(lambda: scene.replica.driver is None)
        scene.booth.loses.clear()
        scene.booth.wins.set()
        await until(lambda: scene.settled)

    play(database, first)
    scene = play(database, second)
    assert scene.replica.terms == 3
    assert kinds(database).count("HistoryLost") == 1


def test_what_was_read_when_the_turn_came_is_taken_in(database: str) -> None:
    """The standby stops to follow in the midst of reading; nothing of that is lost."""

    async def first(scene: Scene, _: "asyncio.Task[None]") -> None:
        scene.cluster.put(*pods(60))
        await until(lambda: scene.bound == 60 and scene.settled)

    async def second(scene: Scene, _: "asyncio.Task[None]") -> None:
        await asyncio.sleep(0)
        scene.booth.wins.set()
        await until(lambda: scene.settled)

    play(database, first)
    for _ in range(3):
        play(database, second, wins=False)
    assert kinds(database).count("TermBegan") == 4


def test_a_term_that_is_over_before_the_log_is_read(database: str) -> None:
    """Somebody else has begun one meanwhile, and written."""

    def ticked(first: int, count: int) -> Batch:
        ticks = [Logged(at, at, at, TimePassed()) for at in range(first, first + count)]
        return Batch([Stored.of(each) for each in ticks], {})

    async def run() -> None:
        worker = Worker("test")
        standby = Standby(lambda: engine_of(), STREAM)
        follower = Follower(standby, Tail(database, STREAM), worker)
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
            with pytest.raises(HistoryChangedError, match="somebody else has written"):
                await follower.catch_up(middle)
            assert not standby.rewritten
        worker.stop(follower._tail.close)

    asyncio.run(run())


def test_what_leaders_have_counted_outlives_their_terms(database: str) -> None:
    """Such as Events that the API server would not take."""

    async def story(scene: Scene, _: "asyncio.Task[None]") -> None:
        scene.cluster.server.announce = lambda each: Reported(each, refused="forbidden")  # type: ignore[method-assign]
        scene.cluster.put(*pods(3))
        await until(lambda: scene.leads and scene.leader.counts[REFUSED] == 3)
        scene.booth.wins.clear()
        scene.booth.loses.set()
        await until(lambda: scene.replica.driver is None)
        assert scene.replica.counts[REFUSED] == 3

    play(database, story)


def test_an_end_does_not_wait_for_ever(proxy: Proxy) -> None:
    """The database is away: after the grace the replica ends all the same."""

    async def story(scene: Scene, running: "asyncio.Task[None]") -> None:
        await until(lambda: scene.settled)
        proxy.away = True
        proxy.cut()
        scene.cluster.put(*pods(5))
        await until(lambda: scene.replica.ledger is not None and scene.replica.ledger.reach.trouble)
        scene.replica.plan = replace(scene.replica.plan, grace=0.1)
        scene.replica.end()
        await running
        assert scene.bound == 0
        assert scene.booth.released == 1

    play(proxy.url, story)
