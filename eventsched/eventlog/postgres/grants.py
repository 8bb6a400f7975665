"""Grants: which login roles may write which streams (migrations/sql/0007_grants.sql)."""

import psycopg

from eventsched.domain.errors import InputError
from eventsched.eventlog.addresses import shown
from eventsched.eventlog.log_errors import DatabaseRefusedError
from eventsched.eventlog.postgres.writer_connection import connect
from eventsched.eventlog.schema import migrations

_GRANT = """
INSERT INTO eventsched_log.stream_grant (role, stream) VALUES (%s, %s) ON CONFLICT DO NOTHING
"""
_REVOKE = "DELETE FROM eventsched_log.stream_grant WHERE role = %s AND stream = %s"


def grant(address: str, role: str, stream: str, *, revoke: bool = False) -> bool:
    """Allows a role to write a stream, or with ``revoke`` no longer allows it. Returns whether that
    changed anything. The user of the address must be the owner of the schema or a member of the
    owner's role. Raises InputError if the role does not exist, DatabaseRefusedError if the user
    lacks the privilege, and UnavailableError."""
    migrations.require(address)
    with connect(address, "eventsched db grant") as connection:
        try:
            roles = connection.execute("SELECT FROM pg_roles WHERE rolname = %s", (role,))
            if roles.fetchone() is None and not revoke:
                raise InputError("--role", f"there is no role {role}", "CREATE ROLE … LOGIN first")
            with connection.transaction():
                owner = connection.execute(
                    "SELECT format('SET LOCAL ROLE %I', nspowner::regrole::text) FROM pg_namespace"
                    " WHERE nspname = 'eventsched_log' AND nspowner::regrole::text <> current_user"
                ).fetchone()
                if owner is not None:
                    connection.execute(owner[0].encode())
                cursor = connection.execute(_REVOKE if revoke else _GRANT, (role, stream))
                return cursor.rowcount > 0
        except psycopg.errors.InsufficientPrivilege as problem:
            remedy = "connect as the user who ran `eventsched db upgrade`"
            message = str(problem).splitlines()[0]
            raise DatabaseRefusedError(shown(address), message, remedy) from problem


def grants(address: str) -> list[tuple[str, str]]:
    """(role, stream) of all grants, sorted. Raises UnavailableError."""
    migrations.require(address)
    with connect(address, "eventsched db grant") as connection:
        query = "SELECT role, stream FROM eventsched_log.stream_grant ORDER BY 1, 2"
        return connection.execute(query).fetchall()
