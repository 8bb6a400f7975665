"""Notes in the database what an archive holds, so that retention may drop it there."""

from collections.abc import Iterable
from pathlib import Path

import psycopg
from psycopg.types.json import Jsonb

from eventsched.eventlog.archive.archive_manifest import (
    BATCHES,
    Manifest,
    day_file,
    stream_folder,
)
from eventsched.eventlog.archive.parquet import digest_of
from eventsched.eventlog.postgres.housekeeping import housekeeping_connection

_NOTED = """
SELECT a.first, a.next FROM eventsched_log.archived a
JOIN eventsched_log.stream s ON s.id = a.stream WHERE s.name = %s
"""
_PRUNED = """
SELECT coalesce(max(p.next), 0) FROM eventsched_log.pruned p
JOIN eventsched_log.stream s ON s.id = p.stream WHERE s.name = %s
"""
_NOTE = "SELECT eventsched_log.note_archived(%s, %s, %s, %s, %s::json)"


def note_archived(address: str, folder: Path, stream: str, days: Iterable[Manifest]) -> str:
    """Notes the days of a stream that are not noted yet and that the database still has. Returns
    how to let this user do that, if the database refuses it; "" otherwise. Raises UnavailableError,
    and OSError if a file cannot be read."""
    own = stream_folder(folder, stream)
    with housekeeping_connection(address, stream) as connection:
        noted = set(connection.execute(_NOTED, (stream,)).fetchall())
        [(begin,)] = connection.execute(_PRUNED, (stream,)).fetchall()
        for day in days:
            if day.next <= begin or (day.first, day.next) in noted:
                continue
            digests = {BATCHES: digest_of(day_file(own, day.day, BATCHES)), **day.digests}
            values = (stream, day.day, day.first, day.next, Jsonb(digests))
            try:
                connection.execute(_NOTE, values)
            except psycopg.errors.InsufficientPrivilege as problem:
                return problem.diag.message_hint or "GRANT eventsched_archiver to the user"
    return ""
