"""What each role may do with the log in Postgres."""

from uuid import uuid4

import psycopg
import pytest

from eventsched.domain.errors import UnavailableError
from eventsched.eventlog import database
from eventsched.eventlog.port import StoredSnapshot
from eventsched.eventlog.postgres.writer import PostgresEventLog
from tests.contract.test_eventlog import append, batch, stored
from tests.databases import acting_as

TABLES = ("stream", "epoch", "batch", "node", "pod", "decision", "verdict", "scoring")
"""Tables that no role may change."""


@pytest.mark.parametrize("table", TABLES)
def test_no_role_changes_the_log(admin: psycopg.Connection, url: str, table: str) -> None:
    """Not even a superuser, nor while triggers are off for replication."""
    log = PostgresEventLog(url, f"{table} stays", "h")
    append(log, batch(0))
    log.close()
    with admin.transaction(force_rollback=True):
        columns = admin.execute(f"SELECT * FROM eventsched_log.{table} LIMIT 0").description
        assert columns is not None
        _fill(admin, table)
        column = next(each.name for each in columns if each.name != "id")
        for statement in (
            f"UPDATE eventsched_log.{table} SET {column} = {column}",
            f"DELETE FROM eventsched_log.{table}",
            f"TRUNCATE eventsched_log.{table} CASCADE",
        ):
            for replicating in ("origin", "replica"):
                admin.execute(f"SET LOCAL session_replication_role = {replicating}")
                with pytest.raises(psycopg.DatabaseError) as denied, admin.transaction():
                    admin.execute(statement)
                assert denied.value.sqlstate == "ES009"
                assert "append-only" in str(denied.value)


def test_a_writer_may_write_through_functions_only(url: str, name: str) -> None:
    """A member of eventsched_writer can call everything in the port and nothing else."""
    address = acting_as(url, "eventsched_writer")
    log = PostgresEventLog(address, name)
    append(log, batch(0, 2))
    log.renew()
    log.store_snapshot(StoredSnapshot(2, log.head_hash, "d", "v", b"b"))
    assert list(log.read()) == stored(0, 2)
    assert log.reader.snapshot() is not None
    log.close()
    with psycopg.connect(address, autocommit=True) as connection:
        for table in (*TABLES, "head", "detail", "snapshot", "migration"):
            _denied(connection, f"INSERT INTO eventsched_log.{table} DEFAULT VALUES")
            _denied(connection, f"DELETE FROM eventsched_log.{table}")
            _denied(connection, f"TRUNCATE eventsched_log.{table}")
        _denied(connection, "UPDATE eventsched_log.head SET epoch = 0")
        _denied(connection, "SELECT eventsched_log.derive(1, 0, '[]')")
        _denied(connection, "CREATE TABLE eventsched_log.mine ()")
        _denied(connection, "ALTER TABLE eventsched_log.batch DISABLE TRIGGER ALL")
        _denied(connection, "DROP FUNCTION eventsched_log.deny() CASCADE")


def test_a_reader_may_read_only(url: str, log: PostgresEventLog) -> None:
    """Views, and the functions behind them; no table of the log, and nothing that writes."""
    append(log, batch(0, 2))
    address = acting_as(url, "eventsched_reader")
    with psycopg.connect(address, autocommit=True) as connection:
        for view in ("streams", "decisions", "bindings", "queue_moves", "reservations",
                     "first_nodes", "refusals", "memory", "requests"):  # fmt: skip
            connection.execute(f"SELECT * FROM eventsched.{view}").fetchall()
        for function in ("verdicts", "scores"):
            connection.execute(f"SELECT * FROM eventsched.{function}('s', 0)").fetchall()
        _denied(connection, "SELECT eventsched_log.ask_to_forget('s', 'p', 'k')")
        for table in (*TABLES, "head", "detail", "snapshot", "request"):
            if table != "stream":
                _denied(connection, f"SELECT * FROM eventsched_log.{table}")
            _denied(connection, f"DELETE FROM eventsched_log.{table}")
        _denied(connection, f"SELECT eventsched_log.acquire('s', '{uuid4()}', 'h', 'v')")
        _denied(connection, f"SELECT eventsched_log.renew(1, 1, '{uuid4()}')")
        _denied(
            connection,
            "SELECT eventsched_log.keep_snapshot(1, 1, gen_random_uuid(), 0, '', '', '', '')",
        )
    with pytest.raises(UnavailableError) as told:
        PostgresEventLog(address, log.stream)
    assert told.value.remedy == "GRANT eventsched_writer to this user"


def test_an_address_for_reading_changes_nothing(url: str, log: PostgresEventLog) -> None:
    """Though its user may do everything."""
    with (
        database.reader_address(url, None) as address,
        psycopg.connect(address, autocommit=True) as connection,
    ):
        assert connection.execute("SELECT current_user").fetchone() == ("eventsched_auditor",)
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            connection.execute("CREATE TEMPORARY TABLE mine ()")


def _denied(connection: psycopg.Connection, statement: str) -> None:
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute(statement)


def _fill(admin: psycopg.Connection, table: str) -> None:
    rows = {
        "node": "(0, 1, 0, 'n')",
        "pod": f"('{uuid4()}', 0, 1, 'd', 'p')",
        "decision": f"(0, 0, 0, 0, 0, '{uuid4()}', 1, 1, 0, 0, 0, 'error', 'p', NULL, NULL)",
        "verdict": "(1, 1, 'p', 'c', '{}')",
        "scoring": "(1, 1, 1, 0, 'p', 'identity')",
    }
    if table in rows:
        admin.execute(f"INSERT INTO eventsched_log.{table} VALUES {rows[table]}")
