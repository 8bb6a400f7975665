"""Whether a database continues what an archive holds."""

from eventsched.domain.errors import InputError
from eventsched.eventlog.addresses import shown
from eventsched.eventlog.archive.archived_batches import chained_hash
from eventsched.eventlog.chain import Head
from eventsched.eventlog.postgres.reader import Reader

_TOKEN = "SELECT token FROM eventsched_log.epoch WHERE stream = :s AND epoch = :epoch"


def require_join(reader: Reader, archived: Head, where: str) -> None:
    """Requires that the stream in the database goes on where its archive ends, with the same hash.
    ``where`` names the archive. Raises InputError."""
    head = reader.head
    stream = f"stream {reader.stream} of {shown(reader.address)}"
    if head.next < archived.next:
        raise InputError(
            where,
            f"ends at position {archived.next}, but {stream} ends at {head.next}: it is another "
            "log, or has lost its end",
            "name the database of this archive, or another folder",
        )
    if not _continues(reader, archived, head, where, stream):
        raise InputError(
            where,
            f"does not continue in {stream}: the hash at position {archived.next} is another one, "
            "so they are different logs",
            "name the database of this archive, or another folder",
        )


def _continues(reader: Reader, archived: Head, head: Head, where: str, stream: str) -> bool:
    if head.next == archived.next:
        return head.hash == archived.hash
    batch = next(reader.batches(archived.next))
    if batch.first > archived.next:
        raise InputError(
            where,
            f"ends at position {archived.next}, and {stream} begins at {batch.first}: the "
            "positions between are in neither",
            "restore the archive's files of the days between",
        )
    if batch.first < archived.next:
        return False
    tokens = reader.rows(_TOKEN, epoch=batch.epoch)
    return any(
        chained_hash(batch, reader.stream, row["token"].bytes, archived.hash) == batch.hash
        for row in tokens
    )
