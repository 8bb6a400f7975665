"""Reads positions by index, allows parallel scans and several snapshots, and limits readers."""

from alembic import op

from eventsched.eventlog.schema.revisions import READER, WRITER, as_owner, run_script

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

_INNER = "eventsched_log.events_of(text), eventsched_log.pod_uid(json)"
_MADE = "eventsched.events_between(text, bigint, bigint), eventsched.refusals(text, bigint)"
LIMITS = {"statement_timeout": "5min", "idle_in_transaction_session_timeout": "1min"}
"""Timeouts for people with the reader's role: a forgotten transaction keeps Postgres from cleaning
up."""


def upgrade() -> None:
    """Creates the functions, and sets the reader's timeouts in this database unless they are set
    already."""
    with as_owner() as with_roles:
        run_script("0006_reading.sql")
        op.execute(f"REVOKE ALL ON FUNCTION {_INNER}, {_MADE} FROM PUBLIC")
        if with_roles:
            op.execute(f"GRANT EXECUTE ON FUNCTION {_INNER}, {_MADE} TO {WRITER}, {READER}")
    if with_roles:
        for name, value in LIMITS.items():
            op.execute(_LIMIT.format(name=name, value=value))


def downgrade() -> None:
    """Restores the former functions. Column hash of table batch keeps its storage."""
    with as_owner() as with_roles:
        run_script("0006_reading_down.sql")
    if with_roles:
        for name in LIMITS:
            op.execute(_UNLIMIT.format(name=name))


_LIMIT = f"""
DO $$ BEGIN
    IF NOT EXISTS (
        SELECT FROM pg_db_role_setting s, unnest(s.setconfig) AS c
        WHERE s.setrole = '{READER}'::regrole AND c LIKE '{{name}}=%'
          AND s.setdatabase IN (0, (SELECT oid FROM pg_database WHERE datname = current_database()))
    ) THEN
        EXECUTE format('ALTER ROLE {READER} IN DATABASE %I SET {{name}} = ''{{value}}''',
                       current_database());
    END IF;
EXCEPTION WHEN insufficient_privilege THEN  -- somebody else has made the role
    RAISE NOTICE 'no {{name}} for {READER}: %', SQLERRM;
END $$
"""
_UNLIMIT = f"""
DO $$ BEGIN
    EXECUTE format('ALTER ROLE {READER} IN DATABASE %I RESET {{name}}', current_database());
EXCEPTION WHEN insufficient_privilege THEN NULL;
END $$
"""
