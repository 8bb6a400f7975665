"""What is written is what is read: every record kind and every stored object, over hostile texts.

A log can be replayed only if a record that was read and is written again has the same bytes. So
no text that comes in may be changed by being stored: what cannot be stored is replaced at the door.
"""

import json
import typing
from types import NoneType, UnionType
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventsched.cluster.kube.watch.object_decoding import Decoder
from eventsched.cluster.kube.watch.resources import NODE, POD, RESOURCES
from eventsched.cluster.translate import manifest
from eventsched.domain import records
from eventsched.domain.objects import Node, Pod, PodSpec, canonical
from eventsched.domain.objects import quantities as quantity
from eventsched.domain.objects.registry import AnyObject
from eventsched.domain.records import AnyRecord

from .strategies import deterministic

FORMS = [
    "\0", "\\0", "\\u0000", "\\\\u0000", "\\", '"', "\ufffd", "\\ufffd", "\n", "\r", "\x7f",
    "\u2028", "é", "e\u0301", "\u212b", "\u00c5", "ß", "\ufeff", "\uffff", "🧨", "\U0010ffff",
    "a", "", "\ufb01", "한", "\u1112\u1161\u11ab",
]  # fmt: skip
texts = st.one_of(
    st.text(st.sampled_from("".join(FORMS)), max_size=20),
    st.lists(st.sampled_from(FORMS), max_size=6).map("".join),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=12),
)
integers = st.one_of(
    st.integers(-10, 10),
    st.sampled_from([2**31, 2**53, 2**53 + 1, 2**63 - 1, -(2**63), -(2**53) - 1]),
    st.integers(-(2**63), 2**63 - 1),
)
numbers = st.floats(allow_nan=False, allow_infinity=False)
anything = st.recursive(
    st.one_of(st.none(), st.booleans(), integers, numbers, texts),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(texts, inner, max_size=3)),
    max_leaves=8,
)
KINDS: tuple[type[Any], ...] = typing.get_args(AnyRecord)
OBJECTS: tuple[type[Any], ...] = (Node, Pod, PodSpec, *typing.get_args(AnyObject))


def values(annotation: Any) -> st.SearchStrategy[Any]:
    """Values of a stored field's type."""
    plain = {str: texts, int: integers, bool: st.booleans(), float: numbers, bytes: st.binary(),
             Any: anything, NoneType: st.none(), None: st.none()}  # fmt: skip
    if annotation in plain:
        return plain[annotation]
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return values(arguments[0])
    if origin in (typing.Union, UnionType):
        return st.one_of(*map(values, arguments))
    if origin is tuple and arguments[1:] == (...,):
        return st.lists(values(arguments[0]), max_size=3).map(tuple)
    if origin is tuple:
        return st.tuples(*map(values, arguments))
    if origin is list:
        return st.lists(values(arguments[0]), max_size=3)
    if origin is dict or getattr(origin, "__name__", "") == "Mapping":
        return st.dictionaries(values(arguments[0]), values(arguments[1]), max_size=3)
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        return st.deferred(lambda: structs(annotation))
    return st.sampled_from(annotation)  # an enumeration


def structs(kind: type[Any]) -> st.SearchStrategy[Any]:
    """Structs of a kind; each field is left at its default now and then."""
    hints = typing.get_type_hints(kind, include_extras=True)
    needed: dict[str, Any] = {}
    optional: dict[str, Any] = {}
    for each in msgspec.structs.fields(kind):
        (needed if each.required else optional)[each.name] = values(hints[each.name])
    return st.fixed_dictionaries(needed, optional=optional).map(lambda fields: kind(**fields))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_record_that_was_read_has_the_bytes_that_were_written(kind: type[Any]) -> None:
    @deterministic(60)
    @given(structs(kind))
    def check(record: Any) -> None:
        body = records.encode(record)
        again = records.decode(body)
        assert records.encode(again) == body
        assert b"\\u0000" not in body.replace(b"\\\\", b"")
        assert again == cleaned(record)

    check()


@pytest.mark.parametrize("kind", OBJECTS, ids=lambda kind: kind.__name__)
def test_so_has_an_object(kind: type[Any]) -> None:
    @deterministic(60)
    @given(structs(kind))
    def check(value: Any) -> None:
        body = canonical(value)
        again = msgspec.json.decode(body, type=kind)
        assert canonical(again) == body
        assert again == cleaned(value)

    check()


