"""Lets SQL read the vectors of decisions of which only the best nodes are stored."""

from alembic import op

from eventsched.eventlog.schema.migration_files import folder
from eventsched.eventlog.schema.revisions import as_owner, run_script

revision = "0016"
down_revision = "0014"  # always that of the migration before it: no other one depends on it
branch_labels = None
depends_on = None

_BEGIN, _END = "CREATE OR REPLACE FUNCTION eventsched_log.vector(", "\n$$;\n"


def upgrade() -> None:
    """Replaces the function that reads a vector."""
    with as_owner():
        run_script("0016_partial_vectors.sql")


def downgrade() -> None:
    """Restores the former function. It reads rows that a partial vector lacks as 0."""
    with as_owner():
        script = (folder() / "sql" / "0006_reading.sql").read_text(encoding="utf-8")
        start = script.index(_BEGIN)
        op.execute(script[start : script.index(_END, start) + len(_END)])
