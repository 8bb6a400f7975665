"""Upgrades and downgrades the schema, and checks its version before anything is read or written.

Every command checks the version, and few migrate. So Alembic is imported by the functions that need
it: importing it takes longer than most commands.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import psycopg
from sqlalchemy import Connection, create_engine, text
from sqlalchemy.exc import DBAPIError, OperationalError, ProgrammingError
from sqlalchemy.pool import NullPool

from eventsched.domain.errors import UnavailableError
from eventsched.eventlog import login_errors
from eventsched.eventlog.addresses import NOTICES, shown, sqlalchemy_url
from eventsched.eventlog.log_errors import DatabaseRefusedError, LoginRefusedError
from eventsched.eventlog.schema import migration_files
from eventsched.eventlog.schema.log_tables import SCHEMA

if TYPE_CHECKING:
    from alembic.config import Config

_DENIED, _LOCKED = "42501", "55P03"
_NO_ENTRY = re.compile(
    r"password authentication failed|no password supplied|no pg_hba.conf entry|does not exist"
    r"|authentication failed|is not permitted to log in|permission denied for database"
    r"|invalid connection option|certificate verify failed|server does not support SSL"
)
"""libpq's messages of permanent failures, in English. "does not exist" is about a role or a
database; for a missing socket the message is "No such file or directory"."""


def upgrade(address: str, revision: str = "head", *, one_user: bool = False) -> None:
    """Upgrades the schema to a revision, in one transaction. Waits for other processes that do the
    same. With ``one_user`` no roles are created and everything belongs to the connected user.
    Raises UnavailableError, also if another session holds a table's lock for too long; nothing is
    changed then."""
    from alembic import command

    with _connected(address) as connection, _exclusively(address, connection):
        current = _current(connection)
        if current is not None and current not in migration_files.revisions():
            raise _newer(address, current)
        _require_no_union(connection, address)
        try:
            command.upgrade(_config(connection, one_user=one_user), revision)
        except ProgrammingError as problem:
            if getattr(problem.orig, "sqlstate", "") == _DENIED:
                raise _denied(address, problem) from problem
            raise


def downgrade(address: str, revision: str = "base") -> None:
    """Downgrades the schema to a revision; "base" removes everything except the roles."""
    from alembic import command

    with _connected(address) as connection, _exclusively(address, connection):
        command.downgrade(_config(connection), revision)


def check(connection: Connection, address: str) -> None:
    """Raises DatabaseRefusedError if the schema is missing, or older or newer than this version."""
    current = _current(connection)
    if current == newest():
        return
    if current is not None and current not in migration_files.revisions():
        raise _newer(address, current)
    _require_no_union(connection, address)
    state = "has no eventsched schema"
    if current is not None:
        state = f"has schema {current}, not {newest()}"
    raise DatabaseRefusedError(shown(address), state, "run `eventsched db upgrade`")


def require(address: str) -> None:
    """Connects and checks. Raises DatabaseRefusedError if the schema is not this version's, and
    UnavailableError if the database is unreachable."""
    with _connected(address) as connection:
        check(connection, address)


def newest() -> str:
    """The newest revision of this version's migrations."""
    return migration_files.revisions()[-1]


def drift(address: str) -> list[Any]:
    """The differences between the database and log_tables.py, as ``alembic check`` reports them."""
    from alembic.autogenerate import compare_metadata
    from alembic.runtime.migration import MigrationContext

    from eventsched.eventlog.schema.log_tables import is_included, metadata

    with _connected(address) as connection:
        options = {
            "include_schemas": True,
            "include_name": lambda name, kind, _: is_included(name, kind),
            "version_table": "migration",
            "version_table_schema": SCHEMA,
            "compare_type": True,
        }
        context = MigrationContext.configure(connection, opts=options)
        differences: list[Any] = compare_metadata(context, metadata)
        return differences


