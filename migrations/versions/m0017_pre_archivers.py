"""Records that no archive holds are dropped only by members of eventsched_archiver, and only they
note what an archive holds."""

from alembic import op

from eventsched.eventlog.schema.migration_files import folder
from eventsched.eventlog.schema.revisions import ARCHIVER, WRITER, as_owner, run_script

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

_LOG = "eventsched_log"
_NOTE = f"{_LOG}.note_archived(text, text, bigint, bigint, json)"
_DROPPABLE = f"{_LOG}.droppable(text, timestamptz, boolean)"
_PRUNE = (
    f"{_LOG}.prune_names(text, timestamptz, bigint, boolean), "
    f"{_LOG}.prune(text, timestamptz, boolean)"
)
_FORMER = f"{_LOG}.prune_names(text, timestamptz, bigint), {_LOG}.prune(text, timestamptz)"


def upgrade() -> None:
    """Replaces the functions, and takes one away from writers."""
    with as_owner() as with_roles:
        run_script("0017_archivers.sql")
        op.execute(f"REVOKE ALL ON FUNCTION {_DROPPABLE}, {_PRUNE} FROM PUBLIC")
        if with_roles:
            op.execute(f"GRANT EXECUTE ON FUNCTION {_PRUNE} TO {WRITER}, {ARCHIVER}")
            op.execute(f"REVOKE EXECUTE ON FUNCTION {_NOTE} FROM {WRITER}")


def downgrade() -> None:
    """Restores the former functions."""
    script = (folder() / "sql" / "0013_seals.sql").read_text(encoding="utf-8")
    note = script[script.index("CREATE FUNCTION eventsched_log.note_archived(") :]
    prune = script[script.index("CREATE FUNCTION eventsched_log.prune_names(") :]
    with as_owner() as with_roles:
        op.execute(f"DROP FUNCTION {_PRUNE}, {_DROPPABLE}")
        end = note.index("END $$;")
        op.execute(f"CREATE OR REPLACE{note[len('CREATE') : end]}END $$")
        for text in prune[: prune.index("COMMENT ON")].split("END $$;")[:2]:
            op.execute(f"{text[text.index('CREATE FUNCTION') :]}END $$")
        comments = script[script.index("COMMENT ON FUNCTION eventsched_log.prune_names") :]
        for comment in comments.split(";")[:2]:
            op.execute(comment)
        op.execute(f"REVOKE ALL ON FUNCTION {_FORMER} FROM PUBLIC")
        if with_roles:
            op.execute(f"GRANT EXECUTE ON FUNCTION {_FORMER} TO {WRITER}, {ARCHIVER}")
            op.execute(f"GRANT EXECUTE ON FUNCTION {_NOTE} TO {WRITER}")
