"""Lets the planner put the function ``time`` into queries as an expression.

Its body depends on the session's time zone as far as Postgres knows, so it is stable. Declared
immutable it was called instead, for each row and column: most of the time of a question about the
whole log.
"""

from alembic import op

from eventsched.eventlog.schema.revisions import as_owner

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Declares the function as what it is."""
    with as_owner():
        op.execute("ALTER FUNCTION eventsched_log.time(bigint) STABLE")


def downgrade() -> None:
    """Declares it immutable again."""
    with as_owner():
        op.execute("ALTER FUNCTION eventsched_log.time(bigint) IMMUTABLE")
