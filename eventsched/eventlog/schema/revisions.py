"""What the revisions in ``migrations/versions`` share: where they lie, their SQL, and whose schema
it is. Revisions are loaded by path and cannot import each other, so this module is in the package.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from alembic import op
from sqlalchemy import Connection, text

_MIGRATING = 0x6576656E7473
"""Key of the advisory lock of a database under which it is migrated."""
MIGRATION_LOCK_LIMIT = 600
"""Seconds that a migration waits for another one of the same database."""
TABLE_LOCK_LIMIT = 10
"""Seconds that a migration waits for a lock on a table: what comes after it in the queue, such as
the scheduler's appends, waits as long."""
OWNER, WRITER, READER = "eventsched_owner", "eventsched_writer", "eventsched_reader"


def lock_migrations(connection: Connection) -> None:
    """Waits until no other migration of the database is under way; until the transaction ends it
    is ours. From here on, nothing waits for a table's lock for longer than TABLE_LOCK_LIMIT."""
    connection.execute(text(f"SET LOCAL lock_timeout = '{MIGRATION_LOCK_LIMIT}s'"))
    connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _MIGRATING})
    connection.execute(text(f"SET LOCAL lock_timeout = '{TABLE_LOCK_LIMIT}s'"))


def folder() -> Path:
    """The migrations: inside the package if it was installed from a wheel, beside it in a checkout
    (also if that is installed in editable mode)."""
    package = Path(__file__).resolve().parents[2]
    inside = package / "migrations"
    return inside if inside.is_dir() else package.parent / "migrations"


def run_script(name: str) -> None:
    """Runs a file of ``migrations/sql``."""
    script = (folder() / "sql" / name).read_text(encoding="utf-8")
    # The driver's own cursor: the scripts hold many statements, and % and : that are no parameters.
    op.get_bind().connection.cursor().execute(script)


def has_roles() -> bool:
    """Whether the schema belongs to the owner's role, rather than to the one user there is."""
    owner = "SELECT nspowner::regrole::text FROM pg_namespace WHERE nspname = 'eventsched_log'"
    return bool(op.get_bind().execute(text(owner)).scalar() == OWNER)


@contextmanager
def as_owner() -> Iterator[bool]:
    """Runs what is inside as the owner of the schema. Gives whether there are roles, so that
    something has to be granted to them."""
    with_roles = has_roles()
    if with_roles:
        op.execute(f"SET LOCAL ROLE {OWNER}")
    yield with_roles
    if with_roles:
        op.execute("RESET ROLE")
