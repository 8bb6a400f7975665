"""Other names for everything in a cluster that may show whose it is.

The same name becomes the same opaque one everywhere, so what selects what stays the same. Names of
Kubernetes itself (labels of kubernetes.io, operators) are kept, and those of schedulers, resources,
drivers and provisioners, because plugins and configurations name them.
"""

from collections.abc import Iterable, Mapping
from typing import Any

_KEPT_DOMAINS = ("kubernetes.io", "k8s.io")
_KEPT_VALUES = frozenset({"", "true", "false", "linux", "windows", "amd64", "arm64"})
_LABELS = ("labels", "matchLabels", "nodeSelector", "annotations")
_NAMED = {
    "nodeName": "node", "nominatedNodeName": "node", "namespace": "namespace", "image": "image",
    "claimName": "claim", "volumeName": "volume", "storageClassName": "class",
    "topologyKey": "key", "key": "key", "uid": "uid", "name": "name",
    "volumeHandle": "disk", "pdName": "disk", "volumeID": "disk", "iqn": "disk", "pool": "disk",
    "diskURI": "disk",
}  # fmt: skip
"""Fields whose text is a name, and what for. The name of an object itself is one of its kind."""
_LISTS = ("values", "names", "namespaces", "monitors")
_OWNERS = frozenset(
    {"ReplicaSet", "ReplicationController", "StatefulSet", "DaemonSet", "Job", "Node", "Pod"}
)
"""Kinds of owners that every cluster has; another one may show whose it is."""


class OpaqueNames:
    """Renames objects. ``names`` maps what was renamed to its opaque name."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}
        self._counts: dict[str, int] = {}

    def renamed(self, objects: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """The objects with opaque names."""
        found = list(objects)
        for manifest in found:
            kind = str(manifest["kind"]).lower()
            self._learn_object(kind, manifest)
        return [self._replaced(dict(manifest)) for manifest in found]

    def _learn_object(self, kind: str, manifest: Mapping[str, Any]) -> None:
        meta = manifest["metadata"]
        self._learn(meta.get("name"), kind)
        # What a node's topology names are resources, and words of the kubelet.
        self._learn_fields(meta if kind == "noderesourcetopology" else manifest)

    def _learn_fields(self, value: Any) -> None:
        if isinstance(value, Mapping):
            for field, inner in value.items():
                if _are_labels(field, inner):
                    for key, text in inner.items():
                        self._learn(key, "key")
                        self._learn(text, "value")
                elif field in _NAMED and isinstance(inner, str):
                    self._learn(inner, _NAMED[field])
                elif field == "value" and "key" in value:  # of a taint or toleration
                    self._learn(inner, "value")
                elif field == "ownerReferences":
                    for owner in inner:
                        if owner["kind"] not in _OWNERS:
                            self._learn(owner["kind"], "owner")
                    self._learn_fields(inner)
                elif field in _LISTS and isinstance(inner, list):
                    for text in inner:
                        self._learn(text, field[:-1])
                else:
                    self._learn_fields(inner)
        elif isinstance(value, list):
            for inner in value:
                self._learn_fields(inner)

    def _learn(self, name: Any, kind: str) -> None:
        if not isinstance(name, str) or name in self.names or name in _KEPT_VALUES:
            return
        domain = name.partition("/")[0]
        if name.lstrip("-").isdigit() or domain.endswith(_KEPT_DOMAINS):
            return
        if name.startswith("metadata."):
            return
        number = self._counts[kind] = self._counts.get(kind, 0) + 1
        self.names[name] = f"example.com/{kind}-{number}" if kind == "key" else f"{kind}-{number}"

    def _replaced(self, value: Any, field: str = "") -> Any:
        if isinstance(value, dict):
            is_labels = _are_labels(field, value)
            return {
                self.names.get(key, key) if is_labels else key: self._replaced(inner, key)
                for key, inner in value.items()
            }
        if field == "ownerReferences":
            return [self._owner(owner) for owner in value]
        if isinstance(value, list):
            return [self._replaced(inner, field) for inner in value]
        if isinstance(value, str) and field not in ("kind", "apiVersion", "operator", "effect"):
            return self.names.get(value, value)
        return value

    def _owner(self, owner: Mapping[str, Any]) -> dict[str, Any]:
        kind = owner["kind"]
        replaced = {field: self._replaced(value, field) for field, value in owner.items()}
        return replaced | {"kind": self.names.get(kind, kind)}


def _are_labels(field: str, value: Any) -> bool:
    """Whether a field's value maps keys to values, as the selector of a Service does, too."""
    if not isinstance(value, Mapping):
        return False
    texts = (isinstance(text, str) for text in value.values())
    return field in _LABELS or (field == "selector" and all(texts))
