"""Creates the roles of those who upgrade, audit and archive, and of tenants, and takes the records
away from readers, who keep all views."""

from collections.abc import Iterable

from alembic import op

from eventsched.eventlog.schema.revisions import (
    ARCHIVER,
    AUDITOR,
    MIGRATOR,
    OWNER,
    READER,
    TENANT,
    WRITER,
    as_owner,
    create_role,
    execute_script,
    has_roles,
    run_script,
)

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

_TABLES = (
    "archived", "batch", "checkpoint", "chosen_stream", "decision", "detail", "epoch", "head",
    "mention", "migration", "node", "partition", "pod", "pod_end", "pod_now", "preempted", "pruned",
    "queue_move", "queue_stay", "record_count", "refusal", "request", "reservation", "scoring",
    "snapshot", "stream", "stream_grant", "verdict",
)  # fmt: skip
"""The tables and views of schema eventsched_log that readers could read before."""
_ARCHIVED = (
    "archived", "batch", "checkpoint", "decision", "detail", "epoch", "head", "migration",
    "partition", "pod", "pruned", "stream", "verdict",
)  # fmt: skip
"""What ``eventsched db archive`` and ``db prune`` read."""
_ARCHIVING = (
    "note_archived(text, text, bigint, bigint, json)", "prune(text, timestamptz)",
    "prune_names(text, timestamptz, bigint)",
)  # fmt: skip
_EVENTS = (
    "stream", "seq", "at", "cause", "kind", "namespace", "pod", "pod_uid", "epoch", "written_at",
)  # fmt: skip
"""The columns of view events except the record."""
_OF_VIEWS = (
    "time(bigint)", "uid(text)", "pod_uid(json)", "rows_in(text)",
    "eviction_end(integer, bigint, bigint, text, boolean)",
)  # fmt: skip
"""The functions that views call; a function of a view runs with the rights of who asks."""
_OF_RECORDS = (
    "record(integer, bigint)", "entries(bytea, integer)", "integer_at(bytea, integer, integer)",
    "vector(integer, bigint, integer)", "scored(integer, bigint)", "batches_of(integer, uuid)",
    "prunable(text, timestamptz)",
)  # fmt: skip
"""The functions that return records and vectors."""
_RECORDS = "eventsched.events_between(text, bigint, bigint), eventsched.events_of_pod(text, text)"
_ABOUT = ", ".join(
    f"eventsched.{name}(text, bigint)" for name in ("verdicts", "scores", "refusals", "candidates")
)
"""The functions about a decision, for all who read."""
_MESSAGE = "queue_message(integer, bigint)"
_TENANT = (
    "tenant_pods_now(text, text)", "tenant_decisions(text, text)",
    "tenant_queue_moves(text, text)", "tenant_bindings(text, text)",
    "tenant_refusals(text, text)", "tenant_verdicts(text, bigint)", "tenant_neighbours(text)",
    "tenant_evictions()",
)  # fmt: skip
_INTERNAL = "opaque_id(uuid)", "granted_namespaces(text)"
_LIMITS = "statement_timeout", "idle_in_transaction_session_timeout"
_LIMIT = f"""
DO $$ DECLARE
    v_setting text;
BEGIN
    FOR v_setting IN
        SELECT c FROM pg_db_role_setting s JOIN pg_database d ON d.oid = s.setdatabase
        CROSS JOIN unnest(s.setconfig) AS c
        WHERE d.datname = current_database() AND s.setrole = '{READER}'::regrole
          AND split_part(c, '=', 1) IN {_LIMITS}
    LOOP
        EXECUTE format('ALTER ROLE {AUDITOR} IN DATABASE %I SET %I = %L', current_database(),
                       split_part(v_setting, '=', 1), split_part(v_setting, '=', 2));
    END LOOP;
EXCEPTION WHEN insufficient_privilege THEN
    RAISE NOTICE 'no limits for {AUDITOR}: %', SQLERRM;
END $$
"""
"""Gives auditors the limits that readers have in this database (0006)."""
_UNLIMIT = f"""
DO $$ DECLARE
    v_name text;
BEGIN
    FOREACH v_name IN ARRAY ARRAY{list(_LIMITS)} LOOP
        EXECUTE format('ALTER ROLE {AUDITOR} IN DATABASE %I RESET %I', current_database(), v_name);
    END LOOP;
EXCEPTION WHEN insufficient_privilege THEN NULL;
END $$
"""
_MEMBER = f"""
DO $$ BEGIN
    IF NOT pg_has_role('{MIGRATOR}', '{OWNER}', 'MEMBER') THEN
        GRANT {OWNER} TO {MIGRATOR};
    END IF;
EXCEPTION WHEN unique_violation THEN NULL;  -- another database is upgraded at the same time
END $$
"""


