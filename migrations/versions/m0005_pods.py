"""The pods that there are now, in a table; preemptions by index."""

from alembic import op

from eventsched.eventlog.revising import READER, WRITER, as_owner, folder, run_script

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_INTERNAL = (
    "eventsched_log.derive(integer, bigint, json, boolean), "
    "eventsched_log.derive_names(integer, bigint, json)"
)
_READ = "eventsched_log.eviction_end(integer, bigint, bigint, text, boolean)"
# Appends wait meanwhile: a batch of an old derive() would have no rows in the new table.
_FILL = """
LOCK TABLE eventsched_log.batch IN SHARE ROW EXCLUSIVE MODE;
DO $$
DECLARE
    v_batch record;
BEGIN
    FOR v_batch IN SELECT stream, first, body FROM eventsched_log.batch ORDER BY stream, first LOOP
        PERFORM eventsched_log.derive(v_batch.stream, v_batch.first, v_batch.body, true);
    END LOOP;
END $$
"""


def upgrade() -> None:
    """Makes them, and fills the table from the log."""
    with as_owner() as with_roles:
        run_script("0005_pods.sql")
        op.execute(f"REVOKE ALL ON FUNCTION {_INTERNAL}, {_READ} FROM PUBLIC")
        if with_roles:
            views = "eventsched.pods_now, eventsched.oldest_waiting, eventsched_log.preempted"
            op.execute(f"GRANT SELECT ON eventsched_log.pod_now, {views} TO {WRITER}, {READER}")
            op.execute(f"GRANT EXECUTE ON FUNCTION {_READ} TO {WRITER}, {READER}")
        _execute(_FILL)


def downgrade() -> None:
    """Takes them away again, with the former functions and views in their place."""
    with as_owner():
        for view in ("preemptions", "evictions"):
            made = _former("0001_preemptions.sql", f"CREATE VIEW eventsched.{view} AS", ";\n")
            _execute(made.replace("CREATE", "CREATE OR REPLACE", 1))
        op.execute("DROP VIEW eventsched.oldest_waiting, eventsched.pods_now")
        op.execute("DROP VIEW eventsched_log.preempted")
        op.execute(f"DROP FUNCTION {_INTERNAL}, {_READ}")
        op.execute("DROP INDEX eventsched_log.batch_preemptions")
        op.execute("DROP TABLE eventsched_log.pod_now")
        derive = _former("0001_append.sql", "CREATE FUNCTION eventsched_log.derive(", "END $$;\n")
        _execute(derive)
        op.execute(
            "REVOKE ALL ON FUNCTION eventsched_log.derive(integer, bigint, json) FROM PUBLIC"
        )


def _execute(statements: str) -> None:
    """By the driver's own cursor, as run_script() does."""
    op.get_bind().connection.cursor().execute(statements)


def _former(script: str, begin: str, end: str) -> str:
    """A statement of an earlier script."""
    text = (folder() / "sql" / script).read_text(encoding="utf-8")
    start = text.index(begin)
    return text[start : text.index(end, start) + len(end)]
