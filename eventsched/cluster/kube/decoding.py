"""JSON of lists and watches as the domain's objects: exactly what ``eventsched.cluster.translate``
makes of them, at a fraction of its price for pods.

Pods that were made of one template differ in little: names, times, node. What is left when these
are taken away is translated once and kept, with the bytes of its pruned JSON as the key; such pods
share one PodSpec. Whatever is unusual, or not of the expected type, goes through translate as a
whole, which alone decides what is refused.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from sys import intern
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET

from eventsched.cluster import translate, translate_metadata, translate_objects
from eventsched.cluster.fields import Field
from eventsched.cluster.kept_annotations import EVERYTHING, KeptAnnotations
from eventsched.cluster.kube import wire
from eventsched.cluster.kube.fingerprints import Fingerprints, fingerprint
from eventsched.cluster.kube.resources import NODE, POD, Resource
from eventsched.cluster.messages import NodeSeen, ObjectSeen, PodSeen, Seen
from eventsched.domain.errors import InputError
from eventsched.domain.objects import Image, Node, Pod, PodSpec
from eventsched.domain.texts import json_without_nul

FINISHED = ("Succeeded", "Failed")
"""The phases of a pod that needs no node any more."""
_TEMPLATES = 4096
_MAPS = 8192
_IMAGES = 16384
_UNUSUAL = ("PodResizePending", "DisruptionTarget")
"""Conditions that change how a pod counts."""
_NO_SOURCE = wire.Volume()
_HEAD = b'{"type":"'
_MIDDLE = b'","object":{'
_LONGEST_TYPE = 32
_encode = msgspec.json.Encoder().encode


Keeps = Callable[[Seen], bool]
Known = Callable[[str], Seen | None]


class Told(NamedTuple):
    """What a list or a watch says of one object. ``key`` is a pod's uid, a node's name,
    ``namespace/name`` or the name of others. Where ``seen`` is None the object is gone (deleted, or
    a pod that has finished) or, with a ``problem``, cannot be read; ``name`` is for people then."""

    key: str
    version: int
    seen: Seen | None = None
    problem: str = ""
    name: str = ""
    raw: bytes = b""
    """The object's own bytes, without managedFields, where somebody wants them."""


class Page(NamedTuple):
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
            pods = _Pods(known or (lambda key: None), self._annotations)
            self._read: Callable[[bytes], Told] = pods.read
            self._forget = pods.prints.forget
        elif resource.type == NODE:
            self._read = _Nodes().read
        else:
            self._read = _objects(resource)

    def object(self, body: bytes) -> Told:
        """One object. Nothing is raised: what cannot be read has a problem."""
        body = json_without_nul(body)
        try:
            told = self._read(body)
        except (msgspec.DecodeError, InputError, _UnusualError):
            told = _in_full(self.resource, body)
            self._forget(told.key)
        if told.seen is not None and (kept := self._annotations.within(told.seen)) is not told.seen:
            told = told._replace(seen=kept)
        if self._keeps is not None and told.seen is not None and self._keeps(told.seen):
            return told._replace(raw=slim(body))
        return told

    def page(self, body: bytes) -> Page:
        """A list or a page of one. Raises ValueError for anything else."""
        page = _page.decode(body)
        return Page(int(page.metadata.resource_version), page.metadata.next or "", page.items or ())

    def objects(self, page: Page) -> list[Told]:
        """All objects of a page."""
        return [self.object(bytes(each)) for each in page.items]

    def line(self, line: bytes) -> Told:
        """A line of a watch; of a bookmark only the version, with the key "". Raises WatchError."""
        kind, body = _split(line)
        if kind == "ERROR":
            raise _status(body)
        if kind == "BOOKMARK":
            return Told("", _version(_lenient(body)))
        told = self.object(body)
        if kind == "DELETED":
            self._forget(told.key)
            return Told(told.key, told.version)
        return told


class _UnusualError(Exception):
    """The short way does not do."""


