"""Batches as they are stored, and the records in them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from eventsched.domain.records import AnyRecord
from eventsched.eventlog.log_errors import CorruptLogError
from eventsched.eventlog.port import StoredRecord

BATCH_COLUMNS = (
    "b.first, b.count, b.epoch, (extract(epoch FROM b.written_at) * 1000000)::bigint AS written_at,"
    " b.mark::text AS mark, b.hash, b.body::text AS body"
)
"""The columns of a StoredBatch, in the order of its fields, from ``eventsched_log.batch b``."""
_items = msgspec.json.Decoder(list[tuple[int, int, int, msgspec.Raw]])
_kind = msgspec.json.Decoder(msgspec.defstruct("_Kind", [("kind", str)]))
_PREFIX = b'{"kind":"'


@dataclass(frozen=True, slots=True)
class StoredBatch:
    """A batch as it is stored; see SealedBatch. ``written_at`` is in µs since 1970."""

    first: int
    count: int
    epoch: int
    written_at: int
    mark: str
    hash: bytes
    body: str

    @property
    def records(self) -> list[StoredRecord]:
        """Its records. Raises CorruptLogError if the body has another form."""
        return decode_records(self.first, self.body)


def decode_records(first: int, body: str, having: bytes = b"") -> list[StoredRecord]:
    """The records of a batch that begins at position ``first``; only those whose bytes have
    ``having`` in them. Raises CorruptLogError if the body has another form."""
    try:
        return [
            StoredRecord(position, at, cause, _kind_of(stored), version, stored)
            for position, (at, cause, version, raw) in enumerate(_items.decode(body), first)
            if having in (stored := bytes(raw))
        ]
    except (msgspec.MsgspecError, RecursionError) as problem:
        raise CorruptLogError(first, str(problem)) from problem


def records_from(batches: Iterable[StoredBatch], first: int) -> Iterator[StoredRecord]:
    """The records of consecutive batches from position ``first`` on. Raises CorruptLogError."""
    for batch in batches:
        for record in batch.records:
            if record.position >= first:
                yield record


class DecodedRecord(NamedTuple):
    """A record as a batch has it, decoded. Its position is that of its place."""

    at: int
    cause: int
    version: int
    record: AnyRecord


_decoded_items = msgspec.json.Decoder(list[DecodedRecord])


def decoded_records(
    batches: Iterable[StoredBatch], first: int, end: int
) -> Iterator[DecodedRecord]:
    """The records of consecutive batches from position ``first`` up to ``end``, one for each
    position; each batch is decoded as a whole. Raises CorruptLogError, also for a gap."""
    expected = first
    for batch in batches:
        if batch.first > expected:
            raise CorruptLogError(expected, f"is not there: position {batch.first} follows")
        try:
            items = _decoded_items.decode(batch.body)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as problem:
            raise _undecodable(batch, problem) from problem
        yield from items[max(0, first - batch.first) : max(0, end - batch.first)]
        expected = batch.first + len(items)


def _undecodable(batch: StoredBatch, problem: Exception) -> CorruptLogError:
    """The error for a batch: it names the first record that cannot be decoded."""
    for stored in batch.records:
        try:
            _ = stored.record
        except msgspec.MsgspecError as own_problem:
            return CorruptLogError(stored.position, f"does not fit: {own_problem!r}")
    return CorruptLogError(batch.first, str(problem))


def _kind_of(body: bytes) -> str:
    """A record's kind, which is its first field unless the record was written by hand. Raises
    msgspec.MsgspecError if there is none."""
    if body.startswith(_PREFIX):
        return body[len(_PREFIX) : body.index(b'"', len(_PREFIX))].decode()
    kind: str = _kind.decode(body).kind  # type: ignore[attr-defined]
    return kind
