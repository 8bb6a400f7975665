"""Whether anything has changed of a pod that scheduling reads, found without reading its spec."""

from hashlib import sha256

import msgspec

from eventsched.cluster.kube.watch import object_fields

MOST = 2**18
"""Pods of which it is remembered."""
_encode = msgspec.json.Encoder().encode


def fingerprint(
    meta: object_fields.Metadata, spec: msgspec.Raw, status: object_fields.PodStatusFields
) -> bytes:
    """A digest of all that a pod is made of, its version and conditions apart."""
    version, meta.resource_version = meta.resource_version, ""
    conditions, status.conditions = status.conditions, None
    digest = sha256(_encode([meta, status]))
    digest.update(spec)
    meta.resource_version, status.conditions = version, conditions
    return digest.digest()


class Fingerprints:
    """The fingerprint of each pod as it was read last, with its version, by uid."""

    def __init__(self) -> None:
        self._kept: dict[str, bytes] = {}

    def version(self, uid: str, found: bytes) -> int:
        """The resourceVersion at which the pod was last read, if it was the same then; else 0."""
        kept = self._kept.get(uid, b"")
        return int.from_bytes(kept[len(found) :]) if kept.startswith(found) else 0

    def keep(self, uid: str, found: bytes, version: int) -> None:
        """The pod was read at a resourceVersion, or is as it was."""
        if len(self._kept) >= MOST:
            self._kept.clear()
        self._kept[uid] = found + version.to_bytes(8)

    def forget(self, uid: str) -> None:
        """The next one of the uid is read whole."""
        self._kept.pop(uid, None)