@contextmanager
def _exclusively(address: str, connection: Connection) -> Iterator[None]:
    """Runs the block while no other process migrates the database. Raises UnavailableError for a
    lock timeout."""
    from eventsched.eventlog.schema import revisions

    try:
        revisions.lock_migrations(connection)
        yield
    except (psycopg.errors.LockNotAvailable, OperationalError) as problem:
        locked = problem.orig if isinstance(problem, OperationalError) else problem
        if not isinstance(locked, psycopg.errors.LockNotAvailable):
            raise
        raise UnavailableError(
            shown(address),
            f"{str(locked).splitlines()[0]}: another session holds a lock that the migration needs",
            "try again when long queries and open transactions have ended "
            "(pg_stat_activity shows them)",
        ) from problem


def _denied(address: str, problem: ProgrammingError) -> UnavailableError:
    message = _first_line(problem)
    if "eventsched_owner" not in (problem.statement or ""):
        return UnavailableError(
            shown(address), message, "GRANT CREATE ON DATABASE to this user, or use another user"
        )
    return UnavailableError(
        shown(address),
        f"{message} (the roles eventsched_owner, _writer and _reader)",
        "run `eventsched db upgrade` as a user who may create roles, or pass "
        "--one-user to do without them",
    )


def _newer(address: str, revision: str) -> DatabaseRefusedError:
    return DatabaseRefusedError(
        shown(address),
        f"its schema {revision} is newer than this version of eventsched knows",
        "install the version of eventsched that made it, or a newer one",
    )


def _require_no_union(connection: Connection, address: str) -> None:
    """Raises DatabaseRefusedError for the database of a union of logs."""
    if connection.dialect.has_table(connection, "member", schema="eventsched_union"):
        remedy = "ask it with `eventsched sql`; for all else name the database of one server"
        raise DatabaseRefusedError(shown(address), "is a union of several servers", remedy)


def _current(connection: Connection) -> str | None:
    """The schema's revision; None without a schema. Raises UnavailableError for a schema without a
    revision."""
    revision = None
    if connection.dialect.has_table(connection, "migration", schema=SCHEMA):
        revision = connection.scalar(text(f"SELECT version_num FROM {SCHEMA}.migration"))
    if revision is None and connection.dialect.has_table(connection, "batch", schema=SCHEMA):
        raise UnavailableError(
            shown(connection.engine.url),
            f"its schema has no revision: the row of {SCHEMA}.migration is missing",
            "restore the database, or insert the row again if you know the revision",
        )
    return revision


def _config(connection: Connection | None = None, *, one_user: bool = False) -> "Config":
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(migration_files.folder()).replace("%", "%%"))
    config.attributes.update(connection=connection, one_user=one_user)
    return config


@contextmanager
def _connected(address: str) -> Iterator[Connection]:
    engine = create_engine(sqlalchemy_url(address), poolclass=NullPool, connect_args=dict(NOTICES))
    try:
        with engine.begin() as connection:
            yield connection
    except DBAPIError as problem:
        if problem.connection_invalidated or problem.orig is None or _is_connection_error(problem):
            raise connection_error(address, problem) from problem
        raise
    finally:
        engine.dispose()


def connection_error(address: str, problem: DBAPIError) -> UnavailableError:
    """The error for a database that does not answer or refuses the login."""
    return unreachable(address, _first_line(problem))


def unreachable(address: str, message: str) -> UnavailableError:
    """The error for a failed connection, with libpq's message: LoginRefusedError if waiting
    would not help. The message shows that, or, if the server uses another language, a second login
    (login_errors.py)."""
    is_permanent = _NO_ENTRY.search(message) or login_errors.is_permanent(address, message)
    error = LoginRefusedError if is_permanent else UnavailableError
    remedy = "correct the address" if is_permanent else "start the database, or correct its address"
    return error(shown(address), message, remedy)


def _is_connection_error(problem: DBAPIError) -> bool:
    return isinstance(problem.orig, psycopg.OperationalError | psycopg.InterfaceError)


def _first_line(problem: DBAPIError) -> str:
    return str(problem.orig).strip().splitlines()[0]
