"""Grants: which login roles may write which streams (migrations/sql/0007_grants.sql), and which
tenants see which namespaces (migrations/sql/0014_tenants.sql)."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, LiteralString

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
_SHOW = """
INSERT INTO eventsched_log.tenant_grant (role, namespace, stream) VALUES (%s, %s, %s)
ON CONFLICT DO NOTHING
"""
_HIDE = """
DELETE FROM eventsched_log.tenant_grant WHERE role = %s AND namespace = %s AND stream = %s
"""
_TENANT = """
SELECT (SELECT pg_has_role(r.oid, t.oid, 'USAGE') FROM pg_roles t
        WHERE t.rolname = 'eventsched_tenant'
        AND has_schema_privilege(t.oid, 'eventsched', 'USAGE'))
FROM pg_roles r WHERE r.rolname = %s
"""
"""Whether a role is a tenant; null if this database has no tenants, because it has no roles."""


def grant(address: str, role: str, stream: str, *, revoke: bool = False) -> bool:
    """Allows a role to write a stream, or with ``revoke`` no longer allows it. Returns whether that
    changed anything. The user of the address must be the owner of the schema or a member of the
    owner's role. Raises InputError if the role does not exist, DatabaseRefusedError if the user
    lacks the privilege, and UnavailableError."""
    with _changing(address) as connection:
        roles = connection.execute("SELECT FROM pg_roles WHERE rolname = %s", (role,))
        if roles.fetchone() is None and not revoke:
            raise InputError("--role", f"there is no role {role}", "CREATE ROLE … LOGIN first")
        return _changed(connection, _REVOKE if revoke else _GRANT, (role, stream))


def grant_namespace(
    address: str, role: str, namespace: str, stream: str | None = None, *, revoke: bool = False
) -> bool:
    """Shows a tenant the decisions about a namespace, in one stream or in all, or with ``revoke``
    no longer. Returns whether that changed anything. Raises as ``grant`` does, and InputError if
    the role is not a tenant."""
    with _changing(address) as connection:
        row = connection.execute(_TENANT, (role,)).fetchone()
        if not revoke and (row is None or not row[0]):
            problem = f"role {role} is not a member of eventsched_tenant"
            remedy = f"GRANT eventsched_tenant TO {role} first"
            if row is None:
                problem, remedy = f"there is no role {role}", "CREATE ROLE … LOGIN first"
            elif row[0] is None:
                problem = "tenants need roles, and this database was made with --one-user"
                remedy = "use a database of `eventsched db upgrade` without it"
            raise InputError("--role", problem, remedy)
        return _changed(connection, _HIDE if revoke else _SHOW, (role, namespace, stream or ""))


def grants(address: str) -> list[tuple[str, str]]:
    """(role, stream) of all grants to write, sorted. Raises UnavailableError."""
    query = "SELECT role, stream FROM eventsched_log.stream_grant ORDER BY 1, 2"
    return _rows(address, query)


def namespace_grants(address: str) -> list[tuple[str, str, str]]:
    """(role, namespace, stream) of all grants of tenants, sorted; stream "" means all. Raises
    UnavailableError."""
    query = "SELECT role, namespace, stream FROM eventsched_log.tenant_grant ORDER BY 1, 2, 3"
    return _rows(address, query)


def _rows(address: str, query: LiteralString) -> list[Any]:
    migrations.require(address)
    with connect(address, "eventsched db grant") as connection:
        return connection.execute(query).fetchall()


@contextmanager
def _changing(address: str) -> Iterator[psycopg.Connection[Any]]:
    """A connection for a change. Raises DatabaseRefusedError if the user lacks the privilege."""
    migrations.require(address)
    with connect(address, "eventsched db grant") as connection:
        try:
            yield connection
        except psycopg.errors.InsufficientPrivilege as problem:
            remedy = "connect as the user who ran `eventsched db upgrade`"
            message = str(problem).splitlines()[0]
            raise DatabaseRefusedError(shown(address), message, remedy) from problem


def _changed(
    connection: psycopg.Connection[Any], statement: LiteralString, values: tuple[str, ...]
) -> bool:
    """Runs a statement as the owner of the schema. Returns whether it changed a row."""
    with connection.transaction():
        owner = connection.execute(
            "SELECT format('SET LOCAL ROLE %I', nspowner::regrole::text) FROM pg_namespace"
            " WHERE nspname = 'eventsched_log' AND nspowner::regrole::text <> current_user"
        ).fetchone()
        if owner is not None:
            connection.execute(owner[0].encode())
        return connection.execute(statement, values).rowcount > 0
