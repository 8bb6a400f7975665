"""Names the plugins with which PreFilter left nodes out, and appends many batches at once."""

from alembic import op
from sqlalchemy import text

from eventsched.eventlog.schema.migration_files import folder
from eventsched.eventlog.schema.revisions import WRITER, as_owner, execute_script, run_script

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None

_LOG = "eventsched_log"
_APPEND = (
    f"{_LOG}.append_batches(integer, integer, uuid, bigint, integer[], bigint[], json[], bytea, "
    "bytea[], json[], bigint[], bigint[], bytea[])"
)
_DERIVE = f"{_LOG}.derive(integer,bigint,json,boolean)"
_COUNTS = """\
    INSERT INTO eventsched_log.record_count AS c (stream, kind, records)
    SELECT p_stream, kind, count(*) FROM unnest(v_kinds) AS kind GROUP BY kind
    ON CONFLICT ON CONSTRAINT record_count_pkey
    DO UPDATE SET records = c.records + excluded.records;
"""
# A parameter keeps its name as long as the function exists, and append() of an earlier version may
# run. It never passes this one.
_UNLESS_COUNTED = f"""\
    IF NOT p_is_old THEN  -- append_batches() counts the records itself
{_COUNTS.replace("    ", "        ").rstrip()}
    END IF;
"""
_COMMENT = """
COMMENT ON COLUMN eventsched.pods_now.plugin IS
    'The plugin that refused most nodes in the last attempt, or ended the attempt'
"""


def upgrade() -> None:
    """Defines the function and the views."""
    with as_owner() as with_roles:
        _redefine_derive(_COUNTS, _UNLESS_COUNTED)
        for name in ("loading", "views"):
            run_script(f"0022_{name}.sql")
        op.execute(f"REVOKE ALL ON FUNCTION {_APPEND} FROM PUBLIC")
        if with_roles:
            op.execute(f"GRANT EXECUTE ON FUNCTION {_APPEND} TO {WRITER}")


def downgrade() -> None:
    """Restores the former definitions."""
    with as_owner():
        for view in (f"{_LOG}.long_wait", "eventsched.unplaceable_pods"):
            execute_script(_former("0021_views.sql", view))
        pods_now = _former("0005_pods.sql", "eventsched.pods_now")
        execute_script(pods_now.replace(f"{_LOG}.stream s", f"{_LOG}.chosen_stream s"))
        op.execute(_COMMENT)
        op.execute(f"DROP FUNCTION {_APPEND}")
        _redefine_derive(_UNLESS_COUNTED, _COUNTS)


def _redefine_derive(old: str, new: str) -> None:
    query = text(f"SELECT pg_get_functiondef('{_DERIVE}'::regprocedure)")
    definition = op.get_bind().execute(query).scalar_one()
    assert definition.count(old) == 1
    execute_script(definition.replace(old, new))


def _former(script: str, view: str) -> str:
    """The definition of a view in an earlier script."""
    content = (folder() / "sql" / script).read_text(encoding="utf-8")
    start = content.index(f"VIEW {view} AS")
    return "CREATE OR REPLACE " + content[start : content.index(";\n", start) + 2]
