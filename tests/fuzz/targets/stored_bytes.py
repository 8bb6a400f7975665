"""Stored bytes: records, batches, vectors of decisions, snapshots."""

from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from eventsched.domain import records
from eventsched.domain.objects.texts import json_without_nul
from eventsched.domain.records.verdicts import DeltaPart, Detail
from eventsched.eventlog import vectors
from eventsched.eventlog.log_errors import CorruptLogError
from eventsched.eventlog.port import StoredSnapshot
from eventsched.eventlog.postgres.stored_batch import decode_records
from eventsched.history.verify import verified_vectors
from eventsched.history.verify.verified_log import Packed
from eventsched.history.verify.verified_vectors import VectorError
from eventsched.runtime.leader.followed_stream import StreamState
from tests.builders import engine_of
from tests.fuzz.choices import Choices
from tests.fuzz.documents import HOSTILE_JSON, as_json, spoiled
from tests.fuzz.targets import extender_requests, is_choices

_GOLDEN = Path(__file__).parents[2] / "contract" / "records-golden.jsonl"
_BASE, _SEQ = 3, 9


def fuzz_one(data: bytes) -> None:
    """Each decoder raises only its documented error, and what it reads is written as it was. The
    reader of vectors and that of verification agree."""
    if not is_choices(data):
        _record(data)
        _vectors(data, None)
        _vectors(data, _BASE)
        _snapshot(data)
        return
    choices = Choices(data[1:])
    match choices.below(3):
        case 0:
            _record(as_json(spoiled(choices.of(_golden()), choices, HOSTILE_JSON)))
        case 1:
            _snapshot(as_json(spoiled(_valid_snapshot(), choices, HOSTILE_JSON)))
        case _:
            detail = choices.of(_details())
            body = bytearray(vectors.pack(detail))
            for _ in range(choices.below(4)):
                body[choices.below(len(body))] = choices.below(256)
            body[len(body) :] = choices.take(choices.below(3))
            _vectors(bytes(body[: len(body) - choices.below(3)]), detail.base)


@lru_cache(maxsize=1)
def _golden() -> list[Any]:
    return [msgspec.json.decode(line) for line in _GOLDEN.read_bytes().splitlines()]


def _record(body: bytes) -> None:
    try:
        record = records.decode(json_without_nul(body))
    except msgspec.MsgspecError:
        pass
    else:
        stored = records.encode(record)
        assert records.decode(stored) == record
    try:
        for stored_record in decode_records(0, f"[[0,0,1,{json_without_nul(body).decode()}]]"):
            stored_record.kind.encode()
    except (CorruptLogError, UnicodeDecodeError):
        return


@lru_cache(maxsize=1)
def _details() -> list[Detail]:
    codes = np.array([0, 1, 65_533, 0], dtype=np.uint16)
    raw = np.array([1, 2, 3, 200], dtype=np.uint8)
    wide = np.array([1, -(2**40), 3, 2**62])
    rows = np.array([1, 3], dtype=np.int32)
    part = DeltaPart(rows, np.array([5, 6]))
    return [
        Detail(4, None, codes, (raw, wide), (None, wide)),
        Detail(4, None, np.zeros(4, dtype=np.uint16), (np.full(4, 7),), (None,)),
        Detail(4, _BASE, DeltaPart(rows, codes[rows]), (part, None), (None, part)),
        Detail(4, _BASE, None, (), ()),
        Detail(0, None, codes[:0], (), ()),
        Detail(4, None, codes, (part,), (part,), is_partial=True),
    ]


def _vectors(body: bytes, base: int | None) -> None:
    try:
        detail: Detail | None = vectors.unpack(body, base)
    except ValueError:
        detail = None
    try:
        verified = verified_vectors.unpack(Packed(_SEQ, base, body), vectors.MOST_ROWS)
    except VectorError:
        return
    assert detail is not None
    assert detail.size == verified.size
    assert len(detail.scores) == verified.scores
    if detail.size < 2**16:
        assert vectors.unpack(vectors.pack(detail), base).size == detail.size


@lru_cache(maxsize=1)
def _valid_snapshot() -> Any:
    stream_state = StreamState(extender_requests._engine(), "s")
    snapshot = stream_state.snapshot(stream_state.head, ()).finish()
    return {
        "digest": snapshot.digest,
        "version": snapshot.version,
        "body": msgspec.json.decode(snapshot.body),
    }


def _snapshot(body: bytes) -> None:
    """``restore`` says whether a snapshot can be used."""
    valid = _valid_snapshot()
    try:
        changed = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        changed = {}
    content = bytes(changed.get("body", body))
    stream_state = StreamState(engine_of(), "s")
    stream_state.restore(StoredSnapshot(12, b"h" * 32, valid["digest"], valid["version"], content))
