"""Creates typed rows for the views that had to parse the bodies of the whole log.

The tables are filled while appends continue; they wait only during the last part.
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

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

_TABLES = "queue_move", "queue_stay", "reservation", "pod_end", "refusal", "mention", "record_count"
_VIEWS = "eventsched.queue_stays, eventsched.kinds"
_FUNCTIONS = "eventsched_log.batches_of(integer, uuid), eventsched.events_of_pod(text, text)"
_DERIVE = "CREATE OR REPLACE FUNCTION eventsched_log.derive("
_FILL = """
CREATE FUNCTION eventsched_log.fill_rows(p_stream integer, p_from bigint) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    v_batch record;
    v_next  bigint := p_from;
BEGIN
    FOR v_batch IN SELECT first, count, body FROM eventsched_log.batch
                   WHERE stream = p_stream AND first >= p_from ORDER BY first LOOP
        PERFORM eventsched_log.derive_again(p_stream, v_batch.first, v_batch.body, true);
        v_next := v_batch.first + v_batch.count;
    END LOOP;
    RETURN v_next;
END $$;
"""
_RESERVED = "ADD COLUMN reserved_seq bigint, ADD COLUMN reserved_at bigint"
# What the fill changes again and again: a row's old versions stay until this transaction ends, so
# counts are only added up at its end.
_THEN = f"""
CREATE TABLE eventsched_log.pod_then (LIKE eventsched_log.pod_now INCLUDING ALL);
ALTER TABLE eventsched_log.pod_then {_RESERVED};
CREATE TABLE eventsched_log.count_then (stream integer, kind text, records bigint);
"""
_COUNT = "    INSERT INTO eventsched_log.record_count AS c", "    IF v_has_more"
_COUNT_THEN = """    INSERT INTO eventsched_log.count_then
    SELECT p_stream, kind, count(*) FROM unnest(v_kinds) AS kind GROUP BY kind;
"""
# From here on appends wait: a batch that the old derive() handled would lack its new rows.
_STOP = "LOCK TABLE eventsched_log.batch IN SHARE ROW EXCLUSIVE MODE"
_FINISH = """
INSERT INTO eventsched_log.record_count (stream, kind, records)
SELECT stream, kind, sum(records) FROM eventsched_log.count_then GROUP BY stream, kind;
UPDATE eventsched_log.pod_now n SET reserved_seq = t.reserved_seq, reserved_at = t.reserved_at
FROM eventsched_log.pod_then t
WHERE t.stream = n.stream AND t.uid = n.uid AND t.reserved_seq IS NOT NULL;
DROP FUNCTION eventsched_log.fill_rows(integer, bigint);
DROP FUNCTION eventsched_log.derive_again(integer, bigint, json, boolean);
DROP TABLE eventsched_log.pod_then, eventsched_log.count_then;
"""


def upgrade() -> None:
    """Creates the tables, fills them from the log, and defines the views over them."""
    with as_owner() as with_roles:
        run_script("0010_rows.sql")
        # The fold of pod_now over the whole log, beside the one of the present.
        execute_script(_THEN + _derive_again() + _FILL)
        filled = _fill({})
        op.execute(_STOP)
        _fill(filled)  # batches appended meanwhile
        op.execute(f"ALTER TABLE eventsched_log.pod_now {_RESERVED}")
        for name in ("derive", "views"):
            run_script(f"0010_{name}.sql")
        execute_script(_FINISH)
        op.execute(f"REVOKE ALL ON FUNCTION {_FUNCTIONS} FROM PUBLIC")
        if with_roles:
            tables = ", ".join(f"eventsched_log.{table}" for table in _TABLES)
            op.execute(f"GRANT SELECT ON {tables}, {_VIEWS} TO {WRITER}, {READER}")
            op.execute(f"GRANT EXECUTE ON FUNCTION {_FUNCTIONS} TO {WRITER}, {READER}")


def downgrade() -> None:
    """Drops them, and restores the former function and views."""
    with as_owner() as with_roles:
        run_script("0010_rows_down.sql")
        execute_script(
            _between(
                "0005_pods.sql", "CREATE FUNCTION eventsched_log.derive(", "END $$;\n"
            ).replace("CREATE", "CREATE OR REPLACE", 1)
        )
        if with_roles:
            op.execute(f"GRANT SELECT ON eventsched.bindings TO {WRITER}, {READER}")


def _derive_again() -> str:
    """derive() with other tables in place of pod_now and record_count."""
    derive = _between("0010_derive.sql", _DERIVE, "END $$;\n")
    begin, end = (derive.index(text) for text in _COUNT)
    derive = derive[:begin] + _COUNT_THEN + derive[end:]
    return derive.replace("eventsched_log.derive(", "eventsched_log.derive_again(").replace(
        "pod_now", "pod_then"
    )


def _fill(filled: Mapping[int, int]) -> dict[int, int]:
    """Fills the tables from the log, for each stream from the position in ``filled`` on. Returns
    the position after the last record, by stream."""
    connection = op.get_bind()
    streams = connection.execute(text("SELECT id FROM eventsched_log.stream")).scalars().all()
    fill = text("SELECT eventsched_log.fill_rows(:stream, :position)")
    return {
        stream: connection.execute(
            fill, {"stream": stream, "position": filled.get(stream, 0)}
        ).scalar_one()
        for stream in streams
    }


def _between(script: str, begin: str, end: str) -> str:
    """The statement of a script between two texts, inclusive."""
    content = (folder() / "sql" / script).read_text(encoding="utf-8")
    start = content.index(begin)
    return content[start : content.index(end, start) + len(end)]
