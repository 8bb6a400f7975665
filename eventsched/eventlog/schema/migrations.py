"""The schema's version: brought up, taken down, and checked before anything is read or written."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import psycopg
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, create_engine
from sqlalchemy.exc import DBAPIError, OperationalError, ProgrammingError
from sqlalchemy.pool import NullPool

from eventsched.eventlog import login_errors
from eventsched.eventlog.addresses import NOTICES, shown, sqlalchemy_url
from eventsched.eventlog.log_errors import DatabaseRefusedError, UnavailableError
from eventsched.eventlog.schema import revisions
from eventsched.eventlog.schema.log_tables import SCHEMA

_DENIED, _LOCKED = "42501", "55P03"
_NO_ENTRY = re.compile(
    r"password authentication failed|no password supplied|no pg_hba.conf entry|does not exist"
    r"|authentication failed|is not permitted to log in|permission denied for database"
    r"|invalid connection option|certificate verify failed|server does not support SSL"
)
"""What does not exist is a role or a database; where a socket is missing, there is no such file."""


def upgrade(address: str, revision: str = "head", *, one_user: bool = False) -> None:
    """Brings the schema to a revision, in one transaction, after any other process that is doing
    the same. With ``one_user`` no roles are made and everything belongs to whoever connects. Raises
    UnavailableError, also if others hold a table's lock for too long: nothing is changed then."""
    with _connected(address) as connection, _turn(address, connection):
        found = _current(connection)
        if found is not None and found not in _known():
            raise _newer(address, found)
        try:
            command.upgrade(_config(connection, one_user=one_user), revision)
        except ProgrammingError as problem:
            if getattr(problem.orig, "sqlstate", "") == _DENIED:
                raise _denied(address, problem) from problem
            raise


def downgrade(address: str, revision: str = "base") -> None:
    """Takes the schema back to a revision; "base" leaves nothing of it but the roles."""
    with _connected(address) as connection, _turn(address, connection):
        command.downgrade(_config(connection), revision)


def check(connection: Connection, address: str) -> None:
    """Raises RefusedError where the schema is missing, older or newer than this version."""
    found = _current(connection)
    newest = _script().get_current_head()
    if found == newest:
        return
    if found is not None and found not in _known():
        raise _newer(address, found)
    state = "has no eventsched schema" if found is None else f"has schema {found}, not {newest}"
    raise DatabaseRefusedError(shown(address), state, "run `eventsched db upgrade`")


def require(address: str) -> None:
    """Connects and checks. Raises RefusedError where the schema is not this version's, and
    UnavailableError where the database is away."""
    with _connected(address) as connection:
        check(connection, address)


def newest() -> str:
    """The revision that this version's migrations come to."""
    return _script().get_current_head() or ""


def drift(address: str) -> list[Any]:
    """How the database differs from the tables in log_tables.py (what ``alembic check`` says)."""
    from alembic.autogenerate import compare_metadata

    from eventsched.eventlog.schema.log_tables import metadata

    with _connected(address) as connection:
        options = {
            "include_schemas": True,
            "include_name": lambda name, kind, _: kind != "schema" or name == SCHEMA,
            "version_table": "migration",
            "version_table_schema": SCHEMA,
            "compare_type": True,
        }
        context = MigrationContext.configure(connection, opts=options)
        found: list[Any] = compare_metadata(context, metadata)
        return found


@contextmanager
def _turn(address: str, connection: Connection) -> Iterator[None]:
    try:
        revisions.lock_migrations(connection)
        yield
    except (psycopg.errors.LockNotAvailable, OperationalError) as problem:
        locked = problem.orig if isinstance(problem, OperationalError) else problem
        if not isinstance(locked, psycopg.errors.LockNotAvailable):
            raise
        raise UnavailableError(
            shown(address),
            f"{str(locked).splitlines()[0]}: another session uses what is to be changed",
            "try again when long queries and open transactions have ended "
            "(pg_stat_activity shows them)",
        ) from problem


def _denied(address: str, problem: ProgrammingError) -> UnavailableError:
    said = _first_line(problem)
    if "eventsched_owner" not in (problem.statement or ""):
        return UnavailableError(
            shown(address), said, "GRANT CREATE ON DATABASE to this user, or be another one"
        )
    return UnavailableError(
        shown(address),
        f"{said} (the roles eventsched_owner, _writer and _reader)",
        "run `eventsched db upgrade` as a user who may create roles, or pass "
        "--one-user to do without them",
    )


def _newer(address: str, found: str) -> DatabaseRefusedError:
    return DatabaseRefusedError(
        shown(address),
        f"its schema {found} is newer than this version of eventsched knows",
        "install the version of eventsched that made it, or a newer one",
    )


def _known() -> set[str]:
    return {script.revision for script in _script().walk_revisions()}


def _current(connection: Connection) -> str | None:
    """The revision, None without a schema. Raises UnavailableError for a schema without one."""
    found = None
    if connection.dialect.has_table(connection, "migration", schema=SCHEMA):
        context = MigrationContext.configure(
            connection, opts={"version_table": "migration", "version_table_schema": SCHEMA}
        )
        found = context.get_current_revision()
    if found is None and connection.dialect.has_table(connection, "batch", schema=SCHEMA):
        raise UnavailableError(
            shown(connection.engine.url),
            f"its schema has no revision: the row of {SCHEMA}.migration is missing",
            "restore the database, or put the row back if you know which it was",
        )
    return found


@cache
def _script() -> ScriptDirectory:
    """The revisions that there are; reading them takes a tenth of a second."""
    return ScriptDirectory.from_config(_config())


def _config(connection: Connection | None = None, *, one_user: bool = False) -> Config:
    config = Config()
    config.set_main_option("script_location", str(revisions.folder()).replace("%", "%%"))
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
    """What to say of a database that does not answer, or does not let us in."""
    return unreachable(address, _first_line(problem))


def unreachable(address: str, said: str) -> UnavailableError:
    """What to say where a connection cannot be had; ``said`` is libpq's word. What waiting would
    not mend is told by these words, or, where the server speaks another language, by asking again.
    """
    refused = _NO_ENTRY.search(said) or login_errors.is_permanent(address, said)
    kind = DatabaseRefusedError if refused else UnavailableError
    remedy = "mend the address" if refused else "start the database, or mend its address"
    return kind(shown(address), said, remedy)


def _is_connection_error(problem: DBAPIError) -> bool:
    return isinstance(problem.orig, psycopg.OperationalError | psycopg.InterfaceError)


def _first_line(problem: DBAPIError) -> str:
    return str(problem.orig).strip().splitlines()[0]
