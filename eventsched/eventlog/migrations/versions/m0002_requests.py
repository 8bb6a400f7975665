"""What people ask of a running scheduler, and what its plugins remember."""

from importlib.resources import files

from alembic import op
from sqlalchemy import text

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_OWNER, _WRITER, _READER = "eventsched_owner", "eventsched_writer", "eventsched_reader"
_FORMER_FIRST_NODES = """
CREATE OR REPLACE VIEW eventsched.first_nodes AS
SELECT stream, key, node, seq, at
FROM (
    SELECT DISTINCT ON (stream, record ->> 'key')
           stream, record ->> 'key' AS key, record ->> 'value' AS node, seq, at
    FROM eventsched.events
    WHERE kind = 'MemoryChanged' AND record ->> 'plugin' = 'FirstScheduledNode'
    ORDER BY stream, record ->> 'key', seq DESC
) newest
WHERE node IS NOT NULL
"""


def upgrade() -> None:
    """Makes the table, its functions and views, as whoever owns the schema."""
    with_roles = _with_roles()
    if with_roles:
        op.execute(f"SET LOCAL ROLE {_OWNER}")
    script = files("eventsched.eventlog").joinpath("sql", "0002_requests.sql").read_text()
    op.get_bind().connection.cursor().execute(script)
    made = "eventsched_log.ask_to_forget(text, text, text), eventsched_log.mark_requests()"
    op.execute(f"REVOKE ALL ON FUNCTION {made} FROM PUBLIC")
    if with_roles:
        read = "eventsched_log.request, eventsched.requests, eventsched.memory"
        op.execute(f"GRANT SELECT ON {read} TO {_WRITER}, {_READER}")
        asking = "eventsched_log.ask_to_forget(text, text, text)"
        op.execute(f"GRANT EXECUTE ON FUNCTION {asking} TO {_WRITER}")
        op.execute("RESET ROLE")


def downgrade() -> None:
    """Takes all of it away again."""
    if with_roles := _with_roles():
        op.execute(f"SET LOCAL ROLE {_OWNER}")
    op.execute(_FORMER_FIRST_NODES)
    op.execute("DROP VIEW eventsched.memory, eventsched.requests")
    op.execute("DROP TRIGGER mark_requests ON eventsched_log.batch")
    op.execute("DROP FUNCTION eventsched_log.mark_requests()")
    op.execute("DROP FUNCTION eventsched_log.ask_to_forget(text, text, text)")
    op.execute("DROP TABLE eventsched_log.request")
    if with_roles:
        op.execute("RESET ROLE")


def _with_roles() -> bool:
    """Whether the schema belongs to the owner's role, rather than to the one user there is."""
    owner = "SELECT nspowner::regrole::text FROM pg_namespace WHERE nspname = 'eventsched_log'"
    return bool(op.get_bind().execute(text(owner)).scalar() == _OWNER)
