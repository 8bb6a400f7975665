"""The hash chain of batches: the bytes that a writer hashes.

docs/log-format.md describes them. history/verify/verification.py is written from that document and
shares no code with this module.
"""

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import NamedTuple

from eventsched.domain.records.verdicts import Detail
from eventsched.eventlog.log_errors import ConflictError
from eventsched.eventlog.port import Batch, StoredRecord

_HEADER = struct.Struct(">B32si16sqiq32s32s")


class Term(NamedTuple):
    """The period in which one writer owns a stream. ``token`` (16 random bytes) distinguishes two
    epochs with the same number, which a failover that lost history can create."""

    stream: str
    epoch: int
    token: bytes


class Head(NamedTuple):
    """The end of a stream: the position of the next record and the hash of the last batch."""

    next: int
    hash: bytes


@dataclass(frozen=True, slots=True)
class SealedBatch:
    """A batch as it is sent and stored. When it is sent again, it is identical byte for byte.

    ``written_at`` is the writer's wall clock (µs since 1970), ``mark`` the writer's JSON text (how
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
        """The stream's head after this batch."""
        return Head(self.first + self.count, self.hash)


class ChainWriter:
    """The end of the chain as a stream's writer sees it: its term, and the head after the batches
    that it has begun. Logs inherit these parts of the EventLog port."""

    def __init__(self, term: Term, head: Head, clock: Callable[[], int]) -> None:
        """``clock`` returns the wall-clock time (µs since 1970) stored with each batch."""
        self._term, self._head, self._clock = term, head, clock

    @property
    def stream(self) -> str:
        """The stream's name."""
        return self._term.stream

    @property
    def head(self) -> int:
        """The position of the next record, counting a batch in flight."""
        return self._head.next

    @property
    def head_hash(self) -> bytes:
        """The hash of the last batch, which may be in flight."""
        return self._head.hash

    def _extend(self, batch: Batch) -> SealedBatch:
        """Seals a batch and moves the head behind it. Raises ValueError as ``seal`` does, and
        ConflictError if the batch does not begin at the head."""
        sealed = seal(batch, self._term, self._head, self._clock())
        if batch.first != self._head.next:
            raise ConflictError(batch.first, self._head.next)
        self._head = sealed.head
        return sealed


def genesis(stream: str) -> bytes:
    """32 bytes: the previous hash of the first batch of a stream."""
    return sha256(b"eventsched/1/" + stream.encode()).digest()


def body_of(records: Sequence[StoredRecord]) -> bytes:
    """One JSON array with [time, cause, version, record] for each record, in order. It contains the
    bytes of each record unchanged."""
    return (
        b"["
        + b",\n".join(b"[%d,%d,%d,%b]" % (r.at, r.cause, r.version, r.body) for r in records)
        + b"]"
    )


def batch_hash(sealed: SealedBatch) -> bytes:
    """32 bytes: the SHA-256 over the batch's fields and the previous hash."""
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
    """The batch, chained to ``head``. Raises ValueError for an empty batch or positions with
    gaps."""
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
