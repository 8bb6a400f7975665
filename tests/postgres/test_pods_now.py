"""Where each pod stands: table pod_now and its views after every batch, against the scheduler's
state, which is folded from the same records."""

import threading
from collections.abc import Iterator
from contextlib import closing
from typing import Any, NamedTuple

import psycopg
import pytest

from eventsched.domain import records
from eventsched.domain.records.log_entry import LogEntry
from eventsched.domain.records.verdicts import Code, Verdict
from eventsched.domain.state.scheduler_state import SchedulerState
from eventsched.eventlog.memory import MemoryEventLog
from eventsched.eventlog.port import Batch, StoredRecord
from eventsched.eventlog.postgres.reader import Reader
from eventsched.eventlog.postgres.writer import PostgresEventLog
from eventsched.eventlog.schema import migrations
from eventsched.history.explain.evidence import uid_key
from eventsched.history.verify.verification import verify_database
from tests.builders import active, added, make_node, make_pod, scheduled
from tests.databases import Server, migrate
from tests.postgres.histories import ODD, odd
from tests.postgres.tampered_logs import TYPED
from tests.postgres.test_preemptions import UNTIL, simulation
from tests.postgres.truth import time_of
from tests.waiting import joined, until

_NOW = """
SELECT pod_uid::text, state, attempts, node, nominated, priority, deleting, scheduler_name, seq,
       owner_name
FROM eventsched.pods_now WHERE stream = %s
"""


class Found(NamedTuple):
    """What a row says, and what the state says about a pod."""

    state: str
    attempts: int
    node: str | None
    nominated: str | None
    priority: int
    deleting: bool
    scheduler: str
    seq: int
    owner: str | None


def by_state(state: SchedulerState) -> dict[str, Found]:
    """The pods of a state."""
    return {uid_key(uid): _of(state, uid) for uid in state.pods}


def _of(state: SchedulerState, uid: str) -> Found:
    standing, held = state.pods[uid], state.reservations.get(uid)
    pod = standing.pod
    if standing.queue is not None:
        where = standing.queue.value
    elif standing.bound:
        where = "bound"
    else:
        where = "unqueued" if held is None else "binding" if held.intended else "waiting"
    node = pod.node_name or (held.node if held else None)
    return Found(
        where, standing.attempts, node, state.preemptions.node(uid) or None, pod.priority,
        pod.deleting, pod.scheduler_name, standing.number, pod.owner.name if pod.owner else None,
    )  # fmt: skip


def by_view(connection: psycopg.Connection[Any], stream: str) -> dict[str, Found]:
    """The pods of the view."""
    rows = connection.execute(_NOW, (stream,)).fetchall()
    return {row[0]: Found(*row[1:]) for row in rows}


@pytest.fixture(scope="module")
def histories(one_server: Server) -> dict[str, list[StoredRecord]]:
    """A history with nearly everything, and one with preemptions."""
    with one_server.fresh(migrate) as url:
        odd(url)
        found = {ODD: list(Reader(url, ODD).read())}
    log = MemoryEventLog("crowded")
    simulation(log).run(UNTIL)
    return {**found, "crowded": list(log.read())}


@pytest.fixture
def connection(database: str) -> Iterator[psycopg.Connection[Any]]:
    """To the database, as its owner."""
    with psycopg.connect(database, autocommit=True) as connection:
        yield connection


@pytest.mark.parametrize("name", [ODD, "crowded"])
@pytest.mark.parametrize("size", [1, 23, 100_000])
def test_after_each_batch(
    database: str, connection: Any, histories: dict[str, list[StoredRecord]], name: str, size: int
) -> None:
    """However records are cut into batches, the rows are those of the state."""
    state, stored, seen = SchedulerState(), histories[name], set()
    with closing(PostgresEventLog(database, name, holder="test")) as log:
        for first in range(0, len(stored), size):
            part = stored[first : first + size]
            log.begin(Batch(part, {}))
            log.finish()
            for each in part:
                state.apply(each.record, each.at)
            found = by_view(connection, name)
            assert found == by_state(state), f"after {part[-1]}"
            seen |= {each.state for each in found.values()}
    assert size > 1 or seen >= {"active", "unschedulable", "waiting", "binding", "bound"}
    [result] = verify_database(connection, thinned=True)
    assert result.problems == []


