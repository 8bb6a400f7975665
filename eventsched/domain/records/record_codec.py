"""Records as the bytes that a log stores."""

import msgspec

from eventsched.domain.objects import canonical
from eventsched.domain.records.record import Record
from eventsched.domain.records.record_catalogue import AnyRecord

FORMAT = 1
"""Version of the log's format as a whole, in StreamStarted."""

_decoder: msgspec.json.Decoder[AnyRecord] = msgspec.json.Decoder(AnyRecord)


def encode(record: Record) -> bytes:
    """A record's canonical bytes: what is stored, hashed and compared."""
    return canonical(record)


def decode(body: bytes) -> AnyRecord:
    """The record in stored bytes. Raises msgspec.ValidationError for an unknown kind or shape, and
    msgspec.DecodeError for bytes that are not JSON."""
    try:
        return _decoder.decode(body)
    except (RecursionError, UnicodeDecodeError) as problem:
        raise msgspec.DecodeError(str(problem)) from problem
