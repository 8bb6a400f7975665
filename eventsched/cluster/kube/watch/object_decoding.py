"""Decodes the JSON of lists and watches into the domain's objects.

The result is always that of ``eventsched.cluster.translate.manifest``, but pods are decoded at a
fraction of its cost (``pod_templates``). An object with anything unusual or of an unexpected type
is translated as a whole, so translate alone decides what is invalid.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from eventsched.cluster.kube.watch import object_fields, pod_templates
from eventsched.cluster.kube.watch.decoded import Decoded
from eventsched.cluster.kube.watch.pod_templates import FINISHED, Known, UnusualError
from eventsched.cluster.kube.watch.resources import NODE, POD, Resource
from eventsched.cluster.messages import NodeSeen, ObjectSeen, PodSeen, Seen
from eventsched.cluster.translate import cluster_objects, manifest
from eventsched.cluster.translate import metadata as translate_metadata
from eventsched.cluster.translate.kept_annotations import EVERYTHING, KeptAnnotations
from eventsched.domain.errors import InputError
from eventsched.domain.objects import Image, Node
from eventsched.domain.objects.texts import json_without_nul

_IMAGES = 16384
_HEAD = b'{"type":"'
_MIDDLE = b'","object":{'
_LONGEST_TYPE = 32
_encode = msgspec.json.Encoder().encode
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What msgspec raises: for JSON of another shape, for bytes that are not UTF-8, for JSON that is
nested too deeply."""

Keeps = Callable[[Seen], bool]
"""Whether the bytes of an object are kept."""


class ListPage(NamedTuple):
    """A page of a list. ``next`` is the token of the next page, "" on the last one. The ``items``
    are not decoded yet."""

    version: int
    next: str
    items: Sequence[msgspec.Raw]


