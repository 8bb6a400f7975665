"""Creates the view of the requests that other schedulers send to eventsched as their extender."""

from alembic import op

from eventsched.eventlog.schema.revisions import READER, WRITER, as_owner, run_script

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_VIEW = "eventsched.extender_inquiries"


def upgrade() -> None:
    """Creates the view."""
    with as_owner() as with_roles:
        run_script("0004_inquiries.sql")
        if with_roles:
            op.execute(f"GRANT SELECT ON {_VIEW} TO {WRITER}, {READER}")


def downgrade() -> None:
    """Drops it."""
    with as_owner():
        op.execute(f"DROP VIEW {_VIEW}")
