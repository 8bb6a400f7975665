"""``eventsched db stats``: what it counts and measures, and what it estimates."""

import json
import re
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest

from eventsched.cli.main import main
from eventsched.domain.records import PodAdded
from eventsched.domain.records.log_entry import LogEntry
from eventsched.eventlog.inspection import log_statistics
from eventsched.eventlog.port import Batch, StoredRecord
from eventsched.eventlog.postgres.writer import PostgresEventLog
from tests.builders import make_pod
from tests.databases import Server, migrate
from tests.postgres.histories import ODD, TIGHT, odd, simulated

Capture = pytest.CaptureFixture[str]
HOUR = 3_600_000_000
DAY = 24 * HOUR


@pytest.fixture(scope="module")
def address(one_server: Server) -> Iterator[str]:
    """The URL of a database with two simulations."""
    with one_server.fresh(migrate) as url:
        simulated(url)
        odd(url)
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("VACUUM ANALYZE")  # else autovacuum does, while sizes are compared
        yield url


@pytest.fixture
def live(database: str) -> str:
    """The URL of a fresh database; tests append to it what a scheduler could have."""
    return database


def append(address: str, stream: str, *times: int) -> None:
    """Appends one batch for each time (µs), of two records."""
    with closing(PostgresEventLog(address, stream, "scheduler")) as log:
        for at in times:
            end = log.head
            entries = [LogEntry(p, at, p, PodAdded(pod=make_pod(f"p{p}"))) for p in (end, end + 1)]
            log.begin(Batch([StoredRecord.of(entry) for entry in entries], {}))
            log.finish()


def stats(capsys: Capture, address: str, *words: str) -> dict[str, Any]:
    """The answer as JSON."""
    capsys.readouterr()
    assert main(["db", "stats", "--database", address, "-o", "json", *words]) == 0
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    return answer


def scalar(address: str, query: str) -> Any:
    with psycopg.connect(address, autocommit=True) as connection:
        row = connection.execute(query.encode()).fetchone()
        assert row is not None
        return row[0]


def test_streams_are_counted(capsys: Capture, address: str) -> None:
    answer = stats(capsys, address)
    assert [each["stream"] for each in answer["streams"]] == [TIGHT, ODD]
    for each in answer["streams"]:
        of_stream = f"WHERE stream = (SELECT id FROM stream WHERE name = '{each['stream']}')"
        with psycopg.connect(address, options="-c search_path=eventsched_log") as connection:
            expected = [
                connection.execute(f"SELECT {what} {of_stream}".encode()).fetchone()
                for what in (
                    "sum(count)::bigint FROM batch",
                    "count(*) FROM decision",
                    "count(*) FROM batch",
                    "count(*) FROM epoch",
                )
            ]
        counted = [each[name] for name in ("records", "decisions", "batches", "epochs")]
        assert counted == [row[0] for row in expected if row]
        assert each["first_at"].startswith("1970-01-01T00:00:")
        assert each["simulated"] is True


def test_tables_are_measured(capsys: Capture, address: str) -> None:
    """Each table of the schema that auditors may read; together they are what Postgres says the
    schema has."""
    answer = stats(capsys, address)
    query = (
        "SELECT {} FROM pg_class WHERE relnamespace = 'eventsched_log'::regnamespace"
        " AND relkind IN ('r', 'p') AND (relispartition"
        " OR has_table_privilege('eventsched_auditor', oid, 'SELECT'))"
    )
    tables = scalar(address, f"{query} AND NOT relispartition".format("count(*)"))
    assert len(answer["tables"]) == tables
    total = scalar(address, query.format("sum(pg_total_relation_size(oid))::bigint"))
    assert answer["bytes"] == sum(each["bytes"] for each in answer["tables"]) == total
    assert answer["database_bytes"] > total
    for each in answer["tables"]:
        rows = scalar(address, f"SELECT count(*) FROM eventsched_log.{each['table']}")
        assert (each["rows"], each["rows_are_estimated"]) == (rows, False)
        sizes = each["heap_bytes"], each["toast_bytes"], each["index_bytes"]
        assert sum(sizes) == each["bytes"]
    decisions = sum(each["decisions"] for each in answer["streams"])
    assert answer["bytes_per_decision"] == round(total / decisions, 1)


def test_a_partitioned_table_is_one(capsys: Capture, live: str) -> None:
    with psycopg.connect(live, autocommit=True) as connection:
        connection.execute("SET search_path = eventsched_log")
        connection.execute("CREATE TABLE whole (n integer PRIMARY KEY) PARTITION BY RANGE (n)")
        for first, after in ((0, 10), (10, 20)):
            bounds = f"FROM ({first}) TO ({after})"
            part = f"CREATE TABLE part{first} PARTITION OF whole FOR VALUES {bounds}"
            connection.execute(part.encode())
        connection.execute("INSERT INTO whole SELECT generate_series(5, 14)")
        connection.execute("GRANT SELECT ON whole TO eventsched_auditor")
    tables = {each["table"]: each for each in stats(capsys, live)["tables"]}
    parts = "pg_total_relation_size('eventsched_log.part0')"
    parts += " + pg_total_relation_size('eventsched_log.part10')"
    assert tables["whole"]["rows"] == 10
    assert tables["whole"]["bytes"] == scalar(live, f"SELECT {parts}")
    assert tables.keys().isdisjoint({"part0", "part10"})


