"""Drops what is old: whole partitions that are sealed, the oldest first."""

from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from eventsched.domain.records import PartitionSealed
from eventsched.eventlog.address_file import Address
from eventsched.eventlog.postgres.housekeeping import housekeeping_connection, until_none
from eventsched.eventlog.postgres.reader import Reader


class Pruned(NamedTuple):
    """A range of records that was dropped, with everything that belongs to them."""

    first: int
    next: int


_NAMES = "SELECT eventsched_log.prune_names(%s, %s, %s, %s)"
_PRUNE = "SELECT eventsched_log.prune(%s, %s, %s)"
_PRUNED = """
SELECT p.first, p.next FROM eventsched_log.pruned p
JOIN eventsched_log.stream s ON s.id = p.stream WHERE s.name = %s ORDER BY p.first
"""
_SEAL_OF = """
SELECT seal FROM eventsched_log.pruned
WHERE stream = :s AND next > :position ORDER BY first LIMIT 1
"""


def archived_files(reader: Reader, position: int) -> list[str]:
    """The names of the archive's files that hold a dropped position and its neighbours, as its seal
    says; none if nothing says so any more."""
    for row in reader.rows(_SEAL_OF, position=position):
        if row["seal"] < reader.begin:
            continue
        seal = next(reader.read(row["seal"])).record
        if isinstance(seal, PartitionSealed):
            return sorted(name for name in seal.archived if ".batches." in name)
    return []


def prune(
    where: Address, stream: str, age: float, now: int, *, needs_archive: bool = False
) -> list[Pruned]:
    """Drops the oldest partitions of a stream as far as they are sealed and their records were
    written more than ``age`` seconds before ``now`` (µs since 1970); with ``needs_archive`` only
    what an archive holds. Returns what was dropped. It may be interrupted at any point; the next
    call goes on. Blocks until done, or until it gave up because of queries on old rows. Raises
    UnavailableError, also if this user may not drop what no archive holds."""
    before = datetime.fromtimestamp(now / 1e6, UTC) - timedelta(seconds=age)
    with housekeeping_connection(where, stream) as connection:
        known = len(connection.execute(_PRUNED, (stream,)).fetchall())
        is_whole = True
        while is_whole:
            position: int | None = 0
            while position is not None:
                row = connection.execute(
                    _NAMES, (stream, before, position, needs_archive)
                ).fetchone()
                position = None if row is None else row[0]
            is_whole = False
            for table in until_none(connection, _PRUNE, (stream, before, needs_archive)):
                is_whole = table.startswith("batch_")
                if is_whole:
                    break
        rows = connection.execute(_PRUNED, (stream,)).fetchall()
        return [Pruned(*row) for row in rows[known:]]
