"""Keeps snapshots as long as their records, one for each 25,000 positions."""

from alembic import op

from eventsched.eventlog.schema.migration_files import folder
from eventsched.eventlog.schema.revisions import as_owner, run_script

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None

_BEGIN, _END = "CREATE OR REPLACE FUNCTION eventsched_log.keep_snapshot(", "END $$;\n"


def upgrade() -> None:
    """Replaces the function that stores snapshots."""
    with as_owner():
        run_script("0019_snapshots.sql")


def downgrade() -> None:
    """Restores the former function, which keeps the newest three. It deletes the others when it
    stores the next one."""
    with as_owner():
        script = (folder() / "sql" / "0006_reading.sql").read_text(encoding="utf-8")
        start = script.index(_BEGIN)
        op.execute(script[start : script.index(_END, start) + len(_END)])
