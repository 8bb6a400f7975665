"""A replica whose database or cluster is unreachable, refuses it, or was restored from a backup."""

import asyncio
from urllib.parse import urlsplit
from uuid import uuid4

import psycopg
import pytest

from eventsched.cli.main import main
from eventsched.cluster.messages import Relisted
from eventsched.eventlog.log_errors import CorruptLogError, DatabaseRefusedError
from tests.contract.proxy import Proxy
from tests.databases import acting_as
from tests.live.stage import nodes, pods, until
from tests.postgres.replicas import Scene, kinds, play

EMPTIED = """
DO $$ DECLARE name text; BEGIN
    FOR name IN SELECT tablename FROM pg_tables
            WHERE schemaname = 'eventsched_log' AND tablename <> 'migration' LOOP
        EXECUTE format('ALTER TABLE eventsched_log.%I DISABLE TRIGGER ALL', name);
        EXECUTE format('DELETE FROM eventsched_log.%I', name);
    END LOOP;
END $$
"""


def test_a_replica_waits_for_an_unreachable_database(proxy: Proxy) -> None:
    """At the start, and in a term."""

    async def story(scene: Scene, _: "asyncio.Task[None]") -> None:
        await until(
            lambda: scene.replica.follower is not None and scene.replica.follower.health.problem
        )
        assert not scene.booth.stood
        proxy.unreachable = False
        await until(lambda: scene.settled)
        proxy.unreachable = True
        proxy.cut()
        scene.cluster.put(*pods(5))
        await until(
            lambda: scene.replica.database is not None and scene.replica.database.health.problem
        )
        assert scene.bound == 0
        proxy.unreachable = False
        await until(lambda: scene.bound == 5 and scene.settled)
        assert scene.replica.database is not None
        assert scene.replica.database.health.problem == ""

    proxy.unreachable = True
    scene = play(proxy.url, story, wins=True)
    assert scene.replica.terms >= 1


@pytest.mark.row(31)
def test_a_database_that_this_replica_alone_does_not_reach(proxy: Proxy, database: str) -> None:
    """It releases the lease, so that another one leads, and runs for it again once it can read
    the log. No term is fenced by that."""

    async def story(scene: Scene, _: "asyncio.Task[None]") -> None:
        await until(lambda: scene.settled)
        other = Scene(database, wins=False)
        other.cluster = other.replica._cluster = scene.cluster
        beside = asyncio.create_task(other.replica.run())
        await until(lambda: other.booth.stood)
        proxy.unreachable = True
        proxy.cut()
        scene.cluster.put(*pods(5))
        await until(lambda: scene.booth.released)
        other.booth.wins.set()
        await until(lambda: scene.bound == 5 and other.settled)
        assert (scene.replica.terms, scene.booth.stood) == (1, 1)
        other.replica.end()
        await beside
        proxy.unreachable = False
        await until(lambda: scene.settled)
        assert scene.booth.stood > 1

    play(proxy.url, story, database_patience=3.0, stand_down=0.05)


@pytest.mark.row(31)
def test_a_user_who_is_shut_out_in_a_term(database: str) -> None:
    """Retrying does not help with an address that is fixed: the process ends."""
    user = f"shut_out_{database.split('/')[3].split('?')[0][-8:]}"

    async def story(scene: Scene, running: "asyncio.Task[None]") -> None:
        await until(lambda: scene.settled)
        with psycopg.connect(database, autocommit=True) as admin:
            admin.execute(f"ALTER ROLE {user} NOLOGIN".encode())
            admin.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = %s", [user]
            )
        with pytest.raises(DatabaseRefusedError, match="not permitted to log in"):
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
def test_a_restored_cluster_is_listed_again(database: str) -> None:
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


def test_a_user_who_may_only_read_is_refused(database: str) -> None:
    """Waiting would not help."""

    async def story(_: Scene, running: "asyncio.Task[None]") -> None:
        with pytest.raises(DatabaseRefusedError, match="GRANT eventsched_writer"):
            await running

    play(acting_as(database, "eventsched_reader"), story)


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


def test_history_lost_under_a_standby_is_read_again(database: str) -> None:
    """It starts from the present log; its term then begins with the fence."""

    async def first(scene: Scene, _: "asyncio.Task[None]") -> None:
        scene.cluster.put(*pods(5))
        await until(lambda: scene.bound == 5 and scene.settled)
        scene.cluster.put(*nodes(3, labels={"new": "1"}))
        await until(lambda: kinds(database)[-1] == "NodeUpdated")

    async def second(scene: Scene, _: "asyncio.Task[None]") -> None:
        await until(lambda: scene.replica.followed_stream.head.next == len(kinds(database)))
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
        await until(lambda: scene.replica.followed_stream.history_lost)
        scene.booth.wins.set()
        await until(lambda: scene.settled)

    play(database, first)
    play(database, second, wins=False)
    assert "HistoryLost" in kinds(database)


@pytest.mark.row(9)
@pytest.mark.parametrize("loses", ["the last batch", "the term itself"])
def test_history_lost_under_a_leader_is_read_again(database: str, loses: str) -> None:
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


@pytest.mark.row(9)
def test_a_copied_database_is_lost_history(database: str) -> None:
    """As a dump that was restored on the same server: identity and timeline are equal, and the
    original may have gone on."""
    name = f"copy_{uuid4().hex}"
    original = urlsplit(database).path[1:]

    async def story(scene: Scene, _: "asyncio.Task[None]") -> None:
        await until(lambda: scene.settled)

    play(database, story)
    with psycopg.connect(database.replace(original, "postgres"), autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name} TEMPLATE {original}".encode())
        try:
            copied = database.replace(original, name)
            for _ in range(2):
                play(copied, story)
            assert kinds(copied).count("HistoryLost") == 1
        finally:
            admin.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())
    play(database, story)
    assert "HistoryLost" not in kinds(database)


@pytest.mark.row(9)
def test_an_operator_says_that_the_log_is_older(database: str) -> None:
    """A disk that was put back shows nothing by itself."""

    async def story(scene: Scene, _: "asyncio.Task[None]") -> None:
        await until(lambda: scene.settled)

    play(database, story)
    name = urlsplit(database).path[1:]
    for value, losses in (("1", 1), ("1", 1), ("2", 2)):
        comment = f"Ours. eventsched: restored {value}"
        with psycopg.connect(database, autocommit=True) as admin:
            admin.execute(f"COMMENT ON DATABASE {name} IS '{comment}'".encode())
        play(database, story)
        assert kinds(database).count("HistoryLost") == losses
    assert main(["verify", "--database", database]) == 0


@pytest.mark.row(9)
def test_an_empty_database_in_place_of_the_lost_one(database: str) -> None:
    """Under a leader that goes on: it fences the pods and begins a new log, and binds what is still
    without a node."""

    async def story(scene: Scene, _: "asyncio.Task[None]") -> None:
        scene.cluster.put(*pods(3))
        await until(lambda: scene.bound == 3 and scene.settled)
        with psycopg.connect(database, autocommit=True) as admin:
            admin.execute(EMPTIED)
        scene.cluster.put(*pods(2, "q"))
        await until(lambda: scene.bound == 5 and scene.settled)
        await until(lambda: "HistoryLost" in kinds(database))

    scene = play(database, story)
    assert scene.replica.terms == 2
    assert kinds(database)[:2] == ["StreamStarted", "TermBegan"]
    assert kinds(database).count("PodBound") == 2
