"""``eventsched db doctor``: what it finds in settings, replication and upkeep of a server."""

import re
import time
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import psycopg
import pytest

from eventsched.cli.main import main
from eventsched.eventlog.inspection import database_facts, server_checks
from eventsched.eventlog.inspection.database_checks import diagnose
from eventsched.eventlog.inspection.database_facts import (
    DatabaseFacts,
    UpdatedTable,
    read_facts,
)
from eventsched.eventlog.inspection.log_checks import BLOAT_ROWS, DEAD_ROWS, dead_rows
from tests.postgres.diagnosed import Databases, found, remedied, remedy, run
from tests.postgres.standbys import standby_of
from tests.postgres.tampered_logs import simulate
from tests.waiting import until

Capture = pytest.CaptureFixture[str]
_L = "eventsched_log"


def test_settings_of_a_poor_server(poor: Databases) -> None:
    url = poor.migrated()
    checks = ("durable writes", "synchronous commit", "WAL level", "autovacuum")
    assert found(url, *checks) == [
        ("refuse", "fsync is off"),
        ("refuse", "full_page_writes is off"),
        ("warn", "synchronous_commit is local for the whole server"),
        ("warn", "wal_level is minimal"),
        ("warn", "autovacuum is off"),
        ("warn", "track_counts is off"),
    ]
    assert main(["db", "doctor", "--database", url]) == 1


def test_synchronous_commit_of_roles_and_databases(sound: Databases) -> None:
    """The most specific setting holds, for logins that write."""
    url = sound.migrated()
    name = url.partition("?")[0].rpartition("/")[2]
    check = "synchronous commit"
    with sound.role("scheduler"), sound.role("ada"):
        run(url, "ALTER ROLE ada SET synchronous_commit = off")
        assert found(url, check) == []
        run(url, "GRANT eventsched_writer TO scheduler")
        run(url, f"ALTER DATABASE {name} SET synchronous_commit = off")
        assert found(url, check) == [("warn", f"synchronous_commit is off for database {name}")]
        run(url, "ALTER ROLE scheduler SET synchronous_commit = local")
        expected = ("warn", "synchronous_commit is local for role scheduler in all databases")
        assert found(url, check) == [expected]
        run(url, f"ALTER ROLE scheduler IN DATABASE {name} SET synchronous_commit = on")
        assert found(url, check) == []
        run(url, f"ALTER ROLE scheduler IN DATABASE {name} RESET synchronous_commit")
        remedy(url, check)
        assert found(url, check) == [("warn", f"synchronous_commit is off for database {name}")]
        remedied(url, check)


