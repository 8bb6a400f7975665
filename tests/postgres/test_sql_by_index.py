"""Questions that need not unfold the whole log, and readers that hold nothing up."""

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from eventsched.cli.main import main
from eventsched.eventlog.postgres.reader import Reader
from eventsched.eventlog.schema import migrations
from tests.databases import Server, migrate
from tests.postgres.histories import ODD, TIGHT, odd, simulated
from tests.waiting import until

Ask = Callable[..., list[Any]]
READING = """
SELECT p.oid::regprocedure::text FROM pg_proc p
WHERE p.pronamespace IN ('eventsched'::regnamespace, 'eventsched_log'::regnamespace)
  AND p.provolatile IN ('i', 's') AND p.proparallel <> 's'
  AND p.proname !~ '^tenant_|^granted_namespaces$|^opaque_id$'  -- of tenants, about few rows
"""


@pytest.fixture(scope="module")
def address(one_server: Server) -> Iterator[str]:
    """The URL of a database with both histories."""
    with one_server.fresh(migrate) as url:
        odd(url)
        simulated(url)
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("ANALYZE")
        yield url


@pytest.fixture
def ask(address: str) -> Iterator[Ask]:
    """Asks the database."""
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("SET search_path = eventsched; SET ROLE eventsched_auditor")

        def ask(query: str, *values: object) -> list[Any]:
            cursor = connection.execute(query.encode(), values)
            return cursor.fetchall() if cursor.description else []

        yield ask


@pytest.mark.parametrize("stream", [ODD, TIGHT])
def test_events_between(ask: Ask, stream: str) -> None:
    """The rows of the view, for every part of a log; nothing beyond its ends."""
    columns = "stream, seq, at, cause, kind, namespace, pod, pod_uid, record::text, epoch"
    whole = ask(f"SELECT {columns} FROM events WHERE stream = %s ORDER BY seq", stream)
    query = f"SELECT {columns} FROM events_between(%s, %s, %s) ORDER BY seq"
    assert ask(query, stream, 0, len(whole)) == whole
    for first in range(0, len(whole), 7):
        for last in (first - 1, first, first + 5, first + 300):
            assert ask(query, stream, first, last) == whole[first : last + 1]
    assert ask(query, stream, len(whole), len(whole) + 9) == []
    assert ask(query, "nobody", 0, 9) == []


def test_events_between_reads_by_index(ask: Ask) -> None:
    """Also for a position that another row names."""
    for method in ("seqscan", "bitmapscan", "hashjoin"):  # cheaper for small tables
        ask(f"SET enable_{method} = off")
    for query in (
        f"SELECT * FROM events_between('{TIGHT}', 40, 41)",
        "SELECT e.kind FROM decisions d, events_between(d.stream, d.seq, d.seq) e",
    ):
        plan = "\n".join(line for (line,) in ask(f"EXPLAIN {query}"))
        assert "Index Scan using batch_1_0_pkey on batch_1_0 b" in plan, plan
        assert "first <= " in plan, plan
        assert "first >= " in plan, plan


def test_refusals_of_a_decision(ask: Ask) -> None:
    """The rows of the view."""
    columns = "plugin, code, reason, nodes"
    of_view = ask(f"SELECT stream, seq, {columns} FROM refusals ORDER BY 1, 2, 3, 4, 5, 6")
    assert len(of_view) > 20
    of_function = ask(
        f"SELECT d.stream, d.seq, {', '.join('r.' + name for name in columns.split(', '))} "
        "FROM decisions d, refusals(d.stream, d.seq) r ORDER BY 1, 2, 3, 4, 5, 6"
    )
    assert of_function == of_view
    assert ask("SELECT * FROM refusals(%s, 0)", ODD) == []


def test_vectors_are_followed_by_index(address: str) -> None:
    """No step of a chain reads the whole table, whatever the planner's join settings."""
    with psycopg.connect(address, autocommit=True) as connection:
        [(stream, seq)] = connection.execute(
            "SELECT s.name, d.seq FROM eventsched_log.detail d JOIN eventsched_log.stream s"
            " ON s.id = d.stream WHERE d.base IS NOT NULL ORDER BY d.seq DESC LIMIT 1"
        ).fetchall()
        scans = "SELECT sum(seq_scan) FROM pg_stat_user_tables WHERE relname ~ '^detail_'"
        others = (
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
            " AND backend_type = 'client backend' AND pid <> pg_backend_pid()"
        )
        # Those of earlier tests count their scans when they end.
        until(lambda: connection.execute(others).fetchone() == (0,), "the other backends have gone")
        connection.execute("SET enable_nestloop = off; SET enable_seqscan = off")
        connection.execute("SELECT pg_stat_force_next_flush()")
        before = connection.execute(scans).fetchall()
        told = connection.execute(
            "SELECT * FROM eventsched.verdicts(%s, %s)", (stream, seq)
        ).fetchall()
        assert told
        connection.execute("SELECT pg_stat_force_next_flush()")
        assert connection.execute(scans).fetchall() == before


