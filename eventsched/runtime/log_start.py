"""Where a log begins whose oldest partitions were dropped, and how it can be read from there on."""

import zlib
from collections.abc import Iterator
from hashlib import sha256
from typing import NamedTuple

import msgspec

from eventsched.domain.records import PartitionSealed, StreamStarted
from eventsched.eventlog.log_errors import CorruptLogError
from eventsched.eventlog.postgres.reader import Reader
from eventsched.runtime.snapshot_policy import is_readable

_CHECKPOINTS = """
SELECT seq, digest, version, body FROM eventsched_log.checkpoint WHERE stream = :s ORDER BY seq
"""
_SEALS = """
SELECT seal FROM eventsched_log.pruned WHERE stream = :s AND seal >= :begin
UNION ALL SELECT seal FROM eventsched_log.partition WHERE stream = :s AND seal >= :begin
ORDER BY seal
"""
"""A stream has a row for each partition that was ever dropped: those whose seals were dropped, too,
must cost a start nothing."""


class LogStart(NamedTuple):
    """A position from which a log can be read: ``opening`` is in force there, and ``state`` is the
    engine's snapshot, whose state has the ``digest``."""

    position: int
    opening: StreamStarted
    state: bytes
    digest: str


class _Body(msgspec.Struct):
    """The part of a snapshot's body that every kind of snapshot has."""

    engine: msgspec.Raw


def first_start(reader: Reader) -> LogStart | None:
    """The first position from which a stream can be read; None if nothing was dropped, so that it
    can be read from its first record on. Raises CorruptLogError if no checkpoint can be used."""
    if not reader.begin:
        return None
    for start in _starts(reader, newest_first=False):
        return start
    raise CorruptLogError(
        reader.begin, "is the first record that was kept, and no checkpoint after it can be used"
    )


def last_start(reader: Reader, position: int) -> LogStart | None:
    """The last checkpoint up to a position, from which the stream can be read as well; None if
    there is none."""
    usable = _starts(reader, newest_first=True)
    return next((start for start in usable if start.position <= position), None)


def _starts(reader: Reader, *, newest_first: bool) -> Iterator[LogStart]:
    """The checkpoints whose seals are in the stream and have their digests."""
    seals = {
        record.digest: record
        for row in reader.rows(_SEALS, begin=reader.begin)
        if isinstance(record := next(reader.read(row["seal"])).record, PartitionSealed)
    }
    rows = reader.rows(_CHECKPOINTS)
    for row in reversed(rows) if newest_first else rows:
        body = bytes(row["body"])
        seal = seals.get(sha256(body).hexdigest())
        if seal is None or seal.checkpoint != row["seq"] or not is_readable(row["version"]):
            continue
        state = msgspec.json.decode(zlib.decompress(body), type=_Body).engine
        yield LogStart(row["seq"], seal.opening, bytes(state), row["digest"])