def test_records_of_two_pods_in_turn(database: str, connection: Any) -> None:
    """In one batch: each row of pod_now is written once, at a place of its own. A pod that was seen
    on its node before the outcome of its bind has one reservation, unless another pod's reservation
    ended in between."""
    pods = make_pod("a"), make_pod("b")
    on_node = [make_pod(pod.name, node_name="n1") for pod in pods]
    told = [
        records.StreamStarted(format=1, engine="t", seed="s"), *added(make_node(), *pods),
        active("a"), active("b"), scheduled("a"), scheduled("b"),
        records.BindIntended(uid="a", node="n1", attempt=1),
        records.BindIntended(uid="b", node="n1", attempt=1),
        records.PodUpdated(pod=on_node[0]), records.PodUpdated(pod=on_node[1]),
        records.PodBound(uid="b", node="n1", attempt=1),
        records.PodBound(uid="a", node="n1", attempt=1),
    ]  # fmt: skip
    append(
        database,
        [StoredRecord.of(LogEntry(at, at, min(at, 8), each)) for at, each in enumerate(told)],
    )
    assert connection.execute(
        "SELECT name, state, node, ctid::text FROM eventsched_log.pod_now ORDER BY name"
    ).fetchall() == [("a", "bound", "n1", "(0,1)"), ("b", "bound", "n1", "(0,2)")]
    assert connection.execute(
        "SELECT seq, ended_by, decided_seq FROM eventsched_log.reservation ORDER BY seq"
    ).fetchall() == [(10, "PodUpdated", 6), (12, "PodBound", 7), (13, "PodBound", 6)]
    [result] = verify_database(connection, thinned=True)
    assert result.problems == []


def test_two_lives_in_one_batch(database: str, connection: Any) -> None:
    """A pod that is added again under its uid has the row of its second life, and none once it is
    gone."""
    pod = make_pod("a")
    first = [
        records.StreamStarted(format=1, engine="t", seed="s"), *added(make_node(), pod),
        active("a"), scheduled("a"), records.PodDeleted(uid="a"), *added(pod), active("a"),
    ]  # fmt: skip
    second = [records.PodDeleted(uid="a"), *added(pod), records.PodDeleted(uid="a")]
    told = [
        StoredRecord.of(LogEntry(at, at, at, each)) for at, each in enumerate([*first, *second])
    ]
    append(database, told[: len(first)])
    assert connection.execute(_LIVES).fetchall() == [(2, 6, "active")]
    append(database, told[len(first) :])
    assert connection.execute(_LIVES).fetchall() == [(2, None, None)]
    [result] = verify_database(connection, thinned=True)
    assert result.problems == []


_LIVES = """
SELECT p.seq, n.seq, n.state FROM eventsched_log.pod p
LEFT JOIN eventsched_log.pod_now n ON n.stream = p.stream AND n.uid = p.uid
"""


def test_an_older_log_gets_its_rows(
    database: str, connection: Any, histories: dict[str, list[StoredRecord]]
) -> None:
    """The migration inserts the rows that append() would have inserted."""
    append(database, *([record] for record in histories[ODD]))
    before = rows(connection)
    migrations.downgrade(database, "0004")
    migrations.upgrade(database)
    assert rows(connection) == before
    empty = {table for table, found in before.items() if not found}
    assert empty == {"victim", "comparison"}  # test_anomalies.py has them


def test_a_batch_that_is_committed_during_the_migration_gets_its_rows(
    database: str, one_server: Server, connection: Any, histories: dict[str, list[StoredRecord]]
) -> None:
    """The table is filled beside the running log, and again when appends are held up: here by a
    batch of the former append() that commits when the migration waits for it."""
    parts = histories[ODD][:40], histories[ODD][40:]
    with one_server.fresh(migrate) as url, psycopg.connect(url) as other:
        append(url, *parts)
        expected = rows(other)
        [late] = other.execute(
            "SELECT b::text FROM eventsched_log.batch b ORDER BY first DESC LIMIT 1"
        ).fetchone() or [None]
    append(database, parts[0])
    migrations.downgrade(database, "0004")
    upgrade = threading.Thread(target=migrations.upgrade, args=(database,), daemon=True)
    with psycopg.connect(database) as writer:
        writer.execute(
            "INSERT INTO eventsched_log.batch SELECT (%s::eventsched_log.batch).*", (late,)
        )
        upgrade.start()
        until(lambda: connection.execute(_WAITS).fetchone() == (1,), "waiting for the writer")
    joined(upgrade)
    assert rows(connection) == expected
    assert expected["pod_now"]
    assert expected["queue_move"]


