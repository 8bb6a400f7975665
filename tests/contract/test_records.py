"""The bytes of records: what is written once can be read forever.

records-golden.jsonl holds the canonical bytes of one example of each kind. They change only with
the kind's version (and then the old line stays readable through an upcaster): a test that fails
here says that stored logs would no longer be what they were.
"""

import typing

import msgspec
import pytest

from eventsched.domain import records
from eventsched.domain.objects import (
    AffinityTerm,
    Node,
    Pod,
    PodSpec,
    PodVolume,
    SpreadConstraint,
    registry,
)
from eventsched.domain.records import AnyRecord
from tests.contract.record_examples import EXAMPLES, GOLDEN, NEAR, NODE, OBJECTS, POD


def test_there_is_an_example_of_every_kind() -> None:
    """And a line for each of them, in the catalogue's order."""
    assert list(dict.fromkeys(map(type, EXAMPLES))) == list(typing.get_args(AnyRecord))
    assert [type(each) for each in OBJECTS] == list(registry.TYPES.values())
    assert len(GOLDEN) == len(EXAMPLES)


def test_the_examples_leave_out_no_field() -> None:
    """A field at its default would not show in the bytes. (Two objects are written in full
    once.)"""
    bare = (records.NodeUpdated, records.PodUpdated)
    for each in EXAMPLES:
        if not isinstance(each, bare):
            fields = {field.encode_name for field in msgspec.structs.fields(each)}
            assert set(msgspec.json.decode(records.encode(each))) == fields | {"kind"}
    assert set(msgspec.to_builtins(NODE)) == set(Node.__struct_fields__)
    assert set(msgspec.to_builtins(POD)) == set(Pod.__struct_fields__)
    assert set(msgspec.to_builtins(POD.spec)) == set(PodSpec.__struct_fields__)
    assert set(msgspec.to_builtins(NEAR)) == set(AffinityTerm.__struct_fields__)
    (spread,) = POD.spec.spread
    assert set(msgspec.to_builtins(spread)) == set(SpreadConstraint.__struct_fields__)
    volumes = [msgspec.to_builtins(each) for each in POD.volumes]
    assert {name for each in volumes for name in each} == set(PodVolume.__struct_fields__)
    cluster_wide = {registry.Namespace, registry.PersistentVolume, registry.StorageClass}
    cluster_wide |= {registry.CSINode, registry.CSIDriver, registry.VolumeAttachment}
    cluster_wide.add(registry.NodeResourceTopology)
    for thing in OBJECTS:
        without = {"namespace"} if type(thing) in cluster_wide else set()
        fields = set(type(thing).__struct_fields__) | {"type"}
        assert set(msgspec.to_builtins(thing)) == fields - without


@pytest.mark.parametrize("record", EXAMPLES, ids=lambda record: type(record).__name__)
def test_bytes_round_trip(record: AnyRecord) -> None:
    """decode(encode(x)) == x, of the same kind."""
    found = records.decode(records.encode(record))
    assert (type(found), found) == (type(record), record)


@pytest.mark.parametrize(
    ("record", "line"),
    list(zip(EXAMPLES, GOLDEN, strict=True)),
    ids=[type(each).__name__ for each in EXAMPLES],
)
def test_the_bytes_are_what_they_always_were(record: AnyRecord, line: bytes) -> None:
    """Canonical: declared order, sorted keys, no defaults, no white space."""
    assert records.encode(record) == line
    assert records.decode(line) == record


def test_equal_records_have_equal_bytes_whatever_the_order_of_their_maps() -> None:
    """Labels come in any order."""
    one = records.NodeAdded(node=Node(name="n", labels={"a": "1", "b": "2"}))
    other = records.NodeAdded(node=Node(name="n", labels={"b": "2", "a": "1"}))
    assert records.encode(one) == records.encode(other)


@pytest.mark.row(22)
@pytest.mark.parametrize(
    "body", [b'{"kind":"Nonsense"}', b'{"kind":"PodDeleted"}', b'{"kind":"PodDeleted","uid":5}']
)
def test_unknown_kinds_and_shapes_are_refused(body: bytes) -> None:
    """Not guessed at."""
    with pytest.raises(msgspec.ValidationError):
        records.decode(body)
