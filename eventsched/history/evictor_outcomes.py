"""What happened to the pod for which others had to leave a node: the next attempt that found a node
for it, or its end, says so."""

from eventsched.domain.records import Outcome

ON_FREED_NODE, ELSEWHERE, STILL_WAITING, GONE = "freed node", "elsewhere", "waiting", "gone"
EVICTOR_OUTCOMES = ON_FREED_NODE, ELSEWHERE, STILL_WAITING, GONE
"""It was placed on the node that was freed for it, or on another one; it still waits; or it was
deleted before it had a node."""
FOUND_NODE = (Outcome.SCHEDULED, Outcome.WAITING)
"""Outcomes of attempts that found a node."""


def evictor_outcome(freed: str, landed: str, *, is_gone: bool) -> str:
    """One of EVICTOR_OUTCOMES, for records: of a log that need not be in a database. ``landed`` is
    the node of the next attempt that found one, "" if none did."""
    if landed:
        return ON_FREED_NODE if landed == freed else ELSEWHERE
    return GONE if is_gone else STILL_WAITING


def evictor_outcome_sql(freed: str, landed: str, gone: str) -> str:
    """The same as an expression of SQL, for rows, which are filtered and counted by it; the
    arguments are columns, ``landed`` and ``gone`` null if there is none."""
    return (
        f"CASE WHEN {landed} = {freed} THEN '{ON_FREED_NODE}' "
        f"WHEN {landed} IS NOT NULL THEN '{ELSEWHERE}' "
        f"WHEN {gone} IS NOT NULL THEN '{GONE}' ELSE '{STILL_WAITING}' END"
    )
