"""Pods out of JSON the short way: those that were made of one template are translated once.

They differ in little: names, times, node. What is left when these are taken away is kept with the
bytes of its pruned JSON as the key; such pods share one PodSpec.
"""

from collections.abc import Callable
from functools import lru_cache
from sys import intern

import msgspec
from msgspec import UNSET

from eventsched.cluster.kube.watch import long_lists, object_fields
from eventsched.cluster.kube.watch.decoded import Decoded
from eventsched.cluster.kube.watch.update_fingerprints import Fingerprints, fingerprint
from eventsched.cluster.messages import PodSeen, Seen
from eventsched.cluster.translate import manifest, metadata
from eventsched.cluster.translate.fields import Field
from eventsched.cluster.translate.kept_annotations import KeptAnnotations
from eventsched.domain.objects import Pod, PodSpec

FINISHED = ("Succeeded", "Failed")
"""The phases of a pod that needs no node any more."""
_TEMPLATES = 4096
_LARGE = 2**16
"""Bytes of a template's JSON from which on only a few are kept: they may be above a MiB."""
_FEW = 16
_MAPS = 8192
_MAP_BYTES = 4096
"""Labels or annotations with more JSON than this are read each time: an object may have 256 KiB."""
_UNUSUAL = ("PodResizePending", "DisruptionTarget")
"""Conditions that change how a pod counts."""
_NO_SOURCE = object_fields.Volume()
_encode = msgspec.json.Encoder().encode

Known = Callable[[str], Seen | None]


class UnusualError(Exception):
    """The short way does not do."""


class Pods:
    """Pods the short way; and a still shorter one for a pod of which nothing has changed that
    scheduling reads: its spec is hashed, and not looked into."""

    def __init__(self, known: Known, annotations: KeptAnnotations) -> None:
        self._known = known
        self.prints = Fingerprints()
        self._decode = msgspec.json.Decoder(object_fields.PodOutline).decode
        self._decode_spec = msgspec.json.Decoder(object_fields.PodSpecFields).decode
        self._specs: dict[bytes, PodSpec] = {}
        self._template = lru_cache(_TEMPLATES)(self._shared)
        self._large = lru_cache(_FEW)(long_lists.pod)
        self._labels = _remembering(lambda raw: _of_metadata("labels", raw).labels)
        self._annotations = _remembering(
            lambda raw: annotations.of(_of_metadata("annotations", raw).annotations)
        )
        self._none: dict[str, str] = {}

    def read(self, body: bytes) -> Decoded:
        """A pod of a list or a watch, which is remembered."""
        told, found = self._told(body)
        if found:
            self.prints.keep(told.key, found, told.version)
        else:
            self.prints.forget(told.key)
        return told

    def look(self, body: bytes) -> Decoded:
        """A pod of an answer."""
        return self._told(body)[0]

    def _told(self, body: bytes) -> tuple[Decoded, bytes]:
        """What is said of a pod, and its fingerprint; b"" for one that has finished."""
        outline = self._decode(body)
        meta, spec, status = outline.metadata, outline.spec, outline.status
        if not isinstance(spec, msgspec.Raw) or status is None:
            raise UnusualError
        if not meta.name or not meta.resource_version.isdigit():
            raise UnusualError
        version = int(meta.resource_version)
        uid = metadata.uid_of(meta.uid or "", meta.namespace or "default", meta.name)
        if status.phase in FINISHED:
            return Decoded(uid, version), b""
        for condition in status.conditions or ():
            if condition.type in _UNUSUAL:
                raise UnusualError
        found = fingerprint(meta, spec, status)
        read = self.prints.version(uid, found)
        same = self._known(uid) if read else None
        if isinstance(same, PodSeen) and same.resource_version == read:
            pod = same.pod
        else:
            pod = self._pod(uid, meta, spec, status)
        return Decoded(uid, version, PodSeen(pod, version)), found

    def _pod(
        self,
        uid: str,
        meta: object_fields.Metadata,
        raw: msgspec.Raw,
        status: object_fields.PodStatusFields,
    ) -> Pod:
        spec = self._decode_spec(raw)
        namespace = intern(meta.namespace or "default")
        nominated_node, started_at = status.nominated_node_name, status.start_time
        node_name = spec.node_name
        key = _key(meta, spec, status)
        template = self._template(key) if len(key) < _LARGE else self._large(key)
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

    def _shared(self, key: bytes) -> Pod:
        pod = long_lists.pod(key)
        if len(self._specs) > 2 * _TEMPLATES:
            self._specs.clear()
        spec = self._specs.setdefault(pod.spec.key, pod.spec)
        return msgspec.structs.replace(pod, spec=spec)


def _key(
    meta: object_fields.Metadata,
    spec: object_fields.PodSpecFields,
    status: object_fields.PodStatusFields,
) -> bytes:
    """The JSON of what the pod shares with others of its template. Takes the rest out of ``spec``
    and ``status``."""
    if spec.node_name:
        spec.node_name = "-"  # whether there is one decides how its status counts
    if spec.volumes:
        spec.volumes = [volume for volume in spec.volumes if _counts(volume)] or None
    status.phase = status.nominated_node_name = status.start_time = status.conditions = None
    shared = object_fields.Metadata(name="-", owner_references=meta.owner_references)
    return _encode(object_fields.PodFields(shared, spec, status))


def _counts(volume: object_fields.Volume) -> bool:
    """Whether placement can depend on a volume."""
    name, volume.name = volume.name, None
    if volume == _NO_SOURCE:
        return False
    if volume.ephemeral is not UNSET:
        raise UnusualError  # its claim's name is made of the pod's
    volume.name = name
    return True


def _of_metadata(name: str, raw: bytes) -> Pod:
    obj = {"metadata": {"name": "-", name: msgspec.json.decode(raw)}}
    return manifest.pod(obj, "", defaults=False)


def _remembering(read: Callable[[bytes], dict[str, str]]) -> Callable[[bytes], dict[str, str]]:
    """The same function, with a cache that is bounded in bytes."""
    cached = lru_cache(_MAPS)(read)
    return lambda raw: cached(raw) if len(raw) <= _MAP_BYTES else read(raw)


@lru_cache(_MAPS)
def _instant(written: str | None) -> int:
    return metadata.instant(Field(written, ""))
