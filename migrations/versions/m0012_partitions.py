"""Partitions the tables by position, so that old rows go by dropping whole partitions.

The table of before becomes the first partition of the largest stream; the rows of other streams
move to partitions of their own. Postgres reads each table once for that. Appends wait meanwhile.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from alembic import op
from sqlalchemy import text

from eventsched.eventlog.schema.migration_files import folder
from eventsched.eventlog.schema.revisions import (
    READER,
    WRITER,
    as_owner,
    execute_script,
    run_script,
)

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

_POSITIONS = {
    "batch": "first", "detail": "seq", "decision": "seq", "queue_move": "seq", "queue_stay": "seq",
    "reservation": "seq", "pod_end": "seq", "refusal": "seq", "mention": "first",
}  # fmt: skip
_STORED = dict.fromkeys(("batch", "detail"), "WITH (toast_tuple_target = 128)")
_INTERNAL = (
    "eventsched_log.partitioned_tables(), eventsched_log.partition_size(integer), "
    "eventsched_log.attach_partition(text, integer, bigint, bigint), "
    "eventsched_log.make_partition(integer, bigint, bigint), "
    "eventsched_log.extend_partitions(integer, bigint)"
)
_HOUSEKEEPING = "eventsched_log.make_partitions(text)"
_LARGEST = "SELECT stream, next FROM eventsched_log.head ORDER BY next DESC LIMIT 1"
_OTHERS = "SELECT stream, next FROM eventsched_log.head WHERE stream <> :largest ORDER BY stream"
_FIRST = """
INSERT INTO eventsched_log.partition (stream, first, next)
SELECT :stream, 0, (:end / size + 1) * size FROM eventsched_log.partition_size(:stream) AS size
RETURNING next
"""
_PLACES = """
UPDATE eventsched_log.head h SET partition_first = p.first, partition_next = p.next
FROM eventsched_log.partition p
WHERE p.stream = h.stream AND h.next - 1 >= p.first AND h.next - 1 < p.next
"""
_VIEWS = """
SELECT DISTINCT CAST(CAST(c.oid AS regclass) AS text), pg_get_viewdef(c.oid)
FROM pg_depend d JOIN pg_rewrite w ON w.oid = d.objid JOIN pg_class c ON c.oid = w.ev_class
WHERE d.classid = CAST('pg_rewrite' AS regclass) AND d.refclassid = CAST('pg_class' AS regclass)
AND d.refobjid = ANY (CAST(:tables AS regclass[])) AND c.relkind = 'v' ORDER BY 1
"""
_INDEXES = """
SELECT CAST(i.relname AS text), pg_get_indexdef(i.oid), x.indisprimary
FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid
WHERE x.indrelid = CAST(:table AS regclass) ORDER BY i.relname
"""
_TRIGGERS = """
SELECT CAST(tgname AS text), pg_get_triggerdef(oid), tgenabled = 'A' FROM pg_trigger
WHERE tgrelid = CAST(:table AS regclass) AND NOT tgisinternal ORDER BY tgname
"""
_GRANTS = """
SELECT a.privilege_type || ' ON ' || CAST(:table AS text) || ' TO ' || CAST(a.grantee AS regrole)
FROM pg_class c CROSS JOIN LATERAL aclexplode(c.relacl) a
WHERE c.oid = CAST(:table AS regclass) AND a.grantee <> c.relowner AND a.grantee <> 0
"""
_COMMENT = "SELECT quote_literal(obj_description(CAST(:table AS regclass), 'pg_class'))"


class _Trigger(NamedTuple):
    """A trigger of a table, and whether it fires in a session that replicates, too."""

    name: str
    definition: str
    is_always: bool


def upgrade() -> None:
    """Makes the partitioned tables, and partitions for the streams that there are."""
    with as_owner() as with_roles:
        run_script("0012_partitions.sql")
        [(largest, end)] = _rows(_LARGEST) or [(0, 0)]
        with _views_kept():
            triggers = {table: _replace(table, f"{table}_{largest}_0") for table in _POSITIONS}
        for stream, its_end in _rows(_OTHERS, largest=largest):
            _run(f"SELECT eventsched_log.extend_partitions({stream}, {its_end + 1})")
            for table in _POSITIONS:
                _move(f"{table}_{largest}_0", table, stream)
        if largest:
            [(following,)] = _rows(_FIRST, stream=largest, end=end)
            for table in _POSITIONS:
                _run(
                    f"SELECT eventsched_log.attach_partition('{table}', {largest}, 0, {following})"
                )
        else:
            for table in _POSITIONS:
                _run(f"DROP TABLE eventsched_log.{table}_0_0")
        for table, others in triggers.items():
            _create(table, others)
        _run(_PLACES)
        _run(f"REVOKE ALL ON FUNCTION {_INTERNAL}, {_HOUSEKEEPING} FROM PUBLIC")
        if with_roles:
            _run(f"GRANT SELECT ON eventsched_log.partition TO {WRITER}, {READER}")
            _run(f"GRANT EXECUTE ON FUNCTION {_HOUSEKEEPING} TO {WRITER}")


def downgrade() -> None:
    """Makes whole tables of the partitioned ones again, and restores the former functions."""
    with as_owner():
        with _views_kept():
            for table in _POSITIONS:
                _create(table, _replace(table, f"partitioned_{table}", is_whole=True))
        for table in _POSITIONS:
            _run(f"DROP TABLE eventsched_log.partitioned_{table}")
        _run(f"DROP FUNCTION {_INTERNAL}, {_HOUSEKEEPING}")
        _run(
            "ALTER TABLE eventsched_log.head DROP COLUMN partition_first,"
            " DROP COLUMN partition_next"
        )
        _run("DROP TABLE eventsched_log.partition")
        execute_script(_statement("0001_append.sql", "FUNCTION eventsched_log.append("))
        execute_script(
            _statement("0006_reading.sql", "FUNCTION eventsched_log.thin(").replace(
                "eventsched_log.thin(", "eventsched_log.thin_unchecked("
            )
        )


def _replace(table: str, former: str, *, is_whole: bool = False) -> list[_Trigger]:
    """Renames a table to ``former`` and makes one of its name that is the same, but partitioned, or
    not and with its rows if ``is_whole``. Returns the triggers that it does not have yet, because
    they would act on rows that move."""
    name = f"eventsched_log.{table}"
    indexes, triggers = _rows(_INDEXES, table=name), _rows(_TRIGGERS, table=name)
    grants, [(comment,)] = _rows(_GRANTS, table=name), _rows(_COMMENT, table=name)
    for index, _, _ in indexes:
        _run(f"ALTER INDEX eventsched_log.{index} RENAME TO {index.replace(table, former, 1)}")
    for trigger, _, _ in triggers:
        _run(f"DROP TRIGGER {trigger} ON {name}")
    _run(f"ALTER TABLE {name} RENAME TO {former}")
    kind = (
        _STORED.get(table, "") if is_whole else f"PARTITION BY RANGE (stream, {_POSITIONS[table]})"
    )
    _run(
        f"CREATE TABLE {name} (LIKE eventsched_log.{former} INCLUDING ALL EXCLUDING INDEXES) {kind}"
    )
    if is_whole:
        _run(f"INSERT INTO {name} SELECT * FROM eventsched_log.{former}")
    for index, definition, is_primary in indexes:
        columns = definition.partition(" USING btree ")[2]
        _run(
            f"ALTER TABLE {name} ADD CONSTRAINT {index} PRIMARY KEY {columns}"
            if is_primary
            else definition.replace(" ON ONLY ", " ON ")
        )
    _run(f"COMMENT ON TABLE {name} IS {comment or 'NULL'}")
    for (grant,) in grants:
        _run(f"GRANT {grant}")
        _run("REVOKE " + grant.replace(name, f"eventsched_log.{former}").replace(" TO ", " FROM "))
    found = [_Trigger(*trigger) for trigger in triggers]
    _create(table, [trigger for trigger in found if trigger.name.startswith("append_only")])
    return [trigger for trigger in found if not trigger.name.startswith("append_only")]


def _create(table: str, triggers: list[_Trigger]) -> None:
    for trigger in triggers:
        _run(trigger.definition)
        if trigger.is_always:
            _run(f"ALTER TABLE eventsched_log.{table} ENABLE ALWAYS TRIGGER {trigger.name}")


def _move(former: str, table: str, stream: int) -> None:
    moved = f"FROM eventsched_log.{former} WHERE stream = {stream}"
    _run(f"INSERT INTO eventsched_log.{table} SELECT * {moved}")
    _run(f"DELETE {moved}")


@contextmanager
def _views_kept() -> Iterator[None]:
    """Defines the views on these tables again at the end: a view stays with a renamed table."""
    _run("SET LOCAL search_path = pg_catalog")  # so that every name in a definition has its schema
    tables = "{" + ",".join(f"eventsched_log.{table}" for table in _POSITIONS) + "}"
    views = _rows(_VIEWS, tables=tables)
    yield
    for view, definition in views:
        _run(f"CREATE OR REPLACE VIEW {view} AS {definition}")
    _run("SET LOCAL search_path TO DEFAULT")


def _rows(query: str, **values: object) -> list[Any]:
    return list(op.get_bind().execute(text(query), values).all())


def _run(statement: str) -> None:
    op.get_bind().exec_driver_sql(statement.replace("%", "%%"))


def _statement(script: str, begin: str) -> str:
    """The definition of a function in an earlier script."""
    content = (folder() / "sql" / script).read_text(encoding="utf-8")
    start, ending = content.index(begin), "END $$;\n"
    end = content.index(ending, start) + len(ending)
    return "CREATE OR REPLACE " + content[start:end]
