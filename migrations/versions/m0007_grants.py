"""Creates the table of grants: which login roles may write which streams."""

from alembic import op

from eventsched.eventlog.schema.revisions import READER, WRITER, as_owner, run_script

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

_THIN, _UNCHECKED = (
    f"eventsched_log.{name}(text, timestamptz)" for name in ("thin", "thin_unchecked")
)
_INTERNAL = "eventsched_log.require_grant(text), eventsched_log.check_grant()"


def upgrade() -> None:
    """Creates the table, and the functions and triggers that check it."""
    with as_owner() as with_roles:
        run_script("0007_grants.sql")
        op.execute(f"REVOKE ALL ON FUNCTION {_INTERNAL}, {_THIN}, {_UNCHECKED} FROM PUBLIC")
        if with_roles:
            op.execute(f"REVOKE ALL ON FUNCTION {_UNCHECKED} FROM {WRITER}")
            op.execute(f"GRANT EXECUTE ON FUNCTION {_THIN} TO {WRITER}")
            op.execute(f"GRANT SELECT ON eventsched_log.stream_grant TO {WRITER}, {READER}")


def downgrade() -> None:
    """Drops them: every writer may write every stream."""
    with as_owner() as with_roles:
        op.execute(f"DROP FUNCTION {_THIN}")
        for table in ("head", "snapshot"):
            op.execute(f"DROP TRIGGER check_grant ON eventsched_log.{table}")
        op.execute(f"DROP FUNCTION {_INTERNAL}")
        op.execute("DROP TABLE eventsched_log.stream_grant")
        op.execute(f"ALTER FUNCTION {_UNCHECKED} RENAME TO thin")
        if with_roles:
            op.execute(f"GRANT EXECUTE ON FUNCTION {_THIN} TO {WRITER}")
