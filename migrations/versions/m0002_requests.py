"""Creates the table of operators' requests, and views of the plugins' memories."""

from alembic import op

from eventsched.eventlog.schema.revisions import READER, WRITER, as_owner, run_script

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_FORMER_FIRST_NODES = """
CREATE OR REPLACE VIEW eventsched.first_nodes AS
SELECT stream, key, node, seq, at
FROM (
    SELECT DISTINCT ON (stream, record ->> 'key')
           stream, record ->> 'key' AS key, record ->> 'value' AS node, seq, at
    FROM eventsched.events
    WHERE kind = 'MemoryChanged' AND record ->> 'plugin' = 'FirstScheduledNode'
    ORDER BY stream, record ->> 'key', seq DESC
) newest
WHERE node IS NOT NULL
"""


def upgrade() -> None:
    """Creates the table, its functions and views."""
    with as_owner() as with_roles:
        run_script("0002_requests.sql")
        functions = "eventsched_log.ask_to_forget(text, text, text), eventsched_log.mark_requests()"
        op.execute(f"REVOKE ALL ON FUNCTION {functions} FROM PUBLIC")
        if with_roles:
            relations = "eventsched_log.request, eventsched.requests, eventsched.memory"
            op.execute(f"GRANT SELECT ON {relations} TO {WRITER}, {READER}")
            function = "eventsched_log.ask_to_forget(text, text, text)"
            op.execute(f"GRANT EXECUTE ON FUNCTION {function} TO {WRITER}")


def downgrade() -> None:
    """Drops them, and restores the former view first_nodes."""
    with as_owner():
        op.execute(_FORMER_FIRST_NODES)
        op.execute("DROP VIEW eventsched.memory, eventsched.requests")
        op.execute("DROP TRIGGER mark_requests ON eventsched_log.batch")
        op.execute("DROP FUNCTION eventsched_log.mark_requests()")
        op.execute("DROP FUNCTION eventsched_log.ask_to_forget(text, text, text)")
        op.execute("DROP TABLE eventsched_log.request")
