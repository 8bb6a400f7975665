"""Upgrades and downgrades the schema, and checks its version before anything is read or written.

Every command checks the version, and few migrate. So Alembic is imported by the functions that need
it: importing it takes longer than most commands.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import psycopg
from sqlalchemy import Connection, create_engine, inspect, text
from sqlalchemy.exc import DBAPIError, OperationalError, ProgrammingError
from sqlalchemy.pool import NullPool

from eventsched.domain.errors import UnavailableError
from eventsched.eventlog import login_errors
from eventsched.eventlog.addresses import NOTICES, shown, sqlalchemy_url
from eventsched.eventlog.log_errors import DatabaseRefusedError, LoginRefusedError
from eventsched.eventlog.schema import migration_files
from eventsched.eventlog.schema.migration_files import PRE, SCHEMA

if TYPE_CHECKING:
    from alembic.config import Config

_DENIED = "42501"
_VERSIONS = "migration"
"""Alembic's table, with the revision and what it serves."""
_STORED = f"""
SELECT version_num, coalesce(to_jsonb(m) ->> 'serves', '') FROM {SCHEMA}.{_VERSIONS} m
"""
_NO_ENTRY = re.compile(
    r"password authentication failed|no password supplied|no pg_hba.conf entry|does not exist"
    r"|authentication failed|is not permitted to log in|permission denied for database"
    r"|invalid connection option|certificate verify failed|server does not support SSL"
)
"""libpq's messages of permanent failures, in English. "does not exist" is about a role or a
database; for a missing socket the message is "No such file or directory"."""


_REPLICAS = """
SELECT application_name FROM pg_stat_activity
WHERE datname = current_database() AND application_name ~ '^eventsched( [0-9]+)? follows '
ORDER BY 1
"""
_REPLICA = re.compile(r"eventsched (?:(\d+) )?follows (.*)")
"""The name of a replica's session (``replica_session``). Those of 0.1 have no revision."""


class StoredVersion(NamedTuple):
    """The version of a database's schema: its revision, and what ``migration_files.served``
    returns for it in the version that made it; "" if that was one which did not write this down."""

    revision: str
    serves: str

    @property
    def runs_us(self) -> bool:
        """Whether this version runs on it."""
        revisions = migration_files.revisions()
        if self.revision in revisions:
            return self.revision >= migration_files.needed()
        return "" < self.serves <= revisions[-1]


def replica_session(stream: str) -> str:
    """The application_name of the session with which a replica follows a stream. The revision in it
    shows an upgrade which versions run."""
    return f"eventsched {newest()} follows {stream}"


def upgrade(
    address: str, revision: str = "head", *, one_user: bool = False, step: str = ""
) -> str | None:
    """Upgrades the schema to a revision, in one transaction. Waits for other processes that do the
    same. With ``one_user`` no roles are created and everything belongs to the connected user.
    Returns the revision of before. A schema that is newer and runs this version stays as it is.

    ``step`` is PRE for what this version needs to run, or POST for all that follows. Both are
    refused while a replica runs that the schema would no longer serve; without a step the caller
    sees to that.

    Raises UnavailableError, also if another session holds a table's lock for too long; nothing is
    changed then."""
    from alembic import command

    with _connected(address) as connection, _exclusively(address, connection):
        stored = _current(connection)
        if stored is not None and stored.revision not in migration_files.revisions():
            if stored.runs_us:
                return stored.revision
            raise _newer(address, stored.revision)
        _require_no_union(connection, address)
        before = None if stored is None else stored.revision
        if step and before is not None:
            revision = _target(address, before, step)
            if revision == before:
                return before
            _require_served(connection, address, migration_files.served(revision))
        try:
            command.upgrade(_config(connection, one_user=one_user), revision)
        except ProgrammingError as problem:
            if getattr(problem.orig, "sqlstate", "") == _DENIED:
                raise _denied(address, problem) from problem
            raise
        return before


def _target(address: str, before: str, step: str) -> str:
    """The revision to which a step takes a schema. Raises DatabaseRefusedError for the step after a
    missing one."""
    needed = migration_files.needed()
    if step == PRE:
        return max(before, needed)
    if before < needed:
        raise DatabaseRefusedError(
            shown(address),
            f"has schema {before}, and this version needs {needed} before its step post",
            "run `eventsched db upgrade --pre`, and replace all replicas by this version",
        )
    return newest()


