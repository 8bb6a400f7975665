"""A pod as scheduling reads it. Made by eventsched.cluster.translate.manifest from API objects and
stored in stimuli.
"""

from collections.abc import MutableMapping
from functools import cached_property

import msgspec

from eventsched.domain.objects.frozen import Frozen
from eventsched.domain.objects.placement_terms import (
    AffinityTerm,
    NodeSelectorTerm,
    PreferredTerm,
    SpreadConstraint,
    Toleration,
    WeightedAffinityTerm,
)
from eventsched.domain.objects.resource_names import Resources


class HostPort(Frozen, frozen=True):
    """A port that a container opens on its node; ip is never empty (0.0.0.0 means all)."""

    port: int
    protocol: str = "TCP"
    ip: str = "0.0.0.0"

    def collides(self, other: "HostPort") -> bool:
        """Whether both cannot be open on one node (upstream: HostPortInfo.CheckConflict)."""
        same = (self.port, self.protocol) == (other.port, other.protocol)
        return same and (self.ip == other.ip or "0.0.0.0" in (self.ip, other.ip))


class Container(Frozen, frozen=True):
    """A container. ``restarts`` marks an init container as a sidecar."""

    image: str = ""
    requests: Resources = {}
    ports: tuple[HostPort, ...] = ()
    restarts: bool = False


class PodSpec(Frozen, frozen=True, dict=True, weakref=True):
    """The part of a pod that its placement depends on. Pods with equal specs share one object, so
    values derived from a spec are cached on it: the caches go when the last such pod goes.

    ``requests`` are the pod-level requests, None if the pod has none. ``image_volumes`` are the
    references of volumes of type image. ``needed_features`` are the features that the node's
    kubelet must declare, sorted by name. ``guaranteed`` says that the pod is of QoS class
    Guaranteed.
    """

    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    overhead: Resources = {}
    requests: Resources | None = None
    node_selector: dict[str, str] = {}
    required_node_terms: tuple[NodeSelectorTerm, ...] | None = None
    preferred_node_terms: tuple[PreferredTerm, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    image_volumes: tuple[str, ...] = ()
    required_affinity: tuple[AffinityTerm, ...] = ()
    preferred_affinity: tuple[WeightedAffinityTerm, ...] = ()
    required_anti_affinity: tuple[AffinityTerm, ...] = ()
    preferred_anti_affinity: tuple[WeightedAffinityTerm, ...] = ()
    spread: tuple[SpreadConstraint, ...] = ()
    needed_features: tuple[str, ...] = ()
    guaranteed: bool = False

    @cached_property
    def key(self) -> bytes:
        """The spec's canonical bytes: equal exactly for equal specs. A plugin that reads nothing
        else of a pod returns it from ``sign``."""
        return msgspec.json.encode(self, order="deterministic")

    @cached_property
    def has_affinity(self) -> bool:
        """Whether it has any term of pod affinity or anti-affinity."""
        return bool(
            self.required_affinity or self.preferred_affinity
            or self.required_anti_affinity or self.preferred_anti_affinity
        )  # fmt: skip

    @cached_property
    def host_ports(self) -> tuple[HostPort, ...]:
        """Host ports of sidecars and containers (upstream: pkg/scheduler/util GetHostPorts)."""
        sidecars = tuple(container for container in self.init_containers if container.restarts)
        return tuple(port for container in sidecars + self.containers for port in container.ports)


class Owner(Frozen, frozen=True):
    """The controller that owns a pod. ``foreign`` says that its kind has the name of a built-in
    kind but another API group (such as StatefulSet of apps.kruise.io)."""

    kind: str
    name: str
    uid: str = ""
    foreign: bool = False


class PodVolume(Frozen, frozen=True):
    """A volume of a pod that its placement may depend on. One of three fields says what it is:

    - ``claim``: the name of a claim in the pod's namespace, with ``ephemeral`` a claim that belongs
      to the pod. A claim volume without a name has the source persistentVolumeClaim instead.
    - ``driver``: the CSI driver of an inline volume.
    - ``source``: the type of an in-tree disk, as the API's field is called. ``identity`` then tells
      disks of that type apart: (pdName,) for gcePersistentDisk; (volumeID,) for
      awsElasticBlockStore, cinder and portworxVolume; (iqn,) for iscsi; (pool, image, *monitors)
      for rbd; (diskURI, kind) for azureDisk; empty for all others.
    """

    name: str = ""
    claim: str = ""
    ephemeral: bool = False
    read_only: bool = False
    driver: str = ""
    source: str = ""
    identity: tuple[str, ...] = ()


class Pod(Frozen, frozen=True):
    """A pod. ``uid`` identifies it; ``priority`` is the resolved number; ``created_at`` and
    ``started_at`` are in microseconds, 0 if unset; ``gates`` are the names in spec.schedulingGates.
    Volumes are not part of the spec: the pods of a stateful set have equal specs and different
    volumes. ``displaced`` says that the pod is being deleted to make room (condition
    DisruptionTarget, reason PreemptionByScheduler)."""

    uid: str
    name: str
    namespace: str = "default"
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner: Owner | None = None
    priority: int = 0
    scheduler_name: str = "default-scheduler"
    node_name: str = ""
    gates: tuple[str, ...] = ()
    deleting: bool = False
    created_at: int = 0
    spec: PodSpec = PodSpec()
    volumes: tuple[PodVolume, ...] = ()
    resource_claims: tuple[str, ...] = ()
    preemption_policy: str = ""
    nominated_node: str = ""
    started_at: int = 0
    displaced: bool = False

    @property
    def full_name(self) -> str:
        """``namespace/name``, as people and upstream's messages write it."""
        return f"{self.namespace}/{self.name}"

    def requests(self, resource: str) -> int:
        """How much of a resource the pod requests: containers, init containers, sidecars, pod-level
        requests and overhead as kube-scheduler counts them. ``cpu`` in millicores, memory and
        storage in bytes, all else as a count; 0 if it requests none."""
        from eventsched.domain.objects.pod_requests import of

        return of(self.spec).effective.get(resource, 0)


def intern(spec: PodSpec, known: MutableMapping[bytes, PodSpec]) -> PodSpec:
    """The one PodSpec object of equal content, so that derived values are computed once."""
    return known.setdefault(spec.key, spec)
