"""Batches that are decoded as a whole say the same as records that are decoded one by one."""

import json

import pytest

from eventsched.domain.records import NodeDeleted, PodDeleted, TimePassed, encode
from eventsched.eventlog.log_errors import CorruptLogError
from eventsched.eventlog.postgres.stored_batch import StoredBatch, decoded_records, records_from

BODIES = [
    [encode(PodDeleted(uid="a")), encode(TimePassed())],
    [encode(NodeDeleted(name="n1"))],
    [encode(PodDeleted(uid="b")), encode(PodDeleted(uid="c")), encode(TimePassed())],
]


def batch(first: int, bodies: list[bytes]) -> StoredBatch:
    items = [[10 * (first + n), first, 1, json.loads(body)] for n, body in enumerate(bodies)]
    return StoredBatch(first, len(bodies), 1, 0, "null", b"", json.dumps(items))


BATCHES = [batch(20, BODIES[0]), batch(22, BODIES[1]), batch(23, BODIES[2])]


@pytest.mark.parametrize("first", range(20, 27))
@pytest.mark.parametrize("end", range(20, 28))
def test_a_range_is_decoded(first: int, end: int) -> None:
    expected = [
        (stored.at, stored.cause, stored.version, stored.record)
        for stored in records_from(BATCHES, first)
        if stored.position < end
    ]
    assert list(decoded_records(BATCHES, first, end)) == expected


@pytest.mark.parametrize(
    ("damaged", "position"), [(b'{"kind":"NeverHeardOf"}', 24), (b'{"kind":"PodDeleted"}', 24)]
)
def test_a_record_that_does_not_fit_is_named(damaged: bytes, position: int) -> None:
    bodies = [BODIES[2][0], damaged, BODIES[2][2]]
    with pytest.raises(CorruptLogError, match=f"{position}.*does not fit"):
        list(decoded_records([*BATCHES[:2], batch(23, bodies)], 20, 26))


def test_a_body_of_another_form_is_refused() -> None:
    other = StoredBatch(20, 1, 1, 0, "null", b"", '{"no": "list"}')
    with pytest.raises(CorruptLogError):
        list(decoded_records([other], 20, 21))


def test_a_batch_that_is_missing_is_named() -> None:
    with pytest.raises(CorruptLogError, match=r"22.*is not there: position 23 follows"):
        list(decoded_records([BATCHES[0], BATCHES[2]], 20, 26))
