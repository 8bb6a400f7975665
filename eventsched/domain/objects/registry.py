"""Objects other than nodes and pods that decisions depend on, as scheduling reads them.

Part of SchedulerState, changed only by its ``apply``; plugins read it (``cycle.registry``). A
plugin may cache what it derives from a type of object while that type's ``version`` stays the same.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from eventsched.domain.objects.frozen import Frozen
from eventsched.domain.objects.placement_terms import NodeSelectorTerm, Requirement, Selector
from eventsched.domain.objects.resource_names import Resources


def title(kind: str, namespace: str, name: str) -> str:
    """``PersistentVolumeClaim shop/data``, or without a namespace ``StorageClass fast``."""
    return f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}"


class ClusterObject(Frozen, frozen=True, tag_field="type", tag=True):
    """Base: an object has a name and, if its type is namespaced, a namespace."""

    name: str
    namespace: str = ""

    @property
    def title(self) -> str:
        """Type, namespace and name, for messages."""
        return title(type(self).__name__, self.namespace, self.name)


class Namespace(ClusterObject, frozen=True):
    """A namespace and its labels."""

    labels: dict[str, str] = {}


class Service(ClusterObject, frozen=True):
    """A service; one without a selector selects no pods."""

    selector: dict[str, str] = {}


class ReplicaSet(ClusterObject, frozen=True):
    """A replica set and the selector of its pods."""

    uid: str = ""
    selector: Selector = None


class StatefulSet(ClusterObject, frozen=True):
    """A stateful set and the selector of its pods."""

    uid: str = ""
    selector: Selector = None


class ReplicationController(ClusterObject, frozen=True):
    """A replication controller and the selector of its pods."""

    uid: str = ""
    selector: Selector = None


class PersistentVolumeClaim(ClusterObject, frozen=True):
    """A claim. ``storage_class`` is None if unset; ``requested`` is in bytes; ``bound`` says that
    the volume controller has completed the binding to ``volume``; ``selected_node`` is the node to
    provision for; ``owner_uid`` is the uid of the controller, for ephemeral volumes ``Pod.uid``;
    ``attributes_class`` is spec.volumeAttributesClassName."""

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
    """A volume. ``claim`` is (namespace, name, uid) of its claim; ``capacity`` is in bytes;
    ``node_terms`` is None if every node can reach it; ``driver`` and ``handle`` are those of a CSI
    volume; ``source`` and ``identity`` are those of any other volume, as in PodVolume.
    ``attributes_class`` is spec.volumeAttributesClassName."""

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
    """How volumes are provisioned. ``binding_mode`` is empty if the object has none (an API server
    fills it in); ``topologies`` are alternatives, each a set of In requirements."""

    provisioner: str = ""
    binding_mode: str = "Immediate"
    topologies: tuple[tuple[Requirement, ...], ...] = ()
    default: bool = False
    created_at: int = 0


class NodeDriver(Frozen, frozen=True):
    """A CSI driver on a node; ``limit`` is the most volumes of it there, None for no limit."""

    name: str
    node_id: str = ""
    topology_keys: tuple[str, ...] = ()
    limit: int | None = None


class CSINode(ClusterObject, frozen=True):
    """The CSI drivers of the node of that name; ``migrated`` are the in-tree plugins that they
    replace."""

    drivers: tuple[NodeDriver, ...] = ()
    migrated: tuple[str, ...] = ()


class CSIDriver(ClusterObject, frozen=True):
    """A CSI driver; ``capacity`` says that it publishes CSIStorageCapacity objects."""

    capacity: bool = False


class CSIStorageCapacity(ClusterObject, frozen=True):
    """The capacity (bytes) of a storage class on the nodes that the selector selects."""

    storage_class: str = ""
    capacity: int | None = None
    largest: int | None = None
    topology: Selector = None


class VolumeAttachment(ClusterObject, frozen=True):
    """A volume that is attached to a node or will be."""

    attacher: str = ""
    node: str = ""
    volume: str = ""


class PodDisruptionBudget(ClusterObject, frozen=True):
    """How many of the selected pods may be disrupted now; ``disrupted`` are the names of pods that
    are already counted."""

    selector: Selector = None
    allowed: int = 0
    disrupted: tuple[str, ...] = ()


class ElasticQuota(ClusterObject, frozen=True):
    """What a namespace is guaranteed (``min``) and may use at most (``max``), in millicores, bytes
    and counts (scheduling.x-k8s.io/v1alpha1); None if unset. A limit allows nothing of a resource
    that it does not name, but ``max`` does not limit extended resources that it does not name."""

    min: Resources | None = None
    max: Resources | None = None


class NumaZone(Frozen, frozen=True):
    """A NUMA zone of a node. ``available`` is how much of each reported resource is free
    (millicores, bytes, counts); ``costs`` are (zone number, distance)."""

    number: int
    available: Resources = {}
    costs: tuple[tuple[int, int], ...] = ()


class NodeResourceTopology(ClusterObject, frozen=True):
    """The NUMA zones of the node of that name (topology.node.k8s.io/v1alpha2), by number.
    ``policy`` and ``scope`` are those of the kubelet's topology manager, ``most_zones`` is the
    largest number of zones that it combines. ``fingerprint`` is that of the pods on the node when
    the object was written, "" for none; with ``only_exclusive`` it covers only pods with exclusive
    resources."""

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
_MOST_CHANGES = 4096


class Registry:
    """All objects, by type and (namespace, name), in the order in which they were added."""

    def __init__(self) -> None:
        self._objects: dict[type[ClusterObject], dict[Key, Any]] = {k: {} for k in TYPES.values()}
        self._versions: dict[type[ClusterObject], int] = dict.fromkeys(TYPES.values(), 0)
        self._changes: list[tuple[type[ClusterObject], Key]] = []
        self._base = 0

    # --- changes, called by SchedulerState.apply only -------------------------------------

    def put(self, changed: ClusterObject) -> None:
        """Adds or replaces an object."""
        self._objects[type(changed)][changed.namespace, changed.name] = changed
        self._note(type(changed), (changed.namespace, changed.name))

    def remove(self, kind: type[ClusterObject], namespace: str, name: str) -> None:
        """Removes an object. Raises KeyError if it is unknown."""
        del self._objects[kind][namespace, name]
        self._note(kind, (namespace, name))

    def _note(self, kind: type[ClusterObject], key: Key) -> None:
        self._versions[kind] += 1
        self._changes.append((kind, key))
        if len(self._changes) > _MOST_CHANGES:
            half = _MOST_CHANGES // 2
            del self._changes[:half]
            self._base += half

    # --- questions ------------------------------------------------------------------------

    def get(self, kind: type[Kind], name: str, namespace: str = "") -> Kind | None:
        """The object; None if it is unknown."""
        registered: Kind | None = self._objects[kind].get((namespace, name))
        return registered

    def knows(self, other: ClusterObject) -> bool:
        """Whether there is an object of the same type, namespace and name."""
        return (other.namespace, other.name) in self._objects[type(other)]

    def all(self, kind: type[Kind]) -> Mapping[Key, Kind]:
        """All objects of a type by (namespace, name)."""
        return self._objects[kind]

    def version(self, *kinds: type[ClusterObject]) -> tuple[int, ...]:
        """A value that differs after each change of an object of these types."""
        return tuple([self._versions[kind] for kind in kinds])

    @property
    def end(self) -> int:
        """The cursor of a reader that has seen all changes."""
        return self._base + len(self._changes)

    def since(self, cursor: int) -> Sequence[tuple[type[ClusterObject], Key]] | None:
        """Type and (namespace, name) of each object that was added, changed or removed after a
        cursor; None if the changes no longer reach back that far."""
        return None if cursor < self._base else self._changes[cursor - self._base :]

    def namespace_labels(self, name: str) -> Mapping[str, str]:
        """A namespace's labels; none if it is unknown."""
        namespace = self.get(Namespace, name)
        return {} if namespace is None else namespace.labels

    def everything(self) -> Iterable[AnyObject]:
        """All objects of all types."""
        return [item for by_key in self._objects.values() for item in by_key.values()]
