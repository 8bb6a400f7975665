"""Stores the rows of a batch at its end, one statement for each table."""

from eventsched.eventlog.schema.revisions import as_owner, run_script

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Replaces the function that writes derived rows. The rows are the same."""
    with as_owner():
        run_script("0018_derive.sql")


def downgrade() -> None:
    """Restores the former function."""
    with as_owner():
        run_script("0010_derive.sql")