def cleaned(value: Any) -> Any:
    """With U+FFFD for U+0000 at any place."""
    if isinstance(value, str):
        return type(value)(value.replace("\0", "\ufffd"))
    if isinstance(value, msgspec.Struct):
        fields = ((each.name, getattr(value, each.name)) for each in msgspec.structs.fields(value))
        return msgspec.structs.replace(value, **{name: cleaned(each) for name, each in fields})
    if isinstance(value, dict):
        # In the order in which they are written: if two names become one, the last counts.
        return {cleaned(name): cleaned(value[name]) for name in sorted(value)}
    if isinstance(value, list | tuple):
        return type(value)(cleaned(each) for each in value)
    return value


# --- the way that objects of a cluster take ---------------------------------------------------

quantities = st.one_of(
    st.sampled_from(["0", "1", "100m", "8Ei", "10E", "1e30", "9223372036854775808", "1.5Gi", "1n"]),
    st.integers(0, 2**70).map(str),
)
maps = st.dictionaries(texts, texts, max_size=4)


def entries(*names: str) -> st.SearchStrategy[dict[str, str]]:
    return st.dictionaries(st.one_of(st.sampled_from(names), texts), quantities, max_size=4)


pods = st.fixed_dictionaries(
    {
        "metadata": st.fixed_dictionaries(
            {"name": texts.filter(bool), "resourceVersion": st.just("7")},
            optional={"labels": maps, "annotations": maps, "namespace": texts, "uid": texts},
        ),
        "spec": st.fixed_dictionaries(
            {
                "containers": st.lists(
                    st.fixed_dictionaries(
                        {"name": texts, "image": texts},
                        optional={
                            "resources": st.fixed_dictionaries(
                                {"requests": entries("cpu", "memory", "example.com/gpu")}
                            )
                        },
                    ),
                    max_size=3,
                )
            },
            optional={"nodeName": texts, "schedulerName": texts, "nodeSelector": maps},
        ),
        "status": st.fixed_dictionaries({}, optional={"nominatedNodeName": texts}),
    }
)
nodes = st.fixed_dictionaries(
    {
        "metadata": st.fixed_dictionaries(
            {"name": texts.filter(bool), "resourceVersion": st.just("7")},
            optional={"labels": maps, "annotations": maps},
        ),
        "status": st.fixed_dictionaries(
            {"allocatable": entries("cpu", "memory", "pods", "ephemeral-storage")},
            optional={
                "images": st.lists(
                    st.fixed_dictionaries(
                        {"names": st.lists(texts, max_size=2), "sizeBytes": st.just(2**63 - 1)}
                    ),
                    max_size=2,
                )
            },
        ),
    }
)
_resources = {each.type: each for each in RESOURCES}


def seen(kind: str, obj: Any) -> Any:
    """What the watch of a kind makes of an object."""
    told = Decoder(_resources[kind]).object(json.dumps(obj).encode())
    assert told.seen is not None, told.problem
    return getattr(told.seen, kind.lower())


@deterministic(150)
@given(pods)
def test_a_pod_of_a_cluster_is_what_its_record_holds(obj: dict[str, Any]) -> None:
    """What is decided on is what a replay reads: by a watch and from a manifest."""
    for pod in (seen(POD, obj), manifest.pod(obj, "", defaults=False)):
        record = records.PodAdded(pod=pod)
        assert records.decode(records.encode(record)) == record


@deterministic(150)
@given(nodes)
def test_a_node_of_a_cluster_is_what_its_record_holds(obj: dict[str, Any]) -> None:
    for node in (seen(NODE, obj), manifest.node(obj, "")):
        record = records.NodeAdded(node=node)
        assert records.decode(records.encode(record)) == record


@pytest.mark.parametrize("text", ["\0" * 3, "x" * 2**20, "\0é" * 2**19, "e\u0301" * 1000])
def test_texts_of_any_length_and_form(text: str) -> None:
    """Nothing is normalised or cut; U+0000 alone is replaced."""
    obj = {
        "metadata": {"name": "p", "resourceVersion": "1", "labels": {"k": text, text: "v"}},
        "spec": {"containers": []},
        "status": {},
    }
    pod = seen(POD, obj)
    kept = text.replace("\0", "\ufffd")
    assert pod.labels == {"k": kept, kept: "v"}
    assert records.decode(records.encode(records.PodAdded(pod=pod))).pod == pod


@deterministic(100)
@given(quantities, st.sampled_from([1, 1000]))
def test_an_amount_is_an_int64(text: str, scale: int) -> None:
    """And the number itself if it fits in an int64."""
    found, bounded = quantity.amount(text, scale), quantity.parse(text, scale)

    assert -(2**63) <= found < 2**63
    if abs(bounded) < 2**63 - 1:
        assert found == bounded