def _require_served(connection: Connection, address: str, served: str) -> None:
    """Raises DatabaseRefusedError if replicas run that know no revision from ``served`` on."""
    older = [
        f"{match[2]} (schema {match[1]})" if match[1] else match[2]
        for name in connection.scalars(text(_REPLICAS))
        if (match := _REPLICA.fullmatch(name)) and (match[1] or "") < served
    ]
    if older:
        raise DatabaseRefusedError(
            shown(address),
            f"replicas of an older version run, which schema {served} does not serve: they follow "
            + ", ".join(older),
            "replace them by this version, or stop them, first",
        )


def downgrade(address: str, revision: str = "base") -> None:
    """Downgrades the schema to a revision; "base" removes everything except the roles."""
    from alembic import command

    with _connected(address) as connection, _exclusively(address, connection):
        command.downgrade(_config(connection), revision)


def check(connection: Connection, address: str) -> str:
    """Returns the schema's revision. Raises DatabaseRefusedError if this version does not run on
    it, or there is none."""
    stored = _current(connection)
    if stored is None:
        _require_no_union(connection, address)
        problem, remedy = "has no eventsched schema", "run `eventsched db upgrade`"
        raise DatabaseRefusedError(shown(address), problem, remedy)
    if stored.runs_us:
        return stored.revision
    if stored.revision not in migration_files.revisions():
        raise _newer(address, stored.revision)
    raise DatabaseRefusedError(
        shown(address),
        f"has schema {stored.revision}, not {migration_files.needed()}",
        "run `eventsched db upgrade`",
    )


def require(address: str) -> str:
    """Connects and checks, and returns the schema's revision. Raises DatabaseRefusedError if this
    version does not run on it, and UnavailableError if the database is unreachable."""
    with _connected(address) as connection:
        return check(connection, address)


def is_newest(connection: Connection) -> bool:
    """Whether the schema has all migrations of this version. Raises UnavailableError."""
    stored = _current(connection)
    return stored is not None and stored.revision == newest()


def state_served(connection: Connection) -> None:
    """Writes down what the schema serves, beside its revision, for versions that do not know the
    revision. The column belongs to Alembic's table of versions, so no migration makes it."""
    inspector = inspect(connection)
    if not inspector.has_table(_VERSIONS, SCHEMA):
        return
    columns = [column["name"] for column in inspector.get_columns(_VERSIONS, SCHEMA)]
    if "serves" not in columns:
        connection.execute(text(f"ALTER TABLE {SCHEMA}.{_VERSIONS} ADD COLUMN serves text"))
    revision = connection.scalar(text(f"SELECT version_num FROM {SCHEMA}.{_VERSIONS}"))
    if revision is not None:
        connection.execute(
            text(f"UPDATE {SCHEMA}.{_VERSIONS} SET serves = :serves"),
            {"serves": migration_files.served(revision)},
        )


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
            "version_table": _VERSIONS,
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
    statement = problem.statement or ""
    if "CREATE ROLE" not in statement and "GRANT eventsched_" not in statement:
        return UnavailableError(
            shown(address), message, "GRANT CREATE ON DATABASE to this user, or use another user"
        )
    return UnavailableError(
        shown(address),
        f"{message} (the roles whose names begin with eventsched_)",
        "run `eventsched db upgrade` as a user who may create roles, or pass "
        "--one-user to do without them",
    )


def _newer(address: str, revision: str) -> DatabaseRefusedError:
    return DatabaseRefusedError(
        shown(address),
        f"its schema {revision} is newer than this version of eventsched knows, and does not serve "
        "it",
        "install the version of eventsched that made it, or a newer one",
    )


def _require_no_union(connection: Connection, address: str) -> None:
    """Raises DatabaseRefusedError for the database of a union of logs."""
    if connection.dialect.has_table(connection, "member", schema="eventsched_union"):
        remedy = "ask it with `eventsched sql`; for all else name the database of one server"
        raise DatabaseRefusedError(shown(address), "is a union of several servers", remedy)


def _current(connection: Connection) -> StoredVersion | None:
    """The schema's version; None without a schema. Raises UnavailableError for a schema without a
    revision."""
    row = None
    if connection.dialect.has_table(connection, _VERSIONS, schema=SCHEMA):
        row = connection.execute(text(_STORED)).one_or_none()
    if row is None and connection.dialect.has_table(connection, "batch", schema=SCHEMA):
        raise UnavailableError(
            shown(connection.engine.url),
            f"its schema has no revision: the row of {SCHEMA}.migration is missing",
            "restore the database, or insert the row again if you know the revision",
        )
    return None if row is None else StoredVersion(*row)


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
