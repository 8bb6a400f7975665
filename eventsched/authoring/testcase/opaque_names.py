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
}  # fmt: skip
"""Fields whose text is a name, and what for. The name of an object itself is one of its kind."""


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
        self._learn_fields(manifest)

    def _learn_fields(self, value: Any) -> None:
        if isinstance(value, Mapping):
            for field, inner in value.items():
                if field in _LABELS and isinstance(inner, Mapping):
                    for key, text in inner.items():
                        self._learn(key, "key")
                        self._learn(text, "value")
                elif field in _NAMED and isinstance(inner, str):
                    self._learn(inner, _NAMED[field])
                elif field in ("values", "names", "namespaces") and isinstance(inner, list):
                    for text in inner:
                        self._learn(text, "value" if field == "values" else field[:-1])
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
            is_labels = field in _LABELS
            return {
                self.names.get(key, key) if is_labels else key: self._replaced(inner, key)
                for key, inner in value.items()
            }
        if isinstance(value, list):
            return [self._replaced(inner, field) for inner in value]
        if isinstance(value, str) and field not in ("kind", "apiVersion", "operator", "effect"):
            return self.names.get(value, value)
        return value
