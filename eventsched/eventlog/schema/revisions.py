"""Functions that the revisions in ``migrations/versions`` share: the SQL scripts, roles
and locks. Alembic loads revisions by path, so they cannot import each other but can import this.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from alembic import op
from sqlalchemy import Connection, text

from eventsched.eventlog.schema import migration_files

_MIGRATING = 0x6576656E7473
"""The key of the advisory lock that a migration of the database holds."""
MIGRATION_LOCK_LIMIT = 600
"""Seconds for which a migration waits for another one of the same database."""
TABLE_LOCK_LIMIT = 10
"""Seconds for which a migration waits for a lock on a table. Sessions behind it in the lock's
queue, such as the scheduler's appends, wait as long."""
OWNER, WRITER, READER = "eventsched_owner", "eventsched_writer", "eventsched_reader"
MIGRATOR, AUDITOR = "eventsched_migrator", "eventsched_auditor"
ARCHIVER, TENANT = "eventsched_archiver", "eventsched_tenant"


def lock_migrations(connection: Connection) -> None:
    """Takes the migration lock until the end of the transaction; waits for another migration. From
    then on, no statement waits for a table's lock longer than TABLE_LOCK_LIMIT."""
    connection.execute(text(f"SET LOCAL lock_timeout = '{MIGRATION_LOCK_LIMIT}s'"))
    connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _MIGRATING})
    connection.execute(text(f"SET LOCAL lock_timeout = '{TABLE_LOCK_LIMIT}s'"))


def run_script(name: str) -> None:
    """Runs a file of ``migrations/sql``."""
    script = (migration_files.folder() / "sql" / name).read_text(encoding="utf-8")
    execute_script(script)


def execute_script(statements: str) -> None:
    """Executes SQL statements. Uses the driver's cursor, because SQLAlchemy would take ``%`` and
    ``:`` for parameters and allows only one statement."""
    op.get_bind().connection.cursor().execute(statements)


def has_roles() -> bool:
    """Whether the schema belongs to the role eventsched_owner, rather than to a single user."""
    owner = "SELECT nspowner::regrole::text FROM pg_namespace WHERE nspname = 'eventsched_log'"
    return bool(op.get_bind().execute(text(owner)).scalar() == OWNER)


def create_role(role: str, attributes: str = "") -> None:
    """Creates a role that cannot log in, unless there is one of that name: roles belong to the
    server, and an administrator may have made it."""
    op.execute(
        f"DO $$ BEGIN IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = '{role}') THEN "
        f"CREATE ROLE {role} NOLOGIN {attributes}; END IF; "
        # Two databases of a server may be set up at the same time.
        "EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$"
    )


@contextmanager
def as_owner() -> Iterator[bool]:
    """Runs the block as the owner of the schema. Yields whether the database has eventsched's
    roles, which then need grants."""
    with_roles = has_roles()
    if with_roles:
        op.execute(f"SET LOCAL ROLE {OWNER}")
    yield with_roles
    if with_roles:
        op.execute("RESET ROLE")
