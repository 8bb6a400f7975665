"""Objects of lists, watches and answers of an API server, as JSON."""

from contextlib import suppress
from typing import Any

import msgspec

from eventsched.cluster.kube.watch.decoded import Decoded
from eventsched.cluster.kube.watch.object_decoding import Decoder, WatchError
from eventsched.cluster.kube.watch.resources import NODE, OPTIONAL, POD, RESOURCES, Resource
from eventsched.cluster.messages import NodeSeen, ObjectSeen, PodSeen
from eventsched.cluster.translate import cluster_objects, manifest
from eventsched.domain import records
from eventsched.domain.errors import InputError
from eventsched.domain.objects.texts import json_without_nul
from eventsched.domain.records import NodeAdded, ObjectChanged, PodAdded
from tests.fuzz.choices import Choices
from tests.fuzz.documents import HOSTILE_JSON, as_json, documents, spoiled
from tests.fuzz.targets import is_choices

_RESOURCES = {resource.type: resource for resource in (*RESOURCES, *OPTIONAL)}
_ANYTHING = (_RESOURCES[POD], _RESOURCES[NODE], _RESOURCES["PersistentVolumeClaim"])
_GIVEN_UP = (InputError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


def fuzz_one(data: bytes) -> None:
    """The decoder never raises: an object is decoded, or has a problem. What it decodes is what
    the translation of the whole object gives, and can be stored and read again."""
    if not is_choices(data):
        for resource in _ANYTHING:
            _decode(resource, data)
        return
    choices = Choices(data[1:])
    name, document = choices.of(documents("api_objects"))
    body = as_json(spoiled(document, choices, HOSTILE_JSON))
    _decode(_RESOURCES[name.partition("-")[2]], body)


def _decode(resource: Resource, body: bytes) -> None:
    decoder = Decoder(resource, keeps=lambda seen: True)
    decoded = decoder.object(body)
    _check(resource, body, decoded)
    again = decoder.object(body)
    assert (again.seen, again.problem) == (decoded.seen, decoded.problem)
    answer = decoder.answer(body)
    assert (answer.seen, answer.problem) == (decoded.seen, decoded.problem)
    for kind in (b"ADDED", b"DELETED", b"BOOKMARK", b"ERROR"):
        _line(decoder, b'{"type":"%b","object":%b}' % (kind, body))
    _line(decoder, body)
    for page in (b'{"metadata":{"resourceVersion":"1"},"items":[%b]}' % body, body):
        _page(decoder, page)


def _page(decoder: Decoder, body: bytes) -> None:
    try:
        page = decoder.page(body)
    except ValueError:
        return
    decoder.objects(page)


def _line(decoder: Decoder, line: bytes) -> None:
    with suppress(WatchError):
        decoder.line(line)


def _check(resource: Resource, body: bytes, decoded: Decoded) -> None:
    assert 0 <= decoded.version < 2**63
    if decoded.problem:
        assert decoded.seen is None
        decoded.name.encode()
        assert len(decoded.problem.encode()) < 2_000 + 3 * len(body)
    elif decoded.seen is not None:
        record: Any
        match decoded.seen:
            case PodSeen(pod=seen):
                record = PodAdded(pod=seen)
            case NodeSeen(node=seen):
                record = NodeAdded(node=seen)
            case ObjectSeen(object=seen):
                record = ObjectChanged(object=seen)
        stored = records.encode(record)
        assert json_without_nul(stored) == stored
        assert records.decode(stored) == record
        # A field that nothing reads may hold what translation cannot read.
        assert _translated(resource, body) in (None, seen)


def _translated(resource: Resource, body: bytes) -> Any:
    """What the translation of the whole object gives; None if it refuses it."""
    try:
        obj = msgspec.json.decode(json_without_nul(body))
        if resource.type == POD:
            return manifest.pod(obj, "", defaults=False)
        if resource.type == NODE:
            return manifest.node(obj, "")
        return cluster_objects.read(resource.type, obj, "", defaults=False)
    except _GIVEN_UP:
        return None
