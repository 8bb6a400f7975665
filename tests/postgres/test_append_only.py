"""What keeps roles, the superuser and ``verify`` itself from changing a log."""

import psycopg
import pytest

from eventsched.history.verify.verified_database import one_moment
from tests.postgres.tampered_logs import ACQUIRE, GUARDED, TABLES, TamperedLog

ROWS = {
    "mention": "SELECT 0, uid, stream",
    "victim": "SELECT 0, 0, uid, uid, stream, 'n'",
    "comparison": "SELECT 0, 0, 0, 0, uid, stream, 1, true, 'same'",
}
"""A row of each table of which this log has none."""


@pytest.mark.parametrize("table", GUARDED)
def test_the_log_refuses_changes_of_the_superuser(tight_log: TamperedLog, table: str) -> None:
    name, column = f"eventsched_log.{table}", "name" if table == "stream" else "stream"
    if table in ROWS:
        tight_log.run(f"INSERT INTO {table} {ROWS[table]} FROM pod LIMIT 1")
    for statement in (
        f"UPDATE {name} SET {column} = {column}",
        f"DELETE FROM {name}",
        f"TRUNCATE {name} CASCADE",
    ):
        with pytest.raises(psycopg.Error, match="the log is append-only") as refused:
            tight_log.connection.execute(statement.encode())
        assert refused.value.sqlstate == "ES009"
    if table in ROWS:
        tight_log.run(f"DELETE FROM {table}")
    assert tight_log.verify().problems == []


@pytest.mark.parametrize("role", ["eventsched_auditor", "eventsched_writer"])
def test_roles_cannot_change_tables(tight_log: TamperedLog, role: str) -> None:
    tight_log.connection.execute(f"SET ROLE {role}".encode())
    for table in TABLES:
        name, column = f"eventsched_log.{table}", "name" if table == "stream" else "stream"
        tight_log.connection.execute(f"SELECT count(*) FROM {name}".encode())
        for statement in (
            f"INSERT INTO {name} ({column}) SELECT {column} FROM {name} LIMIT 0",
            f"UPDATE {name} SET {column} = {column}",
            f"DELETE FROM {name}",
            f"TRUNCATE {name} CASCADE",
            f"ALTER TABLE {name} DISABLE TRIGGER ALL",
            f"DROP TABLE {name} CASCADE",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                tight_log.connection.execute(statement.encode())


def test_the_reader_cannot_append(tight_log: TamperedLog) -> None:
    tight_log.connection.execute("SET ROLE eventsched_reader")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        tight_log.connection.execute(ACQUIRE)


def test_verifying_can_change_nothing(tight_log: TamperedLog) -> None:
    with (
        psycopg.connect(tight_log.url) as connection,
        one_moment(connection),
        pytest.raises(psycopg.errors.ReadOnlySqlTransaction),
    ):
        connection.execute(ACQUIRE)
