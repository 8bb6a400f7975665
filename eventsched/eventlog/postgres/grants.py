"""Which login roles may write which streams (migrations/sql/0007_grants.sql)."""

import psycopg

from eventsched.domain.errors import InputError
from eventsched.eventlog.addresses import shown
from eventsched.eventlog.log_errors import DatabaseRefusedError
from eventsched.eventlog.postgres.writer_connection import connected
from eventsched.eventlog.schema import migrations

_GRANT = """
INSERT INTO eventsched_log.stream_grant (role, stream) VALUES (%s, %s) ON CONFLICT DO NOTHING
"""
_REVOKE = "DELETE FROM eventsched_log.stream_grant WHERE role = %s AND stream = %s"


def grant(address: str, role: str, stream: str, *, revoke: bool = False) -> bool:
    """Lets a role write a stream, or no longer; whether that changes anything. As the owner of the
    schema, which the user of the address must be or be a member of. Raises InputError for a role
    that does not exist, RefusedError for a user who may not, UnavailableError."""
    migrations.require(address)
    with connected(address, "eventsched db grant") as connection:
        try:
            known = connection.execute("SELECT FROM pg_roles WHERE rolname = %s", (role,))
            if known.fetchone() is None and not revoke:
                raise InputError("--role", f"there is no role {role}", "CREATE ROLE … LOGIN first")
            with connection.transaction():
                owner = connection.execute(
                    "SELECT format('SET LOCAL ROLE %I', nspowner::regrole::text) FROM pg_namespace"
                    " WHERE nspname = 'eventsched_log' AND nspowner::regrole::text <> current_user"
                ).fetchone()
                if owner is not None:
                    connection.execute(owner[0].encode())
                done = connection.execute(_REVOKE if revoke else _GRANT, (role, stream))
                return done.rowcount > 0
        except psycopg.errors.InsufficientPrivilege as problem:
            said = str(problem).splitlines()[0]
            remedy = "be the user who ran `eventsched db upgrade`"
            raise DatabaseRefusedError(shown(address), said, remedy) from problem


def grants(address: str) -> list[tuple[str, str]]:
    """(role, stream) of all grants, in order. Raises UnavailableError."""
    migrations.require(address)
    with connected(address, "eventsched db grant") as connection:
        query = "SELECT role, stream FROM eventsched_log.stream_grant ORDER BY 1, 2"
        return connection.execute(query).fetchall()
