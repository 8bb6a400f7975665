"""The part of a pod that its placement depends on: containers, ports and constraints."""

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

_canonical = msgspec.json.Encoder(order="deterministic").encode


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


class PodSpec(Frozen, frozen=True, dict=True, weakref=True, gc=True):
    """The part of a pod that its placement depends on. Pods with equal specs share one object, so
    values derived from a spec are cached on it: the caches go when the last such pod goes. None may
    refer to a pod, which the garbage collector does not look at: the two would never be freed.

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
        return _canonical(self)

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


def intern(spec: PodSpec, known: MutableMapping[bytes, PodSpec]) -> PodSpec:
    """The one PodSpec object of equal content, so that derived values are computed once."""
    # By ``key`` only if it is known: most specs are found and dropped, and need no cache of it.
    return known.setdefault(spec.__dict__.get("key") or _canonical(spec), spec)
