"""Checks of the log and of its schema's version."""

from collections.abc import Iterator

from eventsched.eventlog.chain import genesis
from eventsched.eventlog.inspection.database_facts import DatabaseFacts, StreamEnd
from eventsched.eventlog.inspection.database_findings import DatabaseFinding, refuse, warn
from eventsched.eventlog.schema import migration_files, migrations

DEAD_ROWS = 10_000
"""Dead rows of table ``head`` from which on it is found. It has one live row for each stream."""
BLOAT_ROWS = 50_000
"""Dead rows of the other tables that are updated from which on they are found, if there are fewer
live ones: about what a minute of 200 decisions/s leaves, and autovacuum comes once a minute."""
_BLOAT = {
    "head": (DEAD_ROWS, "every append updates its row, and reads past the dead ones"),
    "pod_now": (
        BLOAT_ROWS,
        "appends update the rows of their pods, and queries of pods read past the dead ones",
    ),
    "record_count": (BLOAT_ROWS, "every append updates its rows, and reads past the dead ones"),
}
"""The tables whose rows are updated, with the least number of dead ones that is found, and why it
matters."""
_RESTORE = "restore the database from a backup (docs/how-to/back-up-and-restore.md)"
_TABLES = (
    "batch", "comparison", "decision", "epoch", "mention", "node", "pod", "pod_end", "queue_move",
    "queue_stay", "refusal", "reservation", "scoring", "stream", "verdict", "victim",
)  # fmt: skip
APPEND_ONLY = tuple(
    f"{table}.{trigger}" for table in _TABLES for trigger in ("append_only", "append_only_all")
)
"""The triggers that deny changes of the log, as ``table.trigger``."""


def revision(facts: DatabaseFacts) -> Iterator[DatabaseFinding]:
    """The schema's revision against this version's."""
    stored, newest = facts.version, migrations.newest()
    why = "a scheduler of this version does not start on it"
    if stored is None:
        yield refuse("there is no eventsched schema", why, "eventsched db upgrade")
    elif stored.revision not in migration_files.revisions():
        if not stored.runs_us:
            problem = f"the schema's revision {stored.revision} is newer than this version knows"
            remedy = "install the version of eventsched that made it, or a newer one"
            yield refuse(f"{problem} ({newest})", why, remedy)
    elif not stored.runs_us:
        problem = f"the schema's revision is {stored.revision}, not {migration_files.needed()}"
        yield refuse(problem, why, "eventsched db upgrade")
    elif stored.revision != newest:
        yield warn(
            f"the schema's revision is {stored.revision}, not {newest}",
            "the upgrade is not complete: behaviours of this version that an older one does not "
            "have are off",
            "eventsched db upgrade --post, once all replicas have this version",
        )


def head(facts: DatabaseFacts) -> Iterator[DatabaseFinding]:
    """Each stream's head against its last batch."""
    for end in facts.schema.ends if facts.schema else ():
        problem = _inconsistency(end)
        if problem:
            yield refuse(
                f"stream {end.stream}: {problem}",
                "the next append would continue another history than the one that is stored",
                f"{_RESTORE}; `eventsched verify` shows what is wrong",
            )


def dead_rows(facts: DatabaseFacts) -> Iterator[DatabaseFinding]:
    """Bloat of the tables whose rows are updated."""
    for table in facts.schema.updated_tables if facts.schema else ():
        least, reason = _BLOAT[table.name]
        if table.dead >= least and table.dead > table.live:
            yield warn(
                f"table eventsched_log.{table.name} has {table.dead:,} dead rows"
                + (f", and {table.live:,} live ones" if table.name != "head" else ""),
                reason,
                f"VACUUM eventsched_log.{table.name}, after ending what keeps them (long "
                "transactions, unused slots)",
            )


def append_only(facts: DatabaseFacts) -> Iterator[DatabaseFinding]:
    """The triggers that keep even the owner from changing the log by mistake."""
    if facts.schema is None:
        return
    for name in APPEND_ONLY:
        state = facts.schema.triggers.get(name)
        if state == "A":
            continue
        table, _, trigger = name.partition(".")
        event = "BEFORE UPDATE OR DELETE" if trigger == "append_only" else "BEFORE TRUNCATE"
        level = "ROW" if trigger == "append_only" else "STATEMENT"
        create = (
            f"CREATE TRIGGER {trigger} {event} ON eventsched_log.{table} FOR EACH {level} "
            "EXECUTE FUNCTION eventsched_log.deny(); "
        )
        enable = f"ALTER TABLE eventsched_log.{table} ENABLE ALWAYS TRIGGER {trigger}"
        yield refuse(
            f"trigger {trigger} of table eventsched_log.{table} is "
            + ("missing" if state is None else "not enabled always"),
            "rows of the log can be changed or deleted without an error; run `eventsched verify`, "
            "because that may have happened",
            enable if state is not None else create + enable,
        )


def partitions(facts: DatabaseFacts) -> Iterator[DatabaseFinding]:
    """The partitions that the log has, against those that it should have."""
    for each in facts.schema.broken_partitions if facts.schema else ():
        name, table = f"eventsched_log.{each.name}", f"eventsched_log.{each.table}"
        if each.is_attached:
            yield refuse(
                f"triggers of partition {name} are missing or not enabled always",
                "rows of the log can be changed or deleted without an error; run "
                "`eventsched verify`, because that may have happened",
                "; ".join(
                    f"ALTER TABLE {name} ENABLE ALWAYS TRIGGER {trigger}"
                    for trigger in ("append_only", "append_only_all")
                ),
            )
            continue
        attach = f"ALTER TABLE {table} ATTACH PARTITION {name} {each.bounds}"
        yield refuse(
            f"table {table} has no partition {name}"
            + (", though there is such a table" if each.exists else ""),
            f"queries do not find its part of stream {each.stream}, and appends to it fail",
            attach if each.exists else _RESTORE,
        )


def _inconsistency(end: StreamEnd) -> str:
    """What is wrong with the end of a stream; "" if nothing is."""
    if end.next is None or end.hash is None:
        return "its row in eventsched_log.head is missing"
    if end.last_first is None or end.last_count is None:
        if end.next:
            return f"its head is at {end.next}, but it has no batch"
        return "" if bytes(end.hash) == genesis(end.stream) else "its head has a wrong hash"
    after = end.last_first + end.last_count
    if after != end.next:
        return f"its head is at {end.next}, but its last batch ends before {after}"
    if end.hash != end.last_hash:
        return "its head and its last batch have different hashes"
    return ""
