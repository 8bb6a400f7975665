"""Creates the log: tables, the functions of writers, views and roles."""

from alembic import context, op
from sqlalchemy import text

from eventsched.eventlog.schema.revisions import OWNER, READER, WRITER, run_script

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Creates everything, as eventsched_owner unless ``one_user`` is set."""
    one_user = bool(context.config.attributes.get("one_user"))
    op.execute("CREATE SCHEMA IF NOT EXISTS eventsched")
    if not one_user:
        _roles()
        for schema in ("eventsched", "eventsched_log"):
            op.execute(f"ALTER SCHEMA {schema} OWNER TO {OWNER}")
        op.execute(f"ALTER TABLE eventsched_log.migration OWNER TO {OWNER}")
        op.execute(f"SET LOCAL ROLE {OWNER}")
    for name in ("tables", "append", "views", "preemptions", "comments"):
        run_script(f"0001_{name}.sql")
    op.execute("REVOKE ALL ON ALL FUNCTIONS IN SCHEMA eventsched_log, eventsched FROM PUBLIC")
    if not one_user:
        _grants()
        op.execute("RESET ROLE")


def downgrade() -> None:
    """Drops everything except the roles, which other databases of the server may use too."""
    op.execute("DROP SCHEMA eventsched CASCADE")
    for row in op.get_bind().execute(
        text("SELECT tablename FROM pg_tables WHERE schemaname = 'eventsched_log'")
    ):
        if row.tablename != "migration":
            op.execute(f'DROP TABLE eventsched_log."{row.tablename}" CASCADE')
    op.execute(
        "DO $$ DECLARE f regprocedure; BEGIN FOR f IN SELECT p.oid::regprocedure FROM pg_proc p "
        "WHERE p.pronamespace = 'eventsched_log'::regnamespace LOOP "
        "EXECUTE 'DROP FUNCTION ' || f || ' CASCADE'; END LOOP; END $$"
    )
    op.execute("DROP TYPE eventsched_log.outcome")


def _roles() -> None:
    for role in (OWNER, WRITER, READER):
        # Two databases of a server may be set up at the same time.
        op.execute(
            f"DO $$ BEGIN CREATE ROLE {role} NOLOGIN; "
            "EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$"
        )
    op.execute(
        f"DO $$ BEGIN IF NOT pg_has_role(current_user, '{OWNER}', 'SET') THEN "
        f"EXECUTE format('GRANT {OWNER} TO %I', current_user); END IF; END $$"
        if (op.get_bind().dialect.server_version_info or (0,)) >= (16,)
        else f"DO $$ BEGIN IF NOT pg_has_role(current_user, '{OWNER}', 'MEMBER') THEN "
        f"EXECUTE format('GRANT {OWNER} TO %I', current_user); END IF; END $$"
    )


def _grants() -> None:
    op.execute(f"GRANT USAGE ON SCHEMA eventsched, eventsched_log TO {WRITER}, {READER}")
    for schema in ("eventsched", "eventsched_log"):
        op.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {WRITER}, {READER}")
    reading = (
        "eventsched.verdicts(text, bigint), eventsched.scores(text, bigint), "
        "eventsched.candidates(text, bigint), "
        "eventsched_log.time(bigint), eventsched_log.uid(text), "
        "eventsched_log.record(integer, bigint), eventsched_log.entries(bytea, integer), "
        "eventsched_log.integer_at(bytea, integer, integer), "
        "eventsched_log.vector(integer, bigint, integer), eventsched_log.scored(integer, bigint)"
    )
    op.execute(f"GRANT EXECUTE ON FUNCTION {reading} TO {WRITER}, {READER}")
    writing = (
        "eventsched_log.acquire(text, uuid, text, text), "
        "eventsched_log.append(integer, integer, uuid, bigint, integer, bigint, json, bytea, "
        "bytea, json, bigint[], bigint[], bytea[]), eventsched_log.renew(integer, integer, uuid), "
        "eventsched_log.keep_snapshot(integer, integer, uuid, bigint, bytea, text, text, "
        "bytea), eventsched_log.thin(text, timestamptz)"
    )
    op.execute(f"GRANT EXECUTE ON FUNCTION {writing} TO {WRITER}")
