"""Names the plugins that left nodes out in all views, judges long waits near their attempts only,
and has append() and append_batches() share their steps."""

from alembic import op
from sqlalchemy import text

from eventsched.eventlog.schema.migration_files import folder
from eventsched.eventlog.schema.revisions import (
    AUDITOR,
    READER,
    WRITER,
    as_owner,
    execute_script,
    run_script,
)

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None

_LOG = "eventsched_log"
_NAMING = (
    f"{_LOG}.excluding_plugin(text, text), {_LOG}.excluding_reason(text, text), "
    f"{_LOG}.exclusion(json), {_LOG}.exclusion_at(integer, bigint)"
)
"""What views call, with the rights of who asks."""
_ROWS = f"{_LOG}.derive_rows(integer, bigint, json)"
_STEPS = (
    f"{_LOG}.move_head(integer, integer, uuid, bigint, bigint, bytea, bytea), "
    f"{_LOG}.store_batch(integer, integer, uuid, bigint, integer, bigint, json, bytea, bytea, "
    "json), "
    f"{_LOG}.count_records(integer, text[]), "
    f"{_LOG}.store_details(integer, bigint[], bigint[], bytea[])"
)
_CHANGES = {
    f"FUNCTION {_LOG}.derive(p_stream integer, p_first bigint, p_body json, "
    "p_is_old boolean DEFAULT false)\n RETURNS void\n": (
        f"FUNCTION {_LOG}.derive_rows(p_stream integer, p_first bigint, p_body json)\n"
        " RETURNS text[]\n"
    ),
    """\
    IF NOT p_is_old THEN  -- append_batches() counts the records itself
        INSERT INTO eventsched_log.record_count AS c (stream, kind, records)
        SELECT p_stream, kind, count(*) FROM unnest(v_kinds) AS kind GROUP BY kind
        ON CONFLICT ON CONSTRAINT record_count_pkey
        DO UPDATE SET records = c.records + excluded.records;
    END IF;
    IF v_outcomes THEN
""": """\
    IF v_outcomes THEN
""",
    """\
        PERFORM eventsched_log.derive_names(p_stream, p_first, p_body);
    END IF;
""": """\
        PERFORM eventsched_log.derive_names(p_stream, p_first, p_body);
    END IF;
    RETURN v_kinds;
""",
}
"""What changes in derive(), which becomes derive_rows(): text → new text."""
_REPLACED = (
    ("0012_partitions.sql", f"FUNCTION {_LOG}.append("),
    ("0022_loading.sql", f"FUNCTION {_LOG}.append_batches("),
    ("0022_views.sql", f"VIEW {_LOG}.long_wait AS"),
    ("0022_views.sql", "VIEW eventsched.pods_now AS"),
    ("0010_views.sql", "VIEW eventsched.refusals AS"),
    ("0006_reading.sql", "FUNCTION eventsched.refusals("),
)
"""Scripts with the former definitions, and how these begin."""
_NODE = "JOIN eventsched_log.node n ON n.stream = c.stream AND n.ordinal = c.ordinal\n"
_NEWEST_NODE = """\
JOIN LATERAL (
        SELECT name FROM eventsched_log.node
        WHERE stream = c.stream AND ordinal = c.ordinal AND seq < p_seq
        ORDER BY seq DESC LIMIT 1
    ) n ON true
"""
"""What 0009 has changed in verdicts() of 0001."""
_COMMENT = """
COMMENT ON COLUMN eventsched.refusals.plugin IS
    'Who refused; null where PreFilter as a whole left nodes out'
"""


def upgrade() -> None:
    """Defines the functions and the views."""
    with as_owner() as with_roles:
        for name in ("excluded", "long_wait"):
            run_script(f"0023_{name}.sql")
        _redefine(f"{_LOG}.derive(integer, bigint, json, boolean)", _CHANGES)
        run_script("0023_append.sql")
        op.execute(f"REVOKE ALL ON FUNCTION {_NAMING}, {_STEPS}, {_ROWS} FROM PUBLIC")
        if with_roles:
            op.execute(f"GRANT EXECUTE ON FUNCTION {_NAMING} TO {WRITER}, {READER}, {AUDITOR}")


def downgrade() -> None:
    """Restores the former definitions."""
    with as_owner():
        _redefine(_ROWS, {new: old for old, new in _CHANGES.items()})
        for script, begin in _REPLACED:
            execute_script(_former(script, begin))
        verdicts = _former("0001_views.sql", "FUNCTION eventsched.verdicts(")
        execute_script(verdicts.replace(_NODE, _NEWEST_NODE))
        for name in ("refusals", "verdicts"):  # as 0006 and 0014 have left them
            op.execute(
                f"ALTER FUNCTION eventsched.{name}(text, bigint) PARALLEL SAFE SECURITY DEFINER "
                "SET search_path = pg_catalog, pg_temp"
            )
        op.execute(_COMMENT)
        op.execute(f"DROP FUNCTION {_STEPS}, {_ROWS}, {_NAMING}")


def _redefine(function: str, changes: dict[str, str]) -> None:
    query = text("SELECT pg_get_functiondef(CAST(:function AS regprocedure))")
    definition: str = op.get_bind().execute(query, {"function": function}).scalar_one()
    for old, new in changes.items():
        assert definition.count(old) == 1, old
        definition = definition.replace(old, new)
    execute_script(definition)


def _former(script: str, begin: str) -> str:
    """The definition of a view or a function in an earlier script."""
    content = (folder() / "sql" / script).read_text(encoding="utf-8")
    start = body = content.index(begin)
    ending = ";\n"
    if begin.startswith("FUNCTION"):
        body, ending = content.index("$$\n", start) + 3, "$$;\n"
    return "CREATE OR REPLACE " + content[start : content.index(ending, body) + len(ending)]