def test_appends_go_on_while_typed_rows_are_filled(
    database: str, connection: Any, histories: dict[str, list[StoredRecord]]
) -> None:
    """They wait only for the last part, for which the migration waits here."""
    append(database, histories[ODD])
    before = rows(connection)
    migrations.downgrade(database, "0009")
    upgrade = threading.Thread(target=migrations.upgrade, args=(database,), daemon=True)
    with psycopg.connect(database) as writer:
        writer.execute("LOCK TABLE eventsched_log.batch IN ROW EXCLUSIVE MODE")
        upgrade.start()
        until(lambda: connection.execute(_WAITS).fetchone() == (1,), "waiting for the writer")
        writer.execute("SET lock_timeout = '5s'; UPDATE eventsched_log.pod_now SET seq = seq")
    joined(upgrade)
    assert rows(connection) == before


_WAITS = """
SELECT count(*)::integer FROM pg_locks
WHERE relation = 'eventsched_log.batch'::regclass AND NOT granted
"""


def rows(connection: psycopg.Connection[Any]) -> dict[str, list[tuple[Any, ...]]]:
    """All rows about pods, by table."""
    return {
        table: sorted(
            connection.execute(f"SELECT t::text FROM eventsched_log.{table} t".encode()).fetchall()
        )
        for table in ("pod_now", "record_count", *TYPED)
    }


def append(url: str, *parts: list[StoredRecord]) -> None:
    """A batch of each part."""
    with closing(PostgresEventLog(url, ODD, holder="test")) as log:
        for part in parts:
            log.begin(Batch(part, {}))
            log.finish()


def test_why_and_since_when(database: str, connection: Any) -> None:
    """The reason that most nodes gave, and the oldest waiter of each state."""
    told = [
        records.StreamStarted(format=1, engine="t", seed="s"),
        *added(make_node(), make_pod("old"), make_pod("young"), make_pod("tried")),
        records.VerdictDefined(number=1, verdict=_verdict("Few", "too few")),
        records.VerdictDefined(number=2, verdict=_verdict("Many", "too many")),
        *(
            records.PodQueued(uid=uid, queue=records.Queue.ACTIVE, cause="PodAdd")
            for uid in ("old", "young", "tried")
        ),
        records.PodDecided(
            uid="tried", attempt=1, outcome=records.Outcome.UNSCHEDULABLE, message="0/9 nodes",
            counts=((1, 2), (2, 6), (65533, 9)),
        ),
        records.PodQueued(uid="tried", queue=records.Queue.UNSCHEDULABLE, cause="AttemptFailed"),
    ]  # fmt: skip
    stored = [StoredRecord.of(LogEntry(at, at * 1000, at, each)) for at, each in enumerate(told)]
    with closing(PostgresEventLog(database, "made", holder="test")) as log:
        log.begin(Batch(stored, {}))
        log.finish()
    assert connection.execute(
        "SELECT state, plugin, code, reason, message, decided_seq, since, waiting_since"
        " FROM eventsched.pods_now WHERE pod = 'tried'"
    ).fetchall() == [
        ("unschedulable", "Many", "Unschedulable", "too many", "0/9 nodes", 10,
         time_of(11_000), time_of(9_000))
    ]  # fmt: skip
    assert connection.execute(
        "SELECT pod, state, waiting_since FROM eventsched.oldest_waiting ORDER BY state"
    ).fetchall() == [("old", "active", time_of(7_000)), ("tried", "unschedulable", time_of(9_000))]


def _verdict(plugin: str, reason: str) -> Verdict:
    return Verdict(plugin=plugin, code=Code.UNSCHEDULABLE, reasons=(reason,))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("UPDATE pod_now SET state = 'bound' WHERE state = 'unschedulable'", "state is 'bound'"),
        ("UPDATE pod_now SET waiting_since = waiting_since + 1", "waiting_since is"),
        ("DELETE FROM pod_now WHERE state = 'unschedulable'", "has no row"),
        (
            "INSERT INTO pod_now SELECT (jsonb_populate_record(n, jsonb_build_object('uid',"
            " gen_random_uuid()))).* FROM pod_now n LIMIT 1",
            "expected none: it is gone",
        ),
    ],
)
def test_a_changed_row_is_found(
    database: str, connection: Any, histories: dict[str, list[StoredRecord]], change: str, said: str
) -> None:
    """Verification makes the rows from the records, by code of its own."""
    with closing(PostgresEventLog(database, "crowded", holder="test")) as log:
        log.begin(Batch(histories["crowded"], {}))
        log.finish()
    connection.execute("SET search_path = eventsched_log")
    assert connection.execute(change).rowcount > 0
    with psycopg.connect(database) as reader:
        [result] = verify_database(reader, thinned=True)
    assert result.first is not None
    assert result.first.position == len(histories["crowded"])
    assert said in result.first.text