def test_rows_of_large_tables_are_estimated(
    capsys: Capture, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batches of a stream, too."""
    exact = stats(capsys, address)
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("ANALYZE")
    monkeypatch.setattr(log_statistics, "SMALL", 0)
    estimated = stats(capsys, address)
    for before, after in zip(exact["tables"], estimated["tables"], strict=True):
        if before["rows"]:
            assert after["rows_are_estimated"], after
            # The planner takes each partition, of two here, for one row at least.
            assert before["rows"] <= after["rows"] <= before["rows"] + 2, after
    batches = [each["batches"] for each in exact["streams"]]
    assert [each["batches"] for each in estimated["streams"]] == batches
    assert all(each["batches_are_estimated"] for each in estimated["streams"])


def test_growth_is_that_of_the_last_day(capsys: Capture, live: str) -> None:
    now = time.time_ns() // 1000
    hours = (200, 100, 30, 20, 10, 5)
    append(live, "s", *(now - each * HOUR for each in hours))
    answer = stats(capsys, live)
    [stream] = answer["streams"]
    assert stream["growth"] == {
        "records_per_day": 6,
        "bytes_per_day": round(6 * answer["bytes"] / 12),
        "seconds": 86_400.0,
        "is_whole_age": False,
    }


def test_growth_of_a_young_stream_is_that_of_its_whole_age(capsys: Capture, live: str) -> None:
    now = time.time_ns() // 1000
    append(live, "s", now - 6 * HOUR, now - HOUR)
    [stream] = stats(capsys, live)["streams"]
    growth = stream["growth"]
    assert growth["is_whole_age"]
    assert growth["seconds"] >= 6 * 3600
    assert growth["records_per_day"] == round(4 * 86_400 / growth["seconds"])


def test_a_stream_that_has_ended_does_not_grow(capsys: Capture, live: str) -> None:
    now = time.time_ns() // 1000
    append(live, "s", now - 50 * HOUR, now - 30 * HOUR)
    [stream] = stats(capsys, live)["streams"]
    assert stream["growth"]["records_per_day"] == 0
    assert main(["db", "stats", "--database", live, "--disk", "1Ti"]) == 0
    assert "is not filled: nothing grows" in capsys.readouterr().out


def test_days_of_a_simulation_are_its_own(capsys: Capture, live: str) -> None:
    append(live, "s", 0, HOUR, 30 * HOUR, 49 * HOUR)
    [stream] = stats(capsys, live)["streams"]
    assert stream["growth"]["records_per_day"] == 4
    assert main(["db", "stats", "--database", live, "--disk", "1Gi"]) == 0
    printed = capsys.readouterr().out
    assert "4 records, about" in printed
    assert "per simulated day (estimated from its last day)" in printed
    assert "simulated days" in printed.splitlines()[-1]


def test_a_disk_is_full_at_the_growth_of_schedulers(capsys: Capture, live: str) -> None:
    """Simulations beside them do not count."""
    now = time.time_ns() // 1000
    append(live, "s", now - 30 * HOUR, now - 5 * HOUR)
    append(live, "simulation", 0, HOUR)
    answer = stats(capsys, live, "--disk", "100Mi")
    [growth, _] = [each["growth"] for each in answer["streams"]]
    days = (100 * 2**20 - answer["database_bytes"]) / growth["bytes_per_day"]
    assert answer["disk"] == {"bytes": 100 * 2**20, "days_until_full": days}
    assert main(["db", "stats", "--database", live, "--disk", "100Mi"]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("a disk of 100.0 MiB for this database, which has ")
    [shown] = re.findall(r"is full in ([0-9.]+) days, on 20", last)
    assert abs(float(shown) - days) < 1  # The database may have grown between the two.
    assert stats(capsys, live, "--disk", "1k")["disk"]["days_until_full"] == 0


def test_one_stream_or_all(capsys: Capture, address: str) -> None:
    both, one = stats(capsys, address), stats(capsys, address, "--stream", ODD)
    assert one["streams"] == both["streams"][1:]
    assert one["tables"] == both["tables"]


def test_an_empty_database(capsys: Capture, live: str) -> None:
    answer = stats(capsys, live, "--disk", "1Gi")
    assert (answer["streams"], answer["bytes_per_decision"]) == ([], None)
    assert answer["disk"]["days_until_full"] is None
    append(live, "empty")
    [stream] = stats(capsys, live)["streams"]
    assert (stream["records"], stream["first_at"], stream["growth"]) == (0, None, None)
    assert main(["db", "stats", "--database", live]) == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--stream", "nowhere"), "--stream: there is no stream nowhere"),
        (("--disk", "much"), "--disk: 'much' is not a size; write one such as 100Gi"),
        (("--disk", "-1Gi"), "--disk: '-1Gi' is not a size"),
    ],
)
def test_bad_input(capsys: Capture, address: str, words: tuple[str, str], said: str) -> None:
    assert main(["db", "stats", "--database", address, "=".join(words)]) == 2
    assert said in capsys.readouterr().err


def test_the_text_leaves_small_tables_together(capsys: Capture, address: str) -> None:
    assert main(["db", "stats", "--database", address]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == [
        "STREAM", "RECORDS", "DECISIONS", "BATCHES", "EPOCHS", "FIRST", "LAST",
    ]  # fmt: skip
    assert [line.split()[0] for line in lines[1:3]] == [TIGHT, ODD]
    assert lines[4].startswith("TABLE ")
    assert any("smaller  " in line for line in lines)
    assert lines[-4].startswith("all ")
    assert lines[-2].startswith(f"stream {TIGHT} grows by ")


def test_a_stream_of_a_moment_has_no_growth(
    capsys: Capture, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All pods of a simulation that arrive at once would grow by terabytes a day."""
    monkeypatch.setattr(log_statistics, "SHORTEST_SPAN", 365 * DAY)
    assert main(["db", "stats", "--database", address, "--disk", "1Ti"]) == 0
    text = capsys.readouterr().out
    assert "is too young for an estimate of its growth: its records are from less than" in text
    assert text.splitlines()[-1].endswith("is not forecast yet")