class WatchError(Exception):
    """The server ended a watch with a Status. ``code`` is its HTTP code."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class Decoder:
    """Decodes the objects of one resource."""

    def __init__(
        self,
        resource: Resource,
        keeps: Keeps | None = None,
        known: Known | None = None,
        annotations: KeptAnnotations | None = None,
    ) -> None:
        """``keeps`` selects the objects whose bytes are kept. ``known`` returns the object with a
        key as last seen, if it exists. ``annotations`` selects the annotations that are kept; None
        keeps all."""
        self.resource = resource
        self._keeps = keeps
        self._annotations = annotations or EVERYTHING
        self._forget: Callable[[str], object] = lambda key: None
        if resource.type == POD:
            pods = pod_templates.PodDecoder(known or (lambda key: None), self._annotations)
            self._decode_watched: Callable[[bytes], Decoded] = pods.decode_watched
            self._decode_answer: Callable[[bytes], Decoded] = pods.decode_answer
            self._forget = pods.fingerprints.forget
        elif resource.type == NODE:
            self._decode_answer = self._decode_watched = _NodeDecoder().decode
        else:
            self._decode_answer = self._decode_watched = _object_decoder(resource)

    def object(self, body: bytes) -> Decoded:
        """One object of a list or a watch. Never raises: an object that cannot be decoded has a
        ``problem``."""
        body = json_without_nul(body)
        try:
            _require_text(body)
            decoded = self._decode_watched(body)
        except (*UNREADABLE, InputError, UnusualError):
            decoded = _translated(self.resource, body)
            self._forget(decoded.key)
        decoded = self._without_dropped_annotations(decoded)
        if self._keeps is not None and decoded.seen is not None and self._keeps(decoded.seen):
            return decoded._replace(raw=slim(body))
        return decoded

    def answer(self, body: bytes) -> Decoded:
        """The object in an answer to a request, without its bytes. Its fingerprint is not kept,
        because the watch may be behind the answer or ahead of it."""
        body = json_without_nul(body)
        try:
            _require_text(body)
            decoded = self._decode_answer(body)
        except (*UNREADABLE, InputError, UnusualError):
            decoded = _translated(self.resource, body)
        return self._without_dropped_annotations(decoded)

    def _without_dropped_annotations(self, decoded: Decoded) -> Decoded:
        seen = decoded.seen
        if seen is None or (reduced := self._annotations.stripped_message(seen)) is seen:
            return decoded
        return decoded._replace(seen=reduced)

    def page(self, body: bytes) -> ListPage:
        """A page of a list. Raises ValueError for anything else."""
        try:
            page = _page.decode(body)
        except RecursionError as error:
            raise ValueError("nested too deeply") from error
        return ListPage(
            int(page.metadata.resource_version), page.metadata.next or "", page.items or ()
        )

    def objects(self, page: ListPage) -> list[Decoded]:
        """All objects of a page."""
        return [self.object(bytes(item)) for item in page.items]

    def line(self, line: bytes) -> Decoded:
        """A line of a watch. A bookmark has only a version, and the key "". Raises WatchError."""
        kind, body = _split(line)
        if kind == "ERROR":
            raise _status(body)
        if kind == "BOOKMARK":
            return Decoded("", _version(_metadata(body)))
        decoded = self.object(body)
        if kind == "DELETED":
            self._forget(decoded.key)
            return Decoded(decoded.key, decoded.version)
        return decoded


class _NodeDecoder:
    """Decodes nodes: only the fields that scheduling reads. Equal images are decoded once."""

    def __init__(self) -> None:
        self._decode_fields = msgspec.json.Decoder(object_fields.NodeFields).decode
        self._image = lru_cache(_IMAGES)(_image)

    def decode(self, body: bytes) -> Decoded:
        fields = self._decode_fields(body)
        images: list[msgspec.Raw] = fields.get("status", {}).pop("images", [])
        node, version = _node(fields)
        if images:
            node = msgspec.structs.replace(
                node, images=tuple(self._image(bytes(image)) for image in images)
            )
        return Decoded(node.name, version, NodeSeen(node, version))


def _node(obj: Any) -> tuple[Node, int]:
    return manifest.node(obj, ""), _required_version(obj)


def _image(raw: bytes) -> Image:
    obj = {"metadata": {"name": "-"}, "status": {"images": [msgspec.json.decode(raw)]}}
    return manifest.node(obj, "").images[0]


def _object_decoder(resource: Resource) -> Callable[[bytes], Decoded]:
    """Decodes objects other than pods and nodes."""
    kind = resource.type
    pod_sets = ("ReplicaSet", "StatefulSet", "ReplicationController")
    decode_fields: Callable[[bytes], Any] = msgspec.json.Decoder(
        object_fields.PodSet if kind in pod_sets else object_fields.Object
    ).decode

    def decode(body: bytes) -> Decoded:
        fields = decode_fields(body)
        obj = cluster_objects.read(kind, fields, "", defaults=False)
        version = _required_version(fields)
        key = f"{obj.namespace}/{obj.name}" if obj.namespace else obj.name
        return Decoded(key, version, ObjectSeen(obj, version))

    return decode


# --- translation of whole objects ---------------------------------------------------------


class _Slim(msgspec.Struct):
    metadata: dict[str, msgspec.Raw]
    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: msgspec.Raw = msgspec.Raw(b"{}")


_slim = msgspec.json.Decoder(_Slim)


def slim(body: bytes) -> bytes:
    """The JSON of a pod or node without managedFields, which nothing reads (upstream's informers
    drop them too). Raises msgspec.DecodeError."""
    obj = _slim.decode(body)
    obj.metadata.pop("managedFields", None)
    return _encode(obj)


def _require_text(body: bytes) -> None:
    """Raises UnicodeDecodeError. The decoders skip fields that they do not know, also their names,
    without this check."""
    if not body.isascii():
        body.decode()


def _translated(resource: Resource, body: bytes) -> Decoded:
    """Decodes an object of any shape by translating all of its JSON."""
    try:
        obj = msgspec.json.decode(body)
    except UNREADABLE as error:
        return Decoded("", 0, problem=f"it is not JSON: {error}", name=resource.type)
    meta = _metadata(body)
    namespace, name = str(meta.get("namespace") or ""), str(meta.get("name") or "")
    title = f"{namespace}/{name}" if namespace else name
    key = title
    if resource.type == POD:
        key = translate_metadata.uid_of(str(meta.get("uid") or ""), namespace or "default", name)
    version = _version(meta)
    try:
        if not isinstance(obj, dict):
            raise InputError("", "is not an object", "")
        if resource.type == POD and _phase(obj) in FINISHED:
            return Decoded(key, version)
        _required_version(obj)
        seen: Seen
        if resource.type == POD:
            seen = PodSeen(manifest.pod(obj, "", defaults=False), version)
        elif resource.type == NODE:
            seen = NodeSeen(manifest.node(obj, ""), version)
        else:
            kind = resource.type
            seen = ObjectSeen(cluster_objects.read(kind, obj, "", defaults=False), version)
    except InputError as error:
        reason = f"{error.where.removeprefix(': ')} {error.problem}".strip()
        return Decoded(key, version, problem=reason, name=title)
    return Decoded(key, version, seen)


def _phase(obj: dict[str, Any]) -> Any:
    status = obj.get("status")
    return status.get("phase") if isinstance(status, dict) else None


def _required_version(obj: Any) -> int:
    version = _version(obj.get("metadata") or {})
    if not version:
        raise InputError("metadata.resourceVersion", "is not a decimal number", "")
    return version


def _version(meta: Any) -> int:
    """The resourceVersion in metadata; 0 if it is missing or not a decimal number."""
    return translate_metadata.version_of(
        meta.get("resourceVersion") if isinstance(meta, dict) else None
    )


def _metadata(body: bytes) -> dict[str, Any]:
    """The metadata of an object of any shape; {} if it has none."""
    try:
        return dict(_any.decode(body).get("metadata", {}))
    except UNREADABLE:
        return {}


def _split(line: bytes) -> tuple[str, bytes]:
    """The type and object of a line of a watch. API servers write exactly these two fields in this
    order, so the line is only sliced; a line of another form is parsed."""
    middle = line.find(_MIDDLE, len(_HEAD), _LONGEST_TYPE)
    if middle > 0 and line.startswith(_HEAD) and line.endswith(b"}}"):
        kind = line[len(_HEAD) : middle].decode(errors="replace")
        return kind, line[middle + len(_MIDDLE) - 1 : -1]
    try:
        event = _event.decode(line)
    except UNREADABLE:
        return "", line
    return event.type, bytes(event.object)


def _status(body: bytes) -> WatchError:
    try:
        status = _anything.decode(body)
        return WatchError(int(status.get("code") or 500), str(status.get("message") or ""))
    except (*UNREADABLE, AttributeError, TypeError, ValueError, OverflowError):
        return WatchError(500, "no Status")


_page = msgspec.json.Decoder(object_fields.ListFields)
_event = msgspec.json.Decoder(object_fields.RawEvent)
_any: msgspec.json.Decoder[Any] = msgspec.json.Decoder(object_fields.Object)
_anything: msgspec.json.Decoder[Any] = msgspec.json.Decoder()
