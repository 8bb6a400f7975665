"""JSON of lists and watches as the domain's objects: exactly what
``eventsched.cluster.translate.manifest`` makes of them, at a fraction of its price for pods
(templates.py).

Whatever is unusual, or not of the expected type, goes through translate as a whole, which alone
decides what is refused.
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


Keeps = Callable[[Seen], bool]


class ListPage(NamedTuple):
    """A list, or a page of one: with ``next`` there are further ones. The ``items`` are not decoded
    yet."""

    version: int
    next: str
    items: Sequence[msgspec.Raw]


class WatchError(Exception):
    """The server ended a watch with a Status, whose HTTP ``code`` this is."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class Decoder:
    """Decodes what is said of one resource."""

    def __init__(
        self,
        resource: Resource,
        keeps: Keeps | None = None,
        known: Known | None = None,
        annotations: KeptAnnotations | None = None,
    ) -> None:
        """``keeps`` says of which objects the bytes are wanted; ``known`` what was made of the last
        that was read under a key, where that is still there; ``annotations`` which of these are
        kept of an object: all, for None."""
        self.resource = resource
        self._keeps = keeps
        self._annotations = annotations or EVERYTHING
        self._forget: Callable[[str], object] = lambda key: None
        if resource.type == POD:
            pods = pod_templates.Pods(known or (lambda key: None), self._annotations)
            self._read: Callable[[bytes], Decoded] = pods.read
            self._look: Callable[[bytes], Decoded] = pods.look
            self._forget = pods.prints.forget
        elif resource.type == NODE:
            self._look = self._read = _Nodes().read
        else:
            self._look = self._read = _objects(resource)

    def object(self, body: bytes) -> Decoded:
        """One object. Nothing is raised: what cannot be read has a problem."""
        body = json_without_nul(body)
        try:
            told = self._read(body)
        except (msgspec.DecodeError, InputError, UnusualError):
            told = _in_full(self.resource, body)
            self._forget(told.key)
        told = self._within(told)
        if self._keeps is not None and told.seen is not None and self._keeps(told.seen):
            return told._replace(raw=slim(body))
        return told

    def answer(self, body: bytes) -> Decoded:
        """One object of an answer to a request, without its bytes. The watch may be behind it or
        ahead of it, so nothing is remembered."""
        body = json_without_nul(body)
        try:
            told = self._look(body)
        except (msgspec.DecodeError, InputError, UnusualError):
            told = _in_full(self.resource, body)
        return self._within(told)

    def _within(self, told: Decoded) -> Decoded:
        """With the annotations that are kept."""
        seen = told.seen
        if seen is None or (kept := self._annotations.within(seen)) is seen:
            return told
        return told._replace(seen=kept)

    def page(self, body: bytes) -> ListPage:
        """A list or a page of one. Raises ValueError for anything else."""
        page = _page.decode(body)
        return ListPage(
            int(page.metadata.resource_version), page.metadata.next or "", page.items or ()
        )

    def objects(self, page: ListPage) -> list[Decoded]:
        """All objects of a page."""
        return [self.object(bytes(each)) for each in page.items]

    def line(self, line: bytes) -> Decoded:
        """A line of a watch; of a bookmark only the version, with the key "". Raises WatchError."""
        kind, body = _split(line)
        if kind == "ERROR":
            raise _status(body)
        if kind == "BOOKMARK":
            return Decoded("", _version(_lenient(body)))
        told = self.object(body)
        if kind == "DELETED":
            self._forget(told.key)
            return Decoded(told.key, told.version)
        return told


class _Nodes:
    """Nodes: pruned, and with their images shared."""

    def __init__(self) -> None:
        self._decode = msgspec.json.Decoder(object_fields.NodeFields).decode
        self._image = lru_cache(_IMAGES)(_image)

    def read(self, body: bytes) -> Decoded:
        found = self._decode(body)
        images: list[msgspec.Raw] = found.get("status", {}).pop("images", [])
        node, version = _node(found)
        if images:
            node = msgspec.structs.replace(
                node, images=tuple(self._image(bytes(each)) for each in images)
            )
        return Decoded(node.name, version, NodeSeen(node, version))


