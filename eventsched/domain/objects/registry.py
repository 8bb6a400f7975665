"""Objects other than nodes and pods that decisions depend on, as scheduling reads them.

Part of SchedulerState, changed only by its ``apply``; plugins read it (``cycle.registry``). What a
plugin derives from a type of object it keeps for as long as that type's ``version`` stays the same.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from eventsched.domain.objects.core import (
    Frozen,
    NodeSelectorTerm,
    Requirement,
    Resources,
    Selector,
)


def title(kind: str, namespace: str, name: str) -> str:
    """``PersistentVolumeClaim shop/data``, or without a namespace ``StorageClass fast``."""
    return f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}"


class ClusterObject(Frozen, frozen=True, tag_field="type", tag=True):
    """Base: an object has a name, and a namespace where its type has any."""

    name: str
    namespace: str = ""

    @property
    def title(self) -> str:
        """What people call it."""
        return title(type(self).__name__, self.namespace, self.name)


class Namespace(ClusterObject, frozen=True):
    """A namespace and its labels."""

    labels: dict[str, str] = {}


class Service(ClusterObject, frozen=True):
    """A service; without a selector it has no pods."""

    selector: dict[str, str] = {}


class ReplicaSet(ClusterObject, frozen=True):
    """A replica set and which pods are its own."""

    uid: str = ""
    selector: Selector = None


class StatefulSet(ClusterObject, frozen=True):
    """A stateful set and which pods are its own."""

    uid: str = ""
    selector: Selector = None


class ReplicationController(ClusterObject, frozen=True):
    """A replication controller and which pods are its own."""

    uid: str = ""
    selector: Selector = None


class PersistentVolumeClaim(ClusterObject, frozen=True):
    """A claim. ``storage_class`` None is none given; ``requested`` is in bytes; ``bound`` says that
    the volume controller has completed the binding to ``volume``; ``selected_node`` is the node
    that provisioning was asked for; ``owner_uid`` the controller (for a pod its ``Pod.uid``:
    ephemeral volumes); ``attributes_class`` is spec.volumeAttributesClassName."""

    uid: str = ""
    storage_class: str | None = None
    volume: str = ""
    access_modes: tuple[str, ...] = ()
    volume_mode: str = "Filesystem"
    requested: int = 0
    selector: Selector = ()
    phase: str = ""
    bound: bool = False
    deleting: bool = False
    selected_node: str = ""
    owner_uid: str = ""
    annotations: dict[str, str] = {}
    attributes_class: str = ""


class PersistentVolume(ClusterObject, frozen=True):
    """A volume. ``claim`` is (namespace, name, uid) of the claim it belongs to; ``capacity`` is in
    bytes; ``node_terms`` None means that every node can reach it; ``driver`` and ``handle`` are
    those of a CSI volume, ``source`` the type of any other and ``identity`` what tells it apart
    (both as in objects.PodVolume). ``attributes_class`` is spec.volumeAttributesClassName."""

    uid: str = ""
    storage_class: str = ""
    capacity: int = 0
    access_modes: tuple[str, ...] = ()
    volume_mode: str = "Filesystem"
    phase: str = ""
    claim: tuple[str, str, str] | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    node_terms: tuple[NodeSelectorTerm, ...] | None = None
    driver: str = ""
    handle: str = ""
    source: str = ""
    identity: tuple[str, ...] = ()
    deleting: bool = False
    attributes_class: str = ""


class StorageClass(ClusterObject, frozen=True):
    """How volumes are made. ``binding_mode`` is empty where the object says nothing (an API server
    completes that); ``topologies`` are alternatives, each a set of In requirements."""

    provisioner: str = ""
    binding_mode: str = "Immediate"
    topologies: tuple[tuple[Requirement, ...], ...] = ()
    default: bool = False
    created_at: int = 0


class NodeDriver(Frozen, frozen=True):
    """A CSI driver on a node; ``limit`` is how many of its volumes fit there, None any number."""

    name: str
    node_id: str = ""
    topology_keys: tuple[str, ...] = ()
    limit: int | None = None


class CSINode(ClusterObject, frozen=True):
    """The CSI drivers of the node of that name; ``migrated`` are the in-tree plugins that they
    stand in for."""

    drivers: tuple[NodeDriver, ...] = ()
    migrated: tuple[str, ...] = ()


class CSIDriver(ClusterObject, frozen=True):
    """A CSI driver; ``capacity`` says that it publishes CSIStorageCapacity objects."""

    capacity: bool = False


class CSIStorageCapacity(ClusterObject, frozen=True):
    """Room (bytes) that a driver has for a storage class on the nodes that the selector selects."""

    storage_class: str = ""
    capacity: int | None = None
    largest: int | None = None
    topology: Selector = None


class VolumeAttachment(ClusterObject, frozen=True):
    """A volume that is attached to a node, or is to be."""

    attacher: str = ""
    node: str = ""
    volume: str = ""


class PodDisruptionBudget(ClusterObject, frozen=True):
    """How many of the selected pods may be disrupted now; ``disrupted`` are the names of those that
    have been counted already."""

    selector: Selector = None
    allowed: int = 0
    disrupted: tuple[str, ...] = ()


class ElasticQuota(ClusterObject, frozen=True):
    """What a namespace is guaranteed (``min``) and may use at most (``max``), in millicores, bytes
    and counts (scheduling.x-k8s.io/v1alpha1). None is none given; of a resource that a limit does
    not name it allows none, unless that is an extended one under ``max``."""

    min: Resources | None = None
    max: Resources | None = None


class NumaZone(Frozen, frozen=True):
    """A NUMA zone of a node. ``available`` are the resources that it reports, and how much of each
    is free (millicores, bytes, counts); ``costs`` are (number of a zone, distance to it)."""

    number: int
    available: Resources = {}
    costs: tuple[tuple[int, int], ...] = ()


class NodeResourceTopology(ClusterObject, frozen=True):
    """The NUMA zones of the node of that name (topology.node.k8s.io/v1alpha2), by their numbers.
    ``policy`` and ``scope`` are those of the kubelet's topology manager, ``most_zones`` how many
    zones it combines at most. ``fingerprint`` is that of the pods on the node when it was written,
    "" for none; with ``only_exclusive`` it covers pods with exclusive resources alone."""

    policy: str = "none"
    scope: str = "container"
    most_zones: int = 8
    zones: tuple[NumaZone, ...] = ()
    fingerprint: str = ""
    only_exclusive: bool = False


AnyObject = (
    Namespace
    | Service
    | ReplicaSet
    | StatefulSet
    | ReplicationController
    | PersistentVolumeClaim
    | PersistentVolume
    | StorageClass
    | CSINode
    | CSIDriver
    | CSIStorageCapacity
    | VolumeAttachment
    | PodDisruptionBudget
    | ElasticQuota
    | NodeResourceTopology
)
TYPES: dict[str, type[ClusterObject]] = {kind.__name__: kind for kind in AnyObject.__args__}
"""Type name → type."""

Kind = TypeVar("Kind", bound=ClusterObject)
Key = tuple[str, str]
_LONGEST_LOG = 4096


class Registry:
    """All objects, by type and (namespace, name), in the order in which they came."""

    def __init__(self) -> None:
        self._objects: dict[type[ClusterObject], dict[Key, Any]] = {k: {} for k in TYPES.values()}
        self._versions: dict[type[ClusterObject], int] = dict.fromkeys(TYPES.values(), 0)
        self._log: list[tuple[type[ClusterObject], Key]] = []
        self._base = 0

    # --- changes, called by SchedulerState.apply only -------------------------------------

    def put(self, kept: ClusterObject) -> None:
        """Takes in an object, in place of what was known of it."""
        self._objects[type(kept)][kept.namespace, kept.name] = kept
        self._note(type(kept), (kept.namespace, kept.name))

    def remove(self, kind: type[ClusterObject], namespace: str, name: str) -> None:
        """Forgets an object. Raises KeyError where it is not known."""
        del self._objects[kind][namespace, name]
        self._note(kind, (namespace, name))

    def _note(self, kind: type[ClusterObject], key: Key) -> None:
        self._versions[kind] += 1
        self._log.append((kind, key))
        if len(self._log) > _LONGEST_LOG:
            half = _LONGEST_LOG // 2
            del self._log[:half]
            self._base += half

    # --- questions ------------------------------------------------------------------------

    def get(self, kind: type[Kind], name: str, namespace: str = "") -> Kind | None:
        """The object, None where there is none."""
        found: Kind | None = self._objects[kind].get((namespace, name))
        return found

    def knows(self, each: ClusterObject) -> bool:
        """Whether there is an object of that type and name."""
        return (each.namespace, each.name) in self._objects[type(each)]

    def all(self, kind: type[Kind]) -> Mapping[Key, Kind]:
        """All objects of a type by (namespace, name)."""
        return self._objects[kind]

    def version(self, *kinds: type[ClusterObject]) -> tuple[int, ...]:
        """Another value after each change of an object of these types."""
        return tuple(self._versions[kind] for kind in kinds)

    @property
    def end(self) -> int:
        """The cursor of one who has seen all changes."""
        return self._base + len(self._log)

    def since(self, cursor: int) -> Sequence[tuple[type[ClusterObject], Key]] | None:
        """Type and (namespace, name) of what came, changed or went after a cursor; None where that
        is forgotten."""
        return None if cursor < self._base else self._log[cursor - self._base :]

    def namespace_labels(self, name: str) -> Mapping[str, str]:
        """A namespace's labels; none where it is not known."""
        found = self.get(Namespace, name)
        return {} if found is None else found.labels

    def everything(self) -> Iterable[ClusterObject]:
        """All objects of all types."""
        return [each for kept in self._objects.values() for each in kept.values()]
