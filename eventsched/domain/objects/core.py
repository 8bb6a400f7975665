"""Kubernetes objects as scheduling reads them: frozen, and only the parts that matter.

Made by eventsched.cluster.translate.manifest from API objects; stored inside the stimuli.
Quantities are integers: cpu in millicores, memory and ephemeral-storage in bytes, everything else a
count.
"""

from collections.abc import MutableMapping
from functools import cached_property
from typing import Any

import msgspec

from eventsched.domain.objects.texts import json_without_nul

CPU = "cpu"
MEMORY = "memory"
EPHEMERAL_STORAGE = "ephemeral-storage"
PODS = "pods"

Resources = dict[str, int]


class Frozen(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Base of all stored values: immutable; defaults are left out of the stored bytes, so a field
    added later does not change the bytes of older records."""


class Taint(Frozen, frozen=True):
    """A node's taint (core/v1 Taint); effect is NoSchedule, PreferNoSchedule or NoExecute."""

    key: str
    value: str = ""
    effect: str = ""


class Toleration(Frozen, frozen=True):
    """A pod's toleration (core/v1 Toleration); an empty operator means Equal."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""


class Requirement(Frozen, frozen=True):
    """One expression of a node selector term (core/v1 NodeSelectorRequirement)."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


class NodeSelectorTerm(Frozen, frozen=True):
    """Expressions over labels and fields, all of which must hold; an empty term matches nothing."""

    expressions: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()


class PreferredTerm(Frozen, frozen=True):
    """A node selector term with the weight (1..100) that a matching node gets."""

    weight: int
    term: NodeSelectorTerm


Selector = tuple[Requirement, ...] | None
"""A label selector (meta/v1 LabelSelector), matchLabels written as In: all of its requirements must
hold, so that the empty one selects everything; None selects nothing."""


class AffinityTerm(Frozen, frozen=True):
    """Pods to be near to, or away from (core/v1 PodAffinityTerm): those that the selector selects,
    in the namespaces that are named or selected; where neither is given, in the pod's own. (An API
    server has completed the selector from matchLabelKeys and mismatchLabelKeys.)"""

    topology_key: str
    selector: Selector = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: Selector = None


class WeightedAffinityTerm(Frozen, frozen=True):
    """A preference (core/v1 WeightedPodAffinityTerm) and its weight, 1..100."""

    weight: int
    term: AffinityTerm


class SpreadConstraint(Frozen, frozen=True):
    """How pods are to be spread over domains (core/v1 TopologySpreadConstraint). Fields that an API
    object leaves out have upstream's defaults; ``min_domains`` None is none."""

    max_skew: int
    topology_key: str
    when_unsatisfiable: str = "DoNotSchedule"
    selector: Selector = None
    min_domains: int | None = None
    node_affinity_policy: str = "Honor"
    node_taints_policy: str = "Ignore"
    match_label_keys: tuple[str, ...] = ()


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
    """What scheduling reads of a container; ``restarts`` marks an init container as a sidecar."""

    image: str = ""
    requests: Resources = {}
    ports: tuple[HostPort, ...] = ()
    restarts: bool = False


class PodSpec(Frozen, frozen=True, dict=True, weakref=True):
    """The part of a pod that its placement depends on, shared by all pods that are alike.

    ``requests`` are the pod-level ones, None where the pod has none. ``image_volumes`` are the
    references of volumes of type image. ``needed_features`` are the features that its node's
    kubelet must declare, sorted by name. ``guaranteed`` says that the pod is of that class of
    quality of service.
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
        """The spec's canonical bytes: equal exactly for pods that are alike. Plugins that read
        nothing else of a pod return it from ``sign``."""
        return msgspec.json.encode(self, order="deterministic")

    @cached_property
    def has_affinity(self) -> bool:
        """Whether it has terms about other pods, which these then have to be counted against."""
        return bool(
            self.required_affinity or self.preferred_affinity
            or self.required_anti_affinity or self.preferred_anti_affinity
        )  # fmt: skip

    @cached_property
    def host_ports(self) -> tuple[HostPort, ...]:
        """Host ports of sidecars and containers (upstream: pkg/scheduler/util GetHostPorts)."""
        sidecars = tuple(c for c in self.init_containers if c.restarts)
        return tuple(p for c in sidecars + self.containers for p in c.ports)


class Owner(Frozen, frozen=True):
    """The controller that owns a pod. ``foreign`` says that its kind only has the name of a
    built-in one (an advanced StatefulSet of apps.kruise.io, say)."""

    kind: str
    name: str
    uid: str = ""
    foreign: bool = False


class PodVolume(Frozen, frozen=True):
    """A volume of a pod that its placement may depend on. ``claim`` is the name of a claim in its
    namespace (with ``ephemeral`` one that belongs to the pod), or ``driver`` the CSI driver of an
    inline volume, or ``source`` the type of an in-tree disk (gcePersistentDisk,
    awsElasticBlockStore, iscsi, rbd…: the API's field) and ``identity`` what tells such disks
    apart: (pdName,), (volumeID,) also of cinder and portworxVolume, (iqn,), (pool, image,
    *monitors), of azureDisk (diskURI, kind); nothing needs to tell others apart. One that is a
    claim but names none has no ``claim`` and the source persistentVolumeClaim."""

    name: str = ""
    claim: str = ""
    ephemeral: bool = False
    read_only: bool = False
    driver: str = ""
    source: str = ""
    identity: tuple[str, ...] = ()


class Pod(Frozen, frozen=True):
    """A pod. ``uid`` identifies it; ``priority`` is the resolved number; ``created_at`` and
    ``started_at`` (0 for neither) are in microseconds; ``gates`` are the names in
    spec.schedulingGates. Its volumes stand here and not in the spec: in a stateful set each pod has
    its own, and pods of one spec share what is computed of it. ``displaced`` says that it is being
    deleted to make room (condition DisruptionTarget, reason PreemptionByScheduler)."""

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
        """What the pod asks of a node, of one resource: containers, init containers, sidecars,
        pod-level requests and overhead as kube-scheduler counts them. ``cpu`` in millicores, what
        is measured in bytes in bytes, all else in pieces; 0 if it asks for none."""
        from eventsched.domain.objects.pod_requests import of

        return of(self.spec).effective.get(resource, 0)


class Image(Frozen, frozen=True):
    """A container image that a node holds, under all its names; size in bytes."""

    names: tuple[str, ...]
    size: int


class Node(Frozen, frozen=True):
    """A node. ``allocatable`` includes ``pods``, the number of pods it takes."""

    name: str
    uid: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    allocatable: Resources = {}
    images: tuple[Image, ...] = ()
    declared_features: tuple[str, ...] = ()


def is_scalar(name: str) -> bool:
    """Whether a resource is counted apart from cpu, memory, ephemeral-storage and pods (upstream:
    pkg/scheduler/util IsScalarResourceName): extended, hugepages, attachable volumes or any
    kubernetes.io/ resource."""
    return (
        "kubernetes.io/" in name
        or name.startswith(("hugepages-", "attachable-volumes-"))
        or is_extended(name)
    )


def is_extended(name: str) -> bool:
    """Whether a resource is an extended one such as example.com/gpu (upstream:
    pkg/apis/core/v1/helper IsExtendedResourceName)."""
    return "/" in name and "kubernetes.io/" not in name and not name.startswith("requests.")


def canonical(value: Any) -> bytes:
    """Canonical JSON bytes: fields in declared order, map keys sorted, no white space. U+0000,
    which Postgres cannot hold in text, becomes U+FFFD, written as a decoded one is. Raises
    ValueError for half a surrogate pair."""
    body = msgspec.json.encode(value, order="deterministic")
    if b"\\u0000" not in body:
        return body
    body = json_without_nul(body)
    if isinstance(value, msgspec.Struct):  # its maps may be in another order now
        value = msgspec.json.decode(body, type=type(value))
        return msgspec.json.encode(value, order="deterministic")
    return body


def intern(spec: PodSpec, known: MutableMapping[bytes, PodSpec]) -> PodSpec:
    """The one PodSpec object for this content, so that derived values are computed once a shape."""
    return known.setdefault(spec.key, spec)
