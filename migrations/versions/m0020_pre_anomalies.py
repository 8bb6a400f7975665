"""Creates rows of victims and of a shadow's comparisons, and views of anomalies and shadows."""

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

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None

_LOG = "eventsched_log"
_TABLES = f"{_LOG}.victim, {_LOG}.comparison"
_NAMES = "starving_pods", "ping_pongs", "preempted_for_nothing", "shadow_decisions"
_VIEWS = ", ".join(f"eventsched.{name}" for name in _NAMES)
_TENANT = ", ".join(f"eventsched.tenant_{name}(text, text)" for name in _NAMES)
_OWNER_OF = f"{_LOG}.pod_owner(integer, bigint)"
_INTERNAL = f"{_LOG}.derive_outcomes(integer, bigint, json)"
_CHANGES = {
    "    v_has_more boolean := false;\n": """\
    v_has_more boolean := false;
    v_outcomes boolean := false;  -- whether it has preemptions, or comparisons of a shadow
""",
    '            IF strpos(v_item.item::text, \',"uid":"\') > 0 THEN\n': """\
            v_outcomes := v_outcomes OR v_item.kind = 'PlacementCompared';
            IF strpos(v_item.item::text, ',"uid":"') > 0 THEN
""",
    "        WHEN 'PreemptionDecided' THEN\n": """\
        WHEN 'PreemptionDecided' THEN
            v_outcomes := true;
""",
    "    IF v_has_more THEN\n": """\
    IF v_outcomes THEN
        PERFORM eventsched_log.derive_outcomes(p_stream, p_first, p_body);
    END IF;
    IF v_has_more THEN
""",
}
"""What changes in derive() of 0018: text → new text."""


def upgrade() -> None:
    """Creates the tables and fills them from the log, and defines the views."""
    with as_owner() as with_roles:
        run_script("0020_rows.sql")
        execute_script(_derive())
        for name in ("views", "tenants", "comments"):
            run_script(f"0020_{name}.sql")
        functions = f"{_OWNER_OF}, {_INTERNAL}, {_TENANT}"
        op.execute(f"REVOKE ALL ON FUNCTION {functions} FROM PUBLIC")
        if with_roles:
            op.execute(f"GRANT SELECT ON {_TABLES}, {_LOG}.acting_stream TO {WRITER}, {AUDITOR}")
            op.execute(f"GRANT SELECT ON {_VIEWS} TO {WRITER}, {READER}, {AUDITOR}")
            op.execute(f"GRANT EXECUTE ON FUNCTION {_OWNER_OF} TO {WRITER}, {READER}, {AUDITOR}")
            op.execute(f"GRANT EXECUTE ON FUNCTION {_TENANT} TO {TENANT}")


def downgrade() -> None:
    """Drops them, and restores the former functions."""
    with as_owner():
        run_script("0018_derive.sql")
        execute_script(_statement("0012_partitions.sql", f"FUNCTION {_LOG}.partitioned_tables("))
        op.execute(f"DROP FUNCTION {_TENANT}")
        op.execute(f"DROP VIEW {_VIEWS}, {_LOG}.acting_stream")
        op.execute(f"DROP FUNCTION {_OWNER_OF}, {_INTERNAL}")
        op.execute(f"DROP TABLE {_TABLES}")


def _derive() -> str:
    """derive() of 0018, which also has the rows of preemptions and comparisons written."""
    script = (folder() / "sql" / "0018_derive.sql").read_text(encoding="utf-8")
    for old, new in _CHANGES.items():
        assert script.count(old) == 1, old
        script = script.replace(old, new)
    return script


def _statement(script: str, begin: str) -> str:
    """The definition of a function in an earlier script."""
    content = (folder() / "sql" / script).read_text(encoding="utf-8")
    start, ending = content.index(begin), "$$;\n"
    end = content.index(ending, content.index("$$\n", start) + 3) + len(ending)
    return "CREATE OR REPLACE " + content[start:end]
