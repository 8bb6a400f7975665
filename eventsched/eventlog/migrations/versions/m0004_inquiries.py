"""What other schedulers asked us as their extender, and what they were answered."""

from importlib.resources import files

from alembic import op
from sqlalchemy import text

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_OWNER, _WRITER, _READER = "eventsched_owner", "eventsched_writer", "eventsched_reader"
_VIEW = "eventsched.extender_inquiries"


def upgrade() -> None:
    """Makes the view, as whoever owns the schema."""
    if with_roles := _with_roles():
        op.execute(f"SET LOCAL ROLE {_OWNER}")
    script = files("eventsched.eventlog").joinpath("sql", "0004_inquiries.sql").read_text()
    op.get_bind().connection.cursor().execute(script)
    if with_roles:
        op.execute(f"GRANT SELECT ON {_VIEW} TO {_WRITER}, {_READER}")
        op.execute("RESET ROLE")


def downgrade() -> None:
    """Takes it away again."""
    if with_roles := _with_roles():
        op.execute(f"SET LOCAL ROLE {_OWNER}")
    op.execute(f"DROP VIEW {_VIEW}")
    if with_roles:
        op.execute("RESET ROLE")


def _with_roles() -> bool:
    """Whether the schema belongs to the owner's role, rather than to the one user there is."""
    owner = "SELECT nspowner::regrole::text FROM pg_namespace WHERE nspname = 'eventsched_log'"
    return bool(op.get_bind().execute(text(owner)).scalar() == _OWNER)
