"""Creates the view of the calls to extenders."""

from alembic import op

from eventsched.eventlog.schema.revisions import READER, WRITER, as_owner, run_script

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_FUNCTION = "eventsched_log.rows_in(text)"


def upgrade() -> None:
    """Creates the view and its function."""
    with as_owner() as with_roles:
        run_script("0003_extenders.sql")
        op.execute(f"REVOKE ALL ON FUNCTION {_FUNCTION} FROM PUBLIC")
        if with_roles:
            op.execute(f"GRANT SELECT ON eventsched.extender_calls TO {WRITER}, {READER}")
            op.execute(f"GRANT EXECUTE ON FUNCTION {_FUNCTION} TO {WRITER}, {READER}")


def downgrade() -> None:
    """Drops them."""
    with as_owner():
        op.execute("DROP VIEW eventsched.extender_calls")
        op.execute(f"DROP FUNCTION {_FUNCTION}")
