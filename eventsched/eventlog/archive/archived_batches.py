"""The batches of an archived file, with the hash of each recomputed."""

from collections.abc import Iterator
from pathlib import Path

from eventsched.domain.errors import InputError
from eventsched.eventlog.archive.archive_manifest import BATCHES, DETAILS, RESTORE, Manifest
from eventsched.eventlog.archive.parquet import row_group, row_group_starts
from eventsched.eventlog.chain import SealedBatch, Term, batch_hash
from eventsched.eventlog.postgres.stored_batch import StoredBatch


def chained_hash(batch: StoredBatch, stream: str, token: bytes, previous: bytes) -> bytes:
    """The hash that a batch should have after a batch with hash ``previous``."""
    return batch_hash(
        SealedBatch(
            term=Term(stream, batch.epoch, token), first=batch.first, count=batch.count,
            written_at=batch.written_at, mark=batch.mark.encode(), previous=previous, hash=b"",
            body=batch.body.encode(), details={},
        )
    )  # fmt: skip


def read_group(path: Path, stream: str, index: int, previous: bytes | None) -> list[StoredBatch]:
    """The batches of a row group. The chain is recomputed from ``previous`` on, the hash before the
    group; if that is None, the group's first batch is not checked. Raises InputError if a batch is
    not what was archived."""
    batches: list[StoredBatch] = []
    for first, count, epoch, token, written_at, mark, digest, body in row_group(
        path, BATCHES, index
    ):
        batch = StoredBatch(first, count, epoch, written_at, mark, digest, body)
        follows = not batches or first == batches[-1].first + batches[-1].count
        if not follows or (
            previous is not None and chained_hash(batch, stream, token, previous) != digest
        ):
            problem = f"was altered: the batch at position {first} has not the hash of its content"
            raise InputError(str(path), problem, RESTORE)
        batches.append(batch)
        previous = digest
    return batches


def read_batches(path: Path, manifest: Manifest) -> Iterator[StoredBatch]:
    """All batches of a file, one row group at a time. The whole chain from the manifest's hash
    before to its hash after is recomputed. Raises InputError."""
    end, digest = manifest.first, bytes.fromhex(manifest.before)
    for index, start in enumerate(row_group_starts(path)):
        batches = read_group(path, manifest.stream, index, digest)
        if start != end or batches[0].first != end:
            raise InputError(str(path), f"was altered: it lacks position {end}", RESTORE)
        yield from batches
        end, digest = batches[-1].first + batches[-1].count, batches[-1].hash
    if (end, digest.hex()) != (manifest.next, manifest.after):
        raise InputError(str(path), f"was altered: its last batch ends at {end}", RESTORE)


def read_details(path: Path) -> Iterator[tuple[int, int | None, bytes]]:
    """All details of a file (seq, base, body), one row group at a time. Raises InputError."""
    for index in range(len(row_group_starts(path))):
        yield from row_group(path, DETAILS, index)