def upgrade() -> None:
    """Creates roles and tenants' functions, and grants each role what it needs."""
    with_roles = has_roles()
    if with_roles:
        # Without the rights of its roles, which it may take on: a login that is a member upgrades
        # as the owner, and can change nothing otherwise.
        create_role(MIGRATOR, "NOINHERIT")
        for role in (AUDITOR, ARCHIVER, TENANT):
            create_role(role)
        op.execute(_MEMBER)
        execute_script(_LIMIT)
    with as_owner():
        for name in ("roles", "tenants"):
            run_script(f"0014_{name}.sql")
        log_functions = _of("eventsched_log", (_MESSAGE, *_INTERNAL))
        tenant_functions = _of("eventsched", _TENANT)
        op.execute(f"REVOKE ALL ON FUNCTION {log_functions}, {tenant_functions} FROM PUBLIC")
        if with_roles:
            _grant(tenant_functions)


def _grant(tenant_functions: str) -> None:
    tables, log = _of("eventsched_log", _TABLES), "eventsched_log"
    op.execute(f"GRANT USAGE ON SCHEMA eventsched, {log} TO {AUDITOR}")
    op.execute(f"GRANT USAGE ON SCHEMA {log} TO {ARCHIVER}, {MIGRATOR}")
    op.execute(f"GRANT USAGE ON SCHEMA eventsched TO {TENANT}")
    op.execute(f"REVOKE ALL ON {tables}, eventsched.events FROM {READER}")
    op.execute(f"GRANT SELECT ON {log}.migration, {log}.stream TO {READER}")
    op.execute(f"GRANT SELECT ({', '.join(_EVENTS)}) ON eventsched.events TO {READER}")
    op.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA eventsched TO {AUDITOR}")
    op.execute(f"GRANT SELECT ON {tables}, {log}.tenant_grant TO {AUDITOR}")
    op.execute(f"GRANT SELECT ON {log}.tenant_grant TO {WRITER}")
    op.execute(f"GRANT SELECT ON {_of(log, _ARCHIVED)} TO {ARCHIVER}")
    archiving = _of(log, (*_ARCHIVING, "prunable(text, timestamptz)"))
    op.execute(f"GRANT EXECUTE ON FUNCTION {archiving} TO {ARCHIVER}")
    op.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {log}.migration TO {MIGRATOR}")
    records = f"{_of(log, _OF_RECORDS)}, {_RECORDS}"
    op.execute(f"REVOKE ALL ON FUNCTION {records} FROM {READER}")
    op.execute(f"GRANT EXECUTE ON FUNCTION {records}, {_of(log, _OF_VIEWS)}, {_ABOUT} TO {AUDITOR}")
    op.execute(f"GRANT EXECUTE ON FUNCTION {log}.{_MESSAGE} TO {WRITER}, {READER}, {AUDITOR}")
    op.execute(f"GRANT EXECUTE ON FUNCTION {tenant_functions} TO {TENANT}")


def downgrade() -> None:
    """Gives readers the records again. The new roles stay, without rights in this database."""
    with_roles = has_roles()
    with as_owner():
        op.execute(f"DROP FUNCTION {_of('eventsched', _TENANT)}")
        op.execute(f"DROP FUNCTION {_of('eventsched_log', _INTERNAL)}")
        op.execute("DROP TABLE eventsched_log.tenant_grant, eventsched_log.tenant_secret")
        run_script("0014_roles_down.sql")
        op.execute("REVOKE ALL ON FUNCTION eventsched_log.events_of(text) FROM PUBLIC")
        if with_roles:
            _take_back()
    if with_roles:
        execute_script(_UNLIMIT)


def _take_back() -> None:
    tables, log = _of("eventsched_log", _TABLES), "eventsched_log"
    records = f"{_of(log, _OF_RECORDS)}, {_RECORDS}"
    roles = f"{AUDITOR}, {ARCHIVER}, {MIGRATOR}, {TENANT}"
    op.execute(f"GRANT SELECT ON {tables}, eventsched.events TO {READER}")
    op.execute(f"REVOKE ALL ({', '.join(_EVENTS)}) ON eventsched.events FROM {READER}")
    op.execute(f"GRANT EXECUTE ON FUNCTION {records} TO {READER}")
    op.execute(f"GRANT EXECUTE ON FUNCTION {log}.events_of(text) TO {WRITER}, {READER}")
    for schema in ("eventsched", log):
        for kind in ("TABLES", "FUNCTIONS"):
            op.execute(f"REVOKE ALL ON ALL {kind} IN SCHEMA {schema} FROM {roles}")
    op.execute(f"REVOKE ALL ON SCHEMA eventsched, {log} FROM {roles}")


def _of(schema: str, names: Iterable[str]) -> str:
    return ", ".join(f"{schema}.{name}" for name in names)
