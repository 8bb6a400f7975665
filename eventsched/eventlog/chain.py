"""How batches hang together: the bytes that are hashed, in the writer and nowhere else.

docs/log-format.md says the same in words; history/verify/verification.py is written from that text
and shares no code with this.
"""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import NamedTuple

from eventsched.domain.records.verdicts import Detail
from eventsched.eventlog.port import Batch, Stored

_HEADER = struct.Struct(">B32si16sqiq32s32s")


class Term(NamedTuple):
    """A writer's reign over a stream. ``token`` (16 random bytes) tells two epochs of one number
    apart, which a failover that lost history can hand out."""

    stream: str
    epoch: int
    token: bytes


class Head(NamedTuple):
    """Where a stream ends: the position of the next record, and the hash of the last batch."""

    next: int
    hash: bytes


@dataclass(frozen=True, slots=True)
class SealedBatch:
    """A batch as it is sent and stored. Offered again it is the same, byte for byte.

    ``written_at`` is the writer's wall clock (µs since 1970), ``mark`` JSON text of its own (how
    far it has read its sources), ``body`` the JSON text of all records, ``previous`` the hash of
    the batch before.
    """

    term: Term
    first: int
    count: int
    written_at: int
    mark: bytes
    previous: bytes
    hash: bytes
    body: bytes
    details: Mapping[int, Detail]

    @property
    def head(self) -> Head:
        """The stream's head once this batch is in it."""
        return Head(self.first + self.count, self.hash)


def genesis(stream: str) -> bytes:
    """32 bytes: what stands for the batch before the first one of a stream."""
    return sha256(b"eventsched/1/" + stream.encode()).digest()


def body_of(records: Sequence[Stored]) -> bytes:
    """One JSON array with [time, cause, version, record] for each record, in order. The record's
    own bytes stand in it unchanged."""
    return (
        b"["
        + b",\n".join(b"[%d,%d,%d,%b]" % (r.at, r.cause, r.version, r.body) for r in records)
        + b"]"
    )


def batch_hash(sealed: SealedBatch) -> bytes:
    """32 bytes over everything that the batch says, and the batch before."""
    return sha256(
        _HEADER.pack(
            2,
            sealed.previous,
            sealed.term.epoch,
            sealed.term.token,
            sealed.first,
            sealed.count,
            sealed.written_at,
            sha256(sealed.mark).digest(),
            sha256(sealed.body).digest(),
        )
    ).digest()


def seal(batch: Batch, term: Term, head: Head, written_at: int) -> SealedBatch:
    """The batch, chained to a head. Raises ValueError for positions with gaps, an empty batch, or
    one that does not begin at the head."""
    positions = [record.position for record in batch.records]
    if not positions or positions != list(range(positions[0], positions[0] + len(positions))):
        raise ValueError(f"positions of a batch must be consecutive, these are {positions}")
    sealed = SealedBatch(
        term=term,
        first=batch.first,
        count=len(batch.records),
        written_at=written_at,
        mark=batch.mark,
        previous=head.hash,
        hash=b"",
        body=body_of(batch.records),
        details=batch.details,
    )
    return replace(sealed, hash=batch_hash(sealed))
