"""Limits the views to the stream that the setting eventsched.stream names, if it is set."""

from alembic import op

from eventsched.eventlog.schema.revisions import READER, WRITER, as_owner, run_script

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

_ALL, _CHOSEN = "eventsched_log.stream s", "eventsched_log.chosen_stream s"
_VIEWS = (
    "eventsched.streams", "eventsched.events", "eventsched.decisions", "eventsched.requests",
    "eventsched.pods_now", "eventsched_log.preempted",
)  # fmt: skip
"""The views that read the stream's name from table stream; all others use these and _FUNCTION.
Functions with a stream as argument are not affected."""
_FUNCTION = "eventsched_log.events_of(text)"
_REDEFINE = """
DO $$ DECLARE
    v_view text;
BEGIN
    SET LOCAL search_path = pg_catalog;  -- so that every name in a definition has its schema
    FOREACH v_view IN ARRAY ARRAY[{views}] LOOP
        EXECUTE 'CREATE OR REPLACE VIEW ' || v_view || ' AS '
            || replace(pg_get_viewdef(v_view::regclass), '{old}', '{new}');
    END LOOP;
    EXECUTE replace(pg_get_functiondef('{function}'::regprocedure), '{old}', '{new}');
END $$
"""


def upgrade() -> None:
    """Creates the view of the chosen streams, and makes the other views read it."""
    with as_owner() as with_roles:
        run_script("0008_chosen_stream.sql")
        if with_roles:
            op.execute(f"GRANT SELECT ON eventsched_log.chosen_stream TO {WRITER}, {READER}")
        _redefine(_ALL, _CHOSEN)


def downgrade() -> None:
    """Makes the views show all streams again."""
    with as_owner():
        _redefine(_CHOSEN, _ALL)
        op.execute("DROP VIEW eventsched_log.chosen_stream")


def _redefine(old: str, new: str) -> None:
    views = ", ".join(f"'{view}'" for view in _VIEWS)
    op.execute(_REDEFINE.format(views=views, function=_FUNCTION, old=old, new=new))