def _node(obj: Any) -> tuple[Node, int]:
    return manifest.node(obj, ""), _needed_version(obj)


def _image(raw: bytes) -> Image:
    obj = {"metadata": {"name": "-"}, "status": {"images": [msgspec.json.decode(raw)]}}
    return manifest.node(obj, "").images[0]


def _objects(resource: Resource) -> Callable[[bytes], Decoded]:
    kind = resource.type
    pod_sets = ("ReplicaSet", "StatefulSet", "ReplicationController")
    decode: Callable[[bytes], Any] = msgspec.json.Decoder(
        object_fields.PodSet if kind in pod_sets else object_fields.Object
    ).decode

    def read(body: bytes) -> Decoded:
        found = decode(body)
        read = cluster_objects.read(kind, found, "", defaults=False)
        version = _needed_version(found)
        key = f"{read.namespace}/{read.name}" if read.namespace else read.name
        return Decoded(key, version, ObjectSeen(read, version))

    return read


# --- the long way -------------------------------------------------------------------------


class _Slim(msgspec.Struct):
    metadata: dict[str, msgspec.Raw]
    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: msgspec.Raw = msgspec.Raw(b"{}")


_slim = msgspec.json.Decoder(_Slim)


def slim(body: bytes) -> bytes:
    """The bytes of a pod or node without managedFields, which nobody needs (upstream's informers
    drop them as well). Raises msgspec.DecodeError."""
    found = _slim.decode(body)
    found.metadata.pop("managedFields", None)
    return _encode(found)


def _in_full(resource: Resource, body: bytes) -> Decoded:
    try:
        obj = msgspec.json.decode(body)
    except msgspec.DecodeError as error:
        return Decoded("", 0, problem=f"it is not JSON: {error}", name=resource.type)
    meta = _lenient(body)
    namespace, name = str(meta.get("namespace") or ""), str(meta.get("name") or "")
    title = f"{namespace}/{name}" if namespace else name
    key = title
    if resource.type == POD:
        key = translate_metadata.uid_of(str(meta.get("uid") or ""), namespace or "default", name)
    version = _version(meta)
    try:
        if not isinstance(obj, dict):
            raise InputError("", "is no object", "")
        if resource.type == POD and _phase(obj) in FINISHED:
            return Decoded(key, version)
        _needed_version(obj)
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


def _needed_version(obj: Any) -> int:
    version = _version(obj.get("metadata") or {})
    if not version:
        raise InputError("metadata.resourceVersion", "is not a decimal number", "")
    return version


def _version(meta: Any) -> int:
    """The resourceVersion in metadata; 0 where it is none."""
    found = meta.get("resourceVersion") if isinstance(meta, dict) else None
    return int(found) if isinstance(found, str) and found.isdecimal() else 0


def _lenient(body: bytes) -> dict[str, Any]:
    """The metadata of an object of any shape."""
    try:
        return dict(_any.decode(body).get("metadata", {}))
    except msgspec.DecodeError:
        return {}


def _split(line: bytes) -> tuple[str, bytes]:
    """Type and object of a line of a watch. A server writes them in this order and says no more;
    whatever looks different is parsed."""
    middle = line.find(_MIDDLE, len(_HEAD), _LONGEST_TYPE)
    if middle > 0 and line.startswith(_HEAD) and line.endswith(b"}}"):
        return line[len(_HEAD) : middle].decode(), line[middle + len(_MIDDLE) - 1 : -1]
    try:
        event = _event.decode(line)
    except msgspec.DecodeError:
        return "", line
    return event.type, bytes(event.object)


def _status(body: bytes) -> WatchError:
    try:
        status = _anything.decode(body)
        return WatchError(int(status.get("code") or 500), str(status.get("message") or ""))
    except (msgspec.DecodeError, AttributeError, TypeError, ValueError):
        return WatchError(500, "no Status")


_page = msgspec.json.Decoder(object_fields.ListFields)
_event = msgspec.json.Decoder(object_fields.RawEvent)
_any: msgspec.json.Decoder[Any] = msgspec.json.Decoder(object_fields.Object)
_anything: msgspec.json.Decoder[Any] = msgspec.json.Decoder()