def test_what_only_reads_may_run_in_parallel(ask: Ask) -> None:
    """A view with one function that may not would be scanned by one process."""
    assert ask(READING) == []
    ask("SET debug_parallel_query = on" if _version(ask) >= 16 else "SET force_parallel_mode = on")
    kinds = "SELECT kind, count(*) FROM events GROUP BY 1 ORDER BY 1"
    in_parallel = ask(kinds)
    for name in ("refusals", "bindings", "queue_moves", "evictions", "preemptions", "memory"):
        assert ask(f"SELECT count(*) FROM {name}")
    assert "Gather" in "\n".join(line for (line,) in ask(f"EXPLAIN {kinds}"))
    ask("RESET ALL")
    ask("SET search_path = eventsched")
    assert ask(kinds) == in_parallel


def _version(ask: Ask) -> int:
    return int(ask("SHOW server_version_num")[0][0]) // 10_000


@pytest.mark.parametrize(
    "view", ["decisions", "queue_moves", "queue_stays", "bindings", "reservations", "refusals"]
)
def test_times_are_computed_in_place(ask: Ask, view: str) -> None:
    """A call of a function for each row would be most of the time of a question about them all."""
    plan = "\n".join(line for (line,) in ask(f"EXPLAIN VERBOSE SELECT * FROM {view}"))
    assert " * '00:00:00.000001'::interval" in plan, plan
    assert 'eventsched_log."time"' not in plan, plan


def test_hashes_stay_beside_their_batch(ask: Ask) -> None:
    """Out of line each would cost some pages to read."""
    query = (
        "SELECT attstorage FROM pg_attribute WHERE attname = 'hash'"
        " AND attrelid = 'eventsched_log.batch'::regclass"
    )
    assert ask(query) == [("p",)]


def test_a_reader_holds_nothing_up(address: str) -> None:
    """Between two pages no snapshot is held, so that rows that appends replace can be removed."""
    batches = Reader(address, TIGHT).batches()
    next(batches)
    with psycopg.connect(address) as connection:
        held = connection.execute(
            "SELECT query FROM pg_stat_activity WHERE datname = current_database()"
            " AND pid <> pg_backend_pid()"
            " AND backend_type = 'client backend'"  # autovacuum may be at work
            " AND (backend_xmin IS NOT NULL OR state = 'idle in transaction')"
        ).fetchall()
    assert held == []
    batches.close()  # type: ignore[attr-defined]


def test_a_reader_pages_through_everything(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """From any position and with any page size."""
    reader = Reader(address, TIGHT)
    whole = list(reader.batches())
    assert len(whole) > 3
    for size in (1, 2, len(whole), len(whole) + 1):
        monkeypatch.setattr("eventsched.eventlog.postgres.reader._PAGE", size)
        assert list(reader.batches()) == whole
        for place in (1, len(whole) // 2, len(whole) - 1):
            assert list(reader.batches(whole[place].first)) == whole[place:]
            assert list(reader.batches(whole[place].first - 1)) == whole[place - 1 :]
    assert list(reader.batches(reader.head.next + 5)) == whole[-1:]


def nothing(url: str) -> None:
    """Leaves a new database as it is: settings of a role are not copied from a template."""


def test_people_who_read_have_limits(
    capsys: pytest.CaptureFixture[str], one_server: Server
) -> None:
    """Every member of the role in this database has them unless its address overrides them.
    Limits that an administrator has set are left alone."""
    query = (
        "SELECT current_setting('statement_timeout') AS query,"
        " current_setting('idle_in_transaction_session_timeout') AS idle"
    )

    def limits(url: str) -> str:
        assert main(["sql", "--database", url, "-c", query, "-o", "csv"]) == 0
        return capsys.readouterr().out.splitlines()[1]

    with one_server.fresh(nothing) as address, psycopg.connect(address, autocommit=True) as admin:
        role = f'ALTER ROLE eventsched_reader IN DATABASE "{admin.info.dbname}"'
        migrations.upgrade(address)
        assert limits(address) == "5min,1min"
        assert limits(f"{address}&options=-c%20statement_timeout%3D7s") == "7s,1min"
        migrations.downgrade(address, "0005")
        admin.execute(f"{role} SET statement_timeout = '9s'".encode())
        migrations.upgrade(address)
        assert limits(address) == "9s,1min"
