"""Lets a new node have the row of a deleted one: a row's name depends on the position."""

from alembic import op

from eventsched.eventlog.schema.revisions import as_owner, run_script

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

_FUNCTIONS = "verdicts(text, bigint)", "scores(text, bigint)", "candidates(text, bigint)"
_ANY = r"JOIN eventsched_log\.node n ON n\.stream = (\w)\.stream AND n\.ordinal = \w\.ordinal"
_NEWEST = (
    r"JOIN LATERAL \(\n"
    r"        SELECT name FROM eventsched_log\.node\n"
    r"        WHERE stream = (\w)\.stream AND ordinal = \w\.ordinal AND seq < p_seq\n"
    r"        ORDER BY seq DESC LIMIT 1\n"
    r"    \) n ON true"
)
_REDEFINE = """
DO $$ DECLARE
    v_old text;
    v_new text;
BEGIN
    v_old := pg_get_functiondef('eventsched.{function}'::regprocedure);
    v_new := regexp_replace(v_old, '{pattern}', '{replacement}');
    IF v_new = v_old THEN
        RAISE EXCEPTION 'eventsched.{function} is not the one of this schema';
    END IF;
    EXECUTE v_new;
END $$
"""


def upgrade() -> None:
    """Extends the key of table node, and makes the functions read a row's name by position."""
    with as_owner():
        run_script("0009_node_rows.sql")
        _redefine(_ANY, _NEWEST)


def downgrade() -> None:
    """Restores the former key and functions. Raises an error if a row was reused: the former schema
    cannot hold such a log."""
    with as_owner():
        run_script("0009_node_rows_down.sql")
        _redefine(_NEWEST, _ANY)


def _redefine(old: str, new: str) -> None:
    replacement = new.replace(r"(\w)", r"\1").replace(r"\w", r"\1")
    for escaped, plain in ((r"\.", "."), (r"\(", "("), (r"\)", ")"), (r"\n", "\n")):
        replacement = replacement.replace(escaped, plain)
    for function in _FUNCTIONS:
        op.execute(_REDEFINE.format(function=function, pattern=old, replacement=replacement))
