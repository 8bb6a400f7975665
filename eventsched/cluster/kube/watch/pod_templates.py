"""Decodes pods fast, by translating only one pod of each template.

The pods of one ReplicaSet or Job differ only in a few fields, such as name, times and node. The
JSON of all other fields is the key of a cache of translated pods, so such pods share one PodSpec.
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
"""The phases of a pod that no longer needs a node."""
_TEMPLATES = 4096
_LARGE = 2**16
"""Bytes of JSON from which a template counts as large. It may exceed a MiB, so only few are
cached."""
_FEW = 16
_MAPS = 8192
_MAP_BYTES = 4096
"""Labels or annotations with more JSON than this are not cached: an object may have 256 KiB."""
_UNUSUAL = ("PodResizePending", "DisruptionTarget")
"""Conditions that change how a pod counts."""
_NO_SOURCE = object_fields.Volume()
_encode = msgspec.json.Encoder().encode

Known = Callable[[str], Seen | None]


class UnusualError(Exception):
    """The pod has something that this decoder does not handle: it must be translated as a whole."""


class PodDecoder:
    """Decodes pods. For an update that changes nothing scheduling reads, the spec is not decoded:
    the pod's fingerprint shows that it is unchanged."""

    def __init__(self, known: Known, annotations: KeptAnnotations) -> None:
        self._known = known
        self.fingerprints = Fingerprints()
        self._decode_outline = msgspec.json.Decoder(object_fields.PodOutline).decode
        self._decode_spec = msgspec.json.Decoder(object_fields.PodSpecFields).decode
        self._specs: dict[bytes, PodSpec] = {}
        self._template = lru_cache(_TEMPLATES)(self._shared)
        self._large = lru_cache(_FEW)(long_lists.pod)
        self._labels = _cached(lambda raw: _pod_with_metadata("labels", raw).labels)
        self._annotations = _cached(
            lambda raw: annotations.select(_pod_with_metadata("annotations", raw).annotations)
        )
        self._none: dict[str, str] = {}

    def decode_watched(self, body: bytes) -> Decoded:
        """Decodes a pod of a list or a watch and stores its fingerprint. Raises UnusualError,
        InputError, and what msgspec raises for JSON that it cannot read."""
        decoded, digest = self._decode(body)
        if digest:
            self.fingerprints.keep(decoded.key, digest, decoded.version)
        else:
            self.fingerprints.forget(decoded.key)
        return decoded

    def decode_answer(self, body: bytes) -> Decoded:
        """Decodes the pod in an answer to a request. Raises as ``decode_watched``."""
        return self._decode(body)[0]

    def _decode(self, body: bytes) -> tuple[Decoded, bytes]:
        """A pod and its fingerprint; b"" for a finished pod."""
        outline = self._decode_outline(body)
        meta, spec, status = outline.metadata, outline.spec, outline.status
        if not isinstance(spec, msgspec.Raw) or status is None:
            raise UnusualError
        version = metadata.version_of(meta.resource_version)
        if not meta.name or not version:
            raise UnusualError
        uid = metadata.uid_of(meta.uid or "", meta.namespace or "default", meta.name)
        if status.phase in FINISHED:
            return Decoded(uid, version), b""
        for condition in status.conditions or ():
            if condition.type in _UNUSUAL:
                raise UnusualError
        digest = fingerprint(meta, spec, status)
        same_version = self.fingerprints.version(uid, digest)
        known = self._known(uid) if same_version else None
        if isinstance(known, PodSeen) and known.resource_version == same_version:
            pod = known.pod
        else:
            pod = self._pod(uid, meta, spec, status)
        return Decoded(uid, version, PodSeen(pod, version)), digest

    def _pod(
        self,
        uid: str,
        meta: object_fields.PodMetadata,
        raw_spec: msgspec.Raw,
        status: object_fields.PodStatusFields,
    ) -> Pod:
        spec = self._decode_spec(raw_spec)
        namespace = intern(meta.namespace or "default")
        nominated_node, started_at = status.nominated_node_name, status.start_time
        node_name = spec.node_name
        key = _key(meta, spec, status)
        template = self._template(key) if len(key) < _LARGE else self._large(key)
        labels, annotations = meta.labels, meta.annotations
        return Pod(
            uid=uid,
            name=meta.name,
            namespace=namespace,
            labels=self._none if labels is UNSET else self._labels(bytes(labels)),
            annotations=(
                self._none if annotations is UNSET else self._annotations(bytes(annotations))
            ),
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
    meta: object_fields.PodMetadata,
    spec: object_fields.PodSpecFields,
    status: object_fields.PodStatusFields,
) -> bytes:
    """The JSON of the fields that the pods of a template share. Removes the other fields from
    ``spec`` and ``status``."""
    if spec.node_name:
        spec.node_name = "-"  # how the status counts depends on whether the pod has a node
    if spec.volumes:
        spec.volumes = [volume for volume in spec.volumes if _affects_placement(volume)] or None
    status.phase = status.nominated_node_name = status.start_time = status.conditions = None
    shared = object_fields.PodMetadata(name="-", owner_references=meta.owner_references)
    return _encode(object_fields.PodFields(shared, spec, status))


def _affects_placement(volume: object_fields.Volume) -> bool:
    """Whether placement can depend on a volume. Clears its name if not. Raises UnusualError."""
    name, volume.name = volume.name, None
    if volume == _NO_SOURCE:
        return False
    if volume.ephemeral is not UNSET:
        raise UnusualError  # the name of its claim contains the pod's name
    volume.name = name
    return True


def _pod_with_metadata(field: str, raw: bytes) -> Pod:
    obj = {"metadata": {"name": "-", field: msgspec.json.decode(raw)}}
    return manifest.pod(obj, "", defaults=False)


def _cached(decode: Callable[[bytes], dict[str, str]]) -> Callable[[bytes], dict[str, str]]:
    """The same function with a cache for inputs of at most ``_MAP_BYTES``."""
    cached = lru_cache(_MAPS)(decode)
    return lambda raw: cached(raw) if len(raw) <= _MAP_BYTES else decode(raw)


@lru_cache(_MAPS)
def _instant(text: str | None) -> int:
    return metadata.instant(Field(text, ""))
