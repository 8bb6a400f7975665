"""Creates the table of existing pods, and an index of preemptions.

The table is filled while appends continue; they wait only during the last part.
"""

from collections.abc import Mapping

from alembic import op
from sqlalchemy import text

from eventsched.eventlog.schema.migration_files import folder
from eventsched.eventlog.schema.revisions import (
    READER,
    WRITER,
    as_owner,
    execute_script,
    run_script,
)

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_INTERNAL = (
    "eventsched_log.derive(integer, bigint, json, boolean), "
    "eventsched_log.derive_names(integer, bigint, json)"
)
_READ = "eventsched_log.eviction_end(integer, bigint, bigint, text, boolean)"
_FILL = """
CREATE FUNCTION eventsched_log.fill_pods(p_stream integer, p_from bigint) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    v_batch record;
    v_next  bigint := p_from;
BEGIN
    FOR v_batch IN SELECT first, count, body FROM eventsched_log.batch
                   WHERE stream = p_stream AND first >= p_from ORDER BY first LOOP
        PERFORM eventsched_log.derive(p_stream, v_batch.first, v_batch.body, true);
        v_next := v_batch.first + v_batch.count;
    END LOOP;
    RETURN v_next;
END $$
"""
# From here on appends wait: a batch that the old derive() handled would lack its new rows.
_STOP = "LOCK TABLE eventsched_log.batch IN SHARE ROW EXCLUSIVE MODE"
_INDEX = """
CREATE INDEX batch_preemptions ON eventsched_log.batch (stream, first)
WHERE strpos(body::text, '"kind":"PreemptionDecided"') > 0
"""


def upgrade() -> None:
    """Creates them, and fills the table from the log."""
    with as_owner() as with_roles:
        run_script("0005_pods.sql")
        op.execute(f"REVOKE ALL ON FUNCTION {_INTERNAL}, {_READ} FROM PUBLIC")
        if with_roles:
            views = "eventsched.pods_now, eventsched.oldest_waiting, eventsched_log.preempted"
            op.execute(f"GRANT SELECT ON eventsched_log.pod_now, {views} TO {WRITER}, {READER}")
            op.execute(f"GRANT EXECUTE ON FUNCTION {_READ} TO {WRITER}, {READER}")
        execute_script(_FILL)
        filled = _fill({})
        op.execute(_STOP)
        _fill(filled)  # batches appended meanwhile
        op.execute("DROP FUNCTION eventsched_log.fill_pods(integer, bigint)")
        execute_script(_INDEX)


def downgrade() -> None:
    """Drops them, and restores the former functions and views."""
    with as_owner():
        for view in ("preemptions", "evictions"):
            former = _former("0001_preemptions.sql", f"CREATE VIEW eventsched.{view} AS", ";\n")
            execute_script(former.replace("CREATE", "CREATE OR REPLACE", 1))
        op.execute("DROP VIEW eventsched.oldest_waiting, eventsched.pods_now")
        op.execute("DROP VIEW eventsched_log.preempted")
        op.execute(f"DROP FUNCTION {_INTERNAL}, {_READ}")
        op.execute("DROP INDEX eventsched_log.batch_preemptions")
        op.execute("DROP TABLE eventsched_log.pod_now")
        derive = _former("0001_append.sql", "CREATE FUNCTION eventsched_log.derive(", "END $$;\n")
        execute_script(derive)
        op.execute(
            "REVOKE ALL ON FUNCTION eventsched_log.derive(integer, bigint, json) FROM PUBLIC"
        )


def _fill(filled: Mapping[int, int]) -> dict[int, int]:
    """Fills the table from the log, for each stream from the position in ``filled`` on. Returns the
    position after the last record, by stream."""
    connection = op.get_bind()
    streams = connection.execute(text("SELECT id FROM eventsched_log.stream")).scalars().all()
    fill = text("SELECT eventsched_log.fill_pods(:stream, :position)")
    return {
        stream: connection.execute(
            fill, {"stream": stream, "position": filled.get(stream, 0)}
        ).scalar_one()
        for stream in streams
    }


def _former(script: str, begin: str, end: str) -> str:
    """The statement of an earlier script between two texts, inclusive."""
    content = (folder() / "sql" / script).read_text(encoding="utf-8")
    start = content.index(begin)
    return content[start : content.index(end, start) + len(end)]
