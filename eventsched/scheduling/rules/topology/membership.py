"""Which pods belong together: the selector that follows from a pod's services and its owner.

Upstream: plugins/helper/spread.go DefaultSelector. Services are looked up in an index for each
namespace, sets by the owner's name, so the cost does not depend on how many there are.
"""

from collections.abc import Iterable

from eventsched.domain.objects import Pod, Requirement, Selector
from eventsched.domain.objects.registry import (
    Registry,
    ReplicaSet,
    ReplicationController,
    Service,
    StatefulSet,
)
from eventsched.domain.objects.selectors import SelectorIndex, flaw
from eventsched.scheduling.rules.topology.spreading import canonical

_Set = type[ReplicationController] | type[ReplicaSet] | type[StatefulSet]
SETS: dict[str, _Set] = {
    "ReplicationController": ReplicationController,
    "ReplicaSet": ReplicaSet,
    "StatefulSet": StatefulSet,
}
"""Kind of an owner → its type."""
MAX_SELECTORS = 8192
"""The most selectors cached."""

_Requirements = tuple[Requirement, ...]
_Labels = tuple[tuple[str, str], ...]


def can_belong(pod: Pod) -> bool:
    """Whether a Service or a set can select the pod at all, whatever the registry holds: the pod
    has labels, or a set owns it."""
    return bool(pod.labels) or _set_of(pod) is not None


def _set_of(pod: Pod) -> _Set | None:
    """The type of the set that owns a pod."""
    if pod.owner is None or pod.owner.foreign:
        return None
    return SETS.get(pod.owner.kind)


class DefaultSelectors:
    """Cached selectors of one registry; always pass that registry."""

    def __init__(self) -> None:
        self._version: tuple[int, ...] = ()
        self._services: dict[str, list[Service]] = {}
        self._indexes: dict[str, SelectorIndex[_Requirements]] = {}
        self._of_services: dict[tuple[str, _Labels], _Labels] = {}
        self._selectors: dict[tuple[_Labels, bool, Selector], _Requirements] = {}

    def selector(self, registry: Registry, pod: Pod) -> _Requirements:
        """The canonical requirements of all Services and sets that the pod belongs to; empty if
        there are none."""
        labels = self._service_labels(registry, pod)
        kind, owner = _set_of(pod), None
        if kind is not None and pod.owner is not None:
            owner = registry.get(kind, pod.owner.name, pod.namespace)
        if owner is None and not labels:
            return ()
        replaces = isinstance(owner, ReplicationController)
        key = (labels, replaces, None if owner is None else owner.selector)
        requirements = self._selectors.get(key)
        if requirements is None:
            if len(self._selectors) >= MAX_SELECTORS:
                self._selectors.clear()
            requirements = self._selectors[key] = _merged(*key)
        return requirements

    def _service_labels(self, registry: Registry, pod: Pod) -> _Labels:
        """The labels that the selectors of the pod's services name, sorted."""
        if not pod.labels:
            return ()
        version = registry.version(Service)
        if version != self._version:
            self._version = version
            self._regroup(registry)
        if pod.namespace not in self._services:
            return ()
        key = (pod.namespace, tuple(sorted(pod.labels.items())))
        labels = self._of_services.get(key)
        if labels is None:
            if len(self._of_services) >= MAX_SELECTORS:
                self._of_services.clear()
            named = {
                (requirement.key, requirement.values[0])
                for requirements in self._index(pod.namespace).selecting(pod.labels)
                for requirement in requirements
            }
            labels = self._of_services[key] = tuple(sorted(named))
        return labels

    def _regroup(self, registry: Registry) -> None:
        self._services, self._indexes, self._of_services = {}, {}, {}
        for service in registry.all(Service).values():
            if service.selector:
                self._services.setdefault(service.namespace, []).append(service)

    def _index(self, namespace: str) -> SelectorIndex[_Requirements]:
        index = self._indexes.get(namespace)
        if index is None:
            index = self._indexes[namespace] = _indexed(self._services[namespace])
        return index


def _indexed(services: Iterable[Service]) -> SelectorIndex[_Requirements]:
    """The services' selectors, each with its rarest label first: the index files it there."""
    selectors = {tuple(sorted(service.selector.items())) for service in services}
    common: dict[tuple[str, str], int] = {}
    for selector in selectors:
        for label in selector:
            common[label] = common.get(label, 0) + 1
    index: SelectorIndex[_Requirements] = SelectorIndex(lambda requirements: requirements)
    for selector in sorted(selectors):
        rarest = sorted(selector, key=lambda label: (common[label], label))
        index.add(tuple(_has(*label) for label in rarest))
    return index


def _merged(labels: _Labels, replaces: bool, owned: Selector) -> _Requirements:
    """Labels of services, and the owner's selector: a replication controller's labels replace
    those of the same key, a set's requirements are added unless they are malformed."""
    if replaces:
        owner_labels = {
            requirement.key: requirement.values[0]
            for requirement in owned or ()
            if requirement.values
        }
        return canonical(_has(*label) for label in {**dict(labels), **owner_labels}.items())
    if flaw(owned):
        owned = None
    return canonical([*(_has(*label) for label in labels), *(owned or ())])


def _has(key: str, value: str) -> Requirement:
    return Requirement(key=key, operator="In", values=(value,))
