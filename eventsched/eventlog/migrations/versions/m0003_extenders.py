"""What extenders were asked, and what they answered."""

from importlib.resources import files

from alembic import op
from sqlalchemy import text

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_OWNER, _WRITER, _READER = "eventsched_owner", "eventsched_writer", "eventsched_reader"
_FUNCTION = "eventsched_log.rows_in(text)"


def upgrade() -> None:
    """Makes the view, as whoever owns the schema."""
    if with_roles := _with_roles():
        op.execute(f"SET LOCAL ROLE {_OWNER}")
    script = files("eventsched.eventlog").joinpath("sql", "0003_extenders.sql").read_text()
    op.get_bind().connection.cursor().execute(script)
    op.execute(f"REVOKE ALL ON FUNCTION {_FUNCTION} FROM PUBLIC")
    if with_roles:
        op.execute(f"GRANT SELECT ON eventsched.extender_calls TO {_WRITER}, {_READER}")
        op.execute(f"GRANT EXECUTE ON FUNCTION {_FUNCTION} TO {_WRITER}, {_READER}")
        op.execute("RESET ROLE")


def downgrade() -> None:
    """Takes it away again."""
    if with_roles := _with_roles():
        op.execute(f"SET LOCAL ROLE {_OWNER}")
    op.execute("DROP VIEW eventsched.extender_calls")
    op.execute(f"DROP FUNCTION {_FUNCTION}")
    if with_roles:
        op.execute("RESET ROLE")


def _with_roles() -> bool:
    """Whether the schema belongs to the owner's role, rather than to the one user there is."""
    owner = "SELECT nspowner::regrole::text FROM pg_namespace WHERE nspname = 'eventsched_log'"
    return bool(op.get_bind().execute(text(owner)).scalar() == _OWNER)
