"""Lets full partitions be sealed and dropped whole."""

from alembic import op

from eventsched.eventlog.schema.revisions import (
    READER,
    WRITER,
    as_owner,
    execute_script,
    run_script,
)

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

_TABLES = "checkpoint", "archived", "pruned"
_FOR_WRITERS = (
    "eventsched_log.keep_checkpoint(text, bigint), "
    "eventsched_log.prune_names(text, timestamptz, bigint), "
    "eventsched_log.prune(text, timestamptz), "
    "eventsched_log.note_archived(text, text, bigint, bigint, json)"
)
_FOR_READERS = "eventsched_log.prunable(text, timestamptz)"
_TRIGGER = "eventsched_log.mark_seals()"
_DENY = """
CREATE OR REPLACE FUNCTION eventsched_log.deny() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the log is append-only: % on %', TG_OP, TG_TABLE_NAME
        USING ERRCODE = 'ES009';
END $$
"""
_PRUNED = """
DO $$ BEGIN
    IF EXISTS (SELECT FROM eventsched_log.pruned) THEN
        RAISE EXCEPTION 'parts of the log were dropped, which the former schema cannot express';
    END IF;
END $$
"""


def upgrade() -> None:
    """Adds the tables and functions."""
    with as_owner() as with_roles:
        run_script("0013_seals.sql")
        op.execute(f"REVOKE ALL ON FUNCTION {_FOR_WRITERS}, {_FOR_READERS}, {_TRIGGER} FROM PUBLIC")
        if with_roles:
            for table in _TABLES:
                op.execute(f"GRANT SELECT ON eventsched_log.{table} TO {WRITER}, {READER}")
            op.execute(f"GRANT EXECUTE ON FUNCTION {_FOR_WRITERS} TO {WRITER}")
            op.execute(f"GRANT EXECUTE ON FUNCTION {_FOR_READERS} TO {WRITER}, {READER}")


def downgrade() -> None:
    """Removes them. Raises an error if parts of the log were dropped."""
    with as_owner():
        op.execute(_PRUNED)
        op.execute(f"DROP FUNCTION {_FOR_WRITERS}, {_FOR_READERS}")
        op.execute("DROP TRIGGER mark_seals ON eventsched_log.batch")
        op.execute(f"DROP FUNCTION {_TRIGGER}")
        execute_script(_DENY)
        for table in _TABLES:
            op.execute(f"DROP TABLE eventsched_log.{table}")
        op.execute("ALTER TABLE eventsched_log.partition DROP COLUMN seal")