class _Pods:
    """Pods the short way; and a still shorter one for a pod of which nothing has changed that
    scheduling reads: its spec is hashed, and not looked into."""

    def __init__(self, known: Known, annotations: KeptAnnotations) -> None:
        self._known = known
        self.prints = Fingerprints()
        self._decode = msgspec.json.Decoder(wire.Outline).decode
        self._decode_spec = msgspec.json.Decoder(wire.Spec).decode
        self._specs: dict[bytes, PodSpec] = {}
        self._template = lru_cache(_TEMPLATES)(self._translated)
        self._labels = lru_cache(_MAPS)(lambda raw: _of_metadata("labels", raw).labels)
        self._annotations = lru_cache(_MAPS)(
            lambda raw: annotations.of(_of_metadata("annotations", raw).annotations)
        )
        self._none: dict[str, str] = {}

    def read(self, body: bytes) -> Told:
        outline = self._decode(body)
        meta, spec, status = outline.metadata, outline.spec, outline.status
        if not isinstance(spec, msgspec.Raw) or status is None:
            raise _UnusualError
        if not meta.name or not meta.resource_version.isdigit():
            raise _UnusualError
        version = int(meta.resource_version)
        uid = translate_metadata.uid_of(meta.uid or "", meta.namespace or "default", meta.name)
        if status.phase in FINISHED:
            self.prints.forget(uid)
            return Told(uid, version)
        for condition in status.conditions or ():
            if condition.type in _UNUSUAL:
                raise _UnusualError
        found = fingerprint(meta, spec, status)
        same = self._known(uid) if self.prints.take(uid, found) else None
        pod = same.pod if isinstance(same, PodSeen) else self._pod(uid, meta, spec, status)
        self.prints.keep(uid, found)
        return Told(uid, version, PodSeen(pod, version))

    def _pod(self, uid: str, meta: wire.Metadata, raw: msgspec.Raw, status: wire.Status) -> Pod:
        spec = self._decode_spec(raw)
        namespace = intern(meta.namespace or "default")
        nominated_node, started_at = status.nominated_node_name, status.start_time
        node_name = spec.node_name
        template = self._template(_key(meta, spec, status))
        labels, notes = meta.labels, meta.annotations
        return Pod(
            uid=uid,
            name=meta.name,
            namespace=namespace,
            labels=self._none if labels is UNSET else self._labels(bytes(labels)),
            annotations=self._none if notes is UNSET else self._annotations(bytes(notes)),
            owner=template.owner,
            priority=template.priority,
            scheduler_name=template.scheduler_name,
            node_name=intern(node_name or ""),
            gates=template.gates,
            deleting=meta.deletion_timestamp is not None,
            created_at=_instant(meta.creation_timestamp),
            spec=template.spec,
            volumes=template.volumes,
            resource_claims=template.resource_claims,
            preemption_policy=template.preemption_policy,
            nominated_node=nominated_node or "",
            started_at=_instant(started_at),
        )

    def _translated(self, key: bytes) -> Pod:
        pod = translate.pod(msgspec.json.decode(key), "", defaults=False)
        if len(self._specs) > 2 * _TEMPLATES:
            self._specs.clear()
        spec = self._specs.setdefault(pod.spec.key, pod.spec)
        return msgspec.structs.replace(pod, spec=spec)


def _key(meta: wire.Metadata, spec: wire.Spec, status: wire.Status) -> bytes:
    """The JSON of what the pod shares with others of its template. Takes the rest out of ``spec``
    and ``status``."""
    if spec.node_name:
        spec.node_name = "-"  # whether there is one decides how its status counts
    if spec.volumes:
        spec.volumes = [volume for volume in spec.volumes if _counts(volume)] or None
    status.phase = status.nominated_node_name = status.start_time = status.conditions = None
    shared = wire.Metadata(name="-", owner_references=meta.owner_references)
    return _encode(wire.Pod(shared, spec, status))


def _counts(volume: wire.Volume) -> bool:
    """Whether placement can depend on a volume."""
    name, volume.name = volume.name, None
    if volume == _NO_SOURCE:
        return False
    if volume.ephemeral is not UNSET:
        raise _UnusualError  # its claim's name is made of the pod's
    volume.name = name
    return True


def _of_metadata(name: str, raw: bytes) -> Pod:
    obj = {"metadata": {"name": "-", name: msgspec.json.decode(raw)}}
    return translate.pod(obj, "", defaults=False)


@lru_cache(_MAPS)
def _instant(written: str | None) -> int:
    return translate_metadata.instant(Field(written, ""))


class _Nodes:
    """Nodes: pruned, and with their images shared."""

    def __init__(self) -> None:
        self._decode = msgspec.json.Decoder(wire.Node).decode
        self._image = lru_cache(_IMAGES)(_image)

    def read(self, body: bytes) -> Told:
        found = self._decode(body)
        images: list[msgspec.Raw] = found.get("status", {}).pop("images", [])
        node, version = _node(found)
        if images:
            node = msgspec.structs.replace(
                node, images=tuple(self._image(bytes(each)) for each in images)
            )
        return Told(node.name, version, NodeSeen(node, version))


def _node(obj: Any) -> tuple[Node, int]:
    return translate.node(obj, ""), _needed_version(obj)


def _image(raw: bytes) -> Image:
    obj = {"metadata": {"name": "-"}, "status": {"images": [msgspec.json.decode(raw)]}}
    return translate.node(obj, "").images[0]


def _objects(resource: Resource) -> Callable[[bytes], Told]:
    kind = resource.type
    pod_sets = ("ReplicaSet", "StatefulSet", "ReplicationController")
    decode: Callable[[bytes], Any] = msgspec.json.Decoder(
        wire.PodSet if kind in pod_sets else wire.Object
    ).decode

    def read(body: bytes) -> Told:
        found = decode(body)
        read = translate_objects.read(kind, found, "", defaults=False)
        version = _needed_version(found)
        key = f"{read.namespace}/{read.name}" if read.namespace else read.name
        return Told(key, version, ObjectSeen(read, version))

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


def _in_full(resource: Resource, body: bytes) -> Told:
    try:
        obj = msgspec.json.decode(body)
    except msgspec.DecodeError as error:
        return Told("", 0, problem=f"it is not JSON: {error}", name=resource.type)
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
            return Told(key, version)
        _needed_version(obj)
        seen: Seen
        if resource.type == POD:
            seen = PodSeen(translate.pod(obj, "", defaults=False), version)
        elif resource.type == NODE:
            seen = NodeSeen(translate.node(obj, ""), version)
        else:
            kind = resource.type
            seen = ObjectSeen(translate_objects.read(kind, obj, "", defaults=False), version)
    except InputError as error:
        reason = f"{error.where.removeprefix(': ')} {error.problem}".strip()
        return Told(key, version, problem=reason, name=title)
    return Told(key, version, seen)


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


_page = msgspec.json.Decoder(wire.Page)
_event = msgspec.json.Decoder(wire.RawEvent)
_any: msgspec.json.Decoder[Any] = msgspec.json.Decoder(wire.Object)
_anything: msgspec.json.Decoder[Any] = msgspec.json.Decoder()
