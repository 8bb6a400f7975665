"""Keeps a snapshot for each 12,500 positions. Two of format 2 take a third more room than one of
format 1, which was kept for each 25,000."""

from alembic import op
from sqlalchemy import text

from eventsched.eventlog.schema.revisions import as_owner, execute_script

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None

_KEEP = "eventsched_log.keep_snapshot(integer, integer, uuid, bigint, bytea, text, text, bytea)"
_BEFORE, _NOW = "greatest(25000, ", "greatest(12500, "


def upgrade() -> None:
    """Changes the distance in the function that stores snapshots."""
    with as_owner():
        _redefine(_BEFORE, _NOW)


def downgrade() -> None:
    """Restores the former distance. It holds for the snapshots that are stored from then on."""
    with as_owner():
        _redefine(_NOW, _BEFORE)


def _redefine(old: str, new: str) -> None:
    query = text("SELECT pg_get_functiondef(CAST(:function AS regprocedure))")
    definition: str = op.get_bind().execute(query, {"function": _KEEP}).scalar_one()
    assert definition.count(old) == 1, old
    execute_script(definition.replace(old, new))