def test_a_database_that_is_read_only(sound: Databases) -> None:
    url = sound.migrated()
    name = url.partition("?")[0].rpartition("/")[2]
    run(url, f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    problem = f"default_transaction_read_only is on for database {name}"
    assert found(url, "writable") == [("refuse", problem)]


def test_dead_rows_of_the_head(sound: Databases) -> None:
    """Kept by a transaction that is open; gone after it and a VACUUM."""
    url = sound.migrated()
    simulate(url, "nodes=2,pods=3")
    with psycopg.connect(url) as reading, psycopg.connect(url, autocommit=True) as writing:
        reading.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM eventsched_log.head")
        writing.execute(
            f"DO $$ BEGIN FOR i IN 0..{DEAD_ROWS} LOOP UPDATE {_L}.head SET renewals = i;"
            " END LOOP; END $$".encode()
        )
        writing.execute("SELECT pg_stat_force_next_flush()")
        [(severity, problem)] = found(url, "dead rows")
        assert severity == "warn"
        assert re.fullmatch(f"table {_L}.head has [0-9,]+ dead rows", problem)
        [transaction] = read_facts(url).server.transactions or []
        assert transaction.name == str(reading.info.backend_pid)
        assert transaction.user == "postgres"
    run(url, f"VACUUM {_L}.head")
    assert found(url, "dead rows") == []


@pytest.mark.parametrize(
    ("table", "key"), [("pod_now", "gen_random_uuid()"), ("record_count", "'Kind' || i")]
)
def test_dead_rows_of_a_table_that_is_updated(sound: Databases, table: str, key: str) -> None:
    """Found once there are many, and more than live ones; gone after the remedy."""
    url = sound.migrated()
    simulate(url, "nodes=2,pods=3")
    name, column = ("uid", "seq") if table == "pod_now" else ("kind", "records")
    with psycopg.connect(url) as reading, psycopg.connect(url, autocommit=True) as writing:
        reading.execute(f"BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM {_L}.head".encode())
        writing.execute(
            f"INSERT INTO {_L}.{table} SELECT (jsonb_populate_record(t,"
            f" jsonb_build_object('{name}', {key}))).* FROM {_L}.{table} t,"
            f" generate_series(1, {BLOAT_ROWS // 2}) i"
            f" WHERE t.ctid = (SELECT min(ctid) FROM {_L}.{table})".encode()
        )
        for expected in ([], ["warn"]):
            writing.execute(f"UPDATE {_L}.{table} SET {column} = {column} + 1".encode())
            writing.execute("SELECT pg_stat_force_next_flush()")
            assert [severity for severity, _ in found(url, "dead rows")] == expected
        [(_, problem)] = found(url, "dead rows")
        text = f"table {_L}.{table} has [0-9,]+ dead rows, and [0-9,]+ live ones"
        assert re.fullmatch(text, problem)
    [remedy_text] = [
        f.remedy for check, f in diagnose(read_facts(url)).findings if check == "dead rows"
    ]
    run(url, remedy_text.partition(",")[0])
    assert found(url, "dead rows") == []


def test_more_live_rows_than_dead_ones_are_no_bloat() -> None:
    """However many there are; head has few live ones in any case."""

    def problems(*tables: UpdatedTable) -> list[str]:
        facts = SimpleNamespace(schema=SimpleNamespace(updated_tables=tables))
        return [finding.problem for finding in dead_rows(cast(DatabaseFacts, facts))]

    many = 10 * BLOAT_ROWS
    assert problems(UpdatedTable("pod_now", many, many)) == []
    assert problems(UpdatedTable("record_count", 30, BLOAT_ROWS - 1)) == []
    assert len(problems(UpdatedTable("pod_now", many, many + 1))) == 1
    assert len(problems(UpdatedTable("head", 1, DEAD_ROWS))) == 1


def test_transactions_that_are_open_for_long(
    poor: Databases, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Long is an hour, so that nothing is found of those that have just begun."""
    url = poor.migrated()
    checks = ("open transactions", "prepared transactions")
    with closing(psycopg.connect(url, application_name="report")) as session:
        session.execute("CREATE TABLE t ()")
        run(url, "BEGIN; CREATE TABLE u (); PREPARE TRANSACTION 'it''s'")
        assert found(url, *checks) == []
        monkeypatch.setattr(server_checks, "LONG_TRANSACTION", 0)
        pid = session.info.backend_pid
        assert found(url, *checks) == [
            ("warn", f"session {pid} of user postgres (report) has been open for 0.0 h"),
            ("warn", "the prepared transaction 'it''s' of user postgres has been open for 0.0 h"),
        ]
        remedies = [f.remedy for _, f in diagnose(read_facts(url)).findings if "open" in f.problem]
        assert remedies[1] == "ROLLBACK PREPARED 'it''s', or COMMIT PREPARED"
        run(url, remedies[0])
        run(url, remedies[1].partition(",")[0])
        assert found(url, *checks) == []


def test_replication_slots_without_a_bound(sound: Databases) -> None:
    url = sound.migrated()
    run(url, "SELECT pg_create_physical_replication_slot('gone', true)")
    try:
        [(severity, problem)] = found(url, "replication slots")
        assert severity == "warn"
        assert problem.startswith("the unused replication slot gone holds ")
        run(url, "ALTER SYSTEM SET max_slot_wal_keep_size = '10GB'")
        run(url, "SELECT pg_reload_conf()")
        until(lambda: found(url, "replication slots") == [], "the setting is read")
    finally:
        run(url, "ALTER SYSTEM RESET max_slot_wal_keep_size")
        run(url, "SELECT pg_reload_conf()")
        run(url, "SELECT pg_drop_replication_slot('gone')")


def test_a_standby_and_its_primary(sound: Databases, place: Path, programs: Path) -> None:
    """Nothing can be appended to a standby; a failover to it could lose what was."""
    url = sound.migrated()
    with standby_of(url, place, programs) as standby:
        problem = "the server is in recovery: it is a standby, or is being restored"
        assert found(standby.url, "writable") == [("refuse", problem)]
        check = "synchronous replication"
        until(lambda: found(url, check) != [], "the standby is attached")
        [(severity, problem)] = found(url, check)
        assert severity == "warn"
        assert problem.endswith("but synchronous_standby_names is empty")


def test_the_servers_clock(sound: Databases, monkeypatch: pytest.MonkeyPatch) -> None:
    """This host's clock is set; the server is on the same host."""
    url = sound.migrated()
    assert found(url, "clock") == []
    for seconds, direction in ((-90, "ahead of"), (90, "behind")):
        clocks = SimpleNamespace(time=lambda by=seconds: time.time() + by, monotonic=time.monotonic)
        monkeypatch.setattr(database_facts, "time", clocks)
        [(severity, problem)] = found(url, "clock")
        assert severity == "warn"
        assert re.fullmatch(rf"the server's clock is \d+\.\d s {direction} this host's", problem)
