"""Shows pods that no node would take apart from starving ones, and finds ping-pongs by windows."""

from alembic import op

from eventsched.eventlog.schema.migration_files import folder
from eventsched.eventlog.schema.revisions import (
    AUDITOR,
    READER,
    TENANT,
    WRITER,
    as_owner,
    execute_script,
    run_script,
)

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None

_BASE, _VIEW = "eventsched_log.long_wait", "eventsched.unplaceable_pods"
_TENANT = "eventsched.tenant_unplaceable_pods(text, text)"
_REPLACED = "starving_pods", "ping_pongs"


def upgrade() -> None:
    """Defines the views."""
    with as_owner() as with_roles:
        run_script("0021_views.sql")
        op.execute(f"REVOKE ALL ON FUNCTION {_TENANT} FROM PUBLIC")
        if with_roles:
            op.execute(f"GRANT SELECT ON {_BASE} TO {WRITER}, {AUDITOR}")
            op.execute(f"GRANT SELECT ON {_VIEW} TO {WRITER}, {READER}, {AUDITOR}")
            op.execute(f"GRANT EXECUTE ON FUNCTION {_TENANT} TO {TENANT}")


def downgrade() -> None:
    """Restores the former definitions."""
    with as_owner():
        for name in _REPLACED:
            execute_script(_former(name))
        op.execute(f"DROP FUNCTION {_TENANT}")
        op.execute(f"DROP VIEW {_VIEW}, {_BASE}")
        op.execute(_STARVING_COMMENT)


_STARVING_COMMENT = """
COMMENT ON VIEW eventsched.starving_pods IS
    'Pods that have waited ten minutes or longer while pods of the same or a lower priority that '
    'came later were placed, and are still there'
"""


def _former(name: str) -> str:
    """The definition of a view in 0020."""
    script = (folder() / "sql" / "0020_views.sql").read_text(encoding="utf-8")
    start = script.index(f"VIEW eventsched.{name} AS")
    return "CREATE OR REPLACE " + script[start : script.index(";\n", start) + 2]
