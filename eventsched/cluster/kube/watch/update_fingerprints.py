"""Recognizes pod updates that change nothing scheduling reads, without decoding the spec."""

from hashlib import sha256

import msgspec

from eventsched.cluster.kube.watch import object_fields

MAX_FINGERPRINTS = 2**18
"""Largest number of fingerprints that are kept; beyond it all are dropped."""
_encode = msgspec.json.Encoder().encode


def fingerprint(
    meta: object_fields.PodMetadata, spec: msgspec.Raw, status: object_fields.PodStatusFields
) -> bytes:
    """A digest of a pod without its resourceVersion and conditions."""
    version, meta.resource_version = meta.resource_version, ""
    conditions, status.conditions = status.conditions, None
    digest = sha256(_encode([meta, status]))
    digest.update(spec)
    meta.resource_version, status.conditions = version, conditions
    return digest.digest()


class Fingerprints:
    """The last fingerprint of each pod with its resourceVersion, by uid."""

    def __init__(self) -> None:
        self._entries: dict[str, bytes] = {}
        """Digest, then the resourceVersion in 8 bytes."""

    def version(self, uid: str, digest: bytes) -> int:
        """The resourceVersion of the last fingerprint if it equals ``digest``; otherwise 0."""
        entry = self._entries.get(uid, b"")
        return int.from_bytes(entry[len(digest) :]) if entry.startswith(digest) else 0

    def keep(self, uid: str, digest: bytes, version: int) -> None:
        """Stores the fingerprint of a pod at a resourceVersion."""
        if len(self._entries) >= MAX_FINGERPRINTS:
            self._entries.clear()
        self._entries[uid] = digest + version.to_bytes(8)

    def forget(self, uid: str) -> None:
        """Drops a fingerprint: the next update of the pod is decoded in full."""
        self._entries.pop(uid, None)
