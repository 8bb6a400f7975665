"""The NUMA zones of nodes, and the pods that their reports do not cover yet.

Part of SchedulerState. A node's NodeResourceTopology says what is free in each zone. An agent on
the node writes it some time after a pod has started, so pods that it does not cover yet are counted
separately. The rules are those of sigs.k8s.io/scheduler-plugins, pkg/noderesourcetopology/cache
(overreserve.go, store.go, foreign_pods.go): an object with a fingerprint covers the pods on its
node if the fingerprint is theirs; otherwise the last object that covered its pods stays in force.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from eventsched.domain.int64 import INT64_MAX
from eventsched.domain.objects import CPU, MEMORY, Pod, PodSpec, Resources
from eventsched.domain.objects.pod_requests import of_containers
from eventsched.domain.objects.registry import NodeResourceTopology, Registry
from eventsched.domain.state.pod_set_fingerprints import fingerprint
from eventsched.domain.state.pod_state import PodState

_MOST_CHANGES = 4096


class ZoneReport:
    """The report of a node. ``current`` is the object in force; ``is_settled`` says that it is the
    newest one and covered the bound pods when it came into force. ``uncovered`` are the pods that
    were added since, by uid: True for those placed by this scheduler, False for others."""

    __slots__ = ("current", "is_settled", "uncovered")

    def __init__(
        self, current: NodeResourceTopology, uncovered: dict[str, bool], *, is_settled: bool = False
    ) -> None:
        self.current, self.uncovered, self.is_settled = current, uncovered, is_settled


class Topologies:
    """The reports of all nodes that have an object. ``pods`` are all pods; ``on_node`` returns
    those that are bound to a node or have it reserved."""

    def __init__(
        self,
        registry: Registry,
        pods: Mapping[str, PodState],
        on_node: Callable[[str], Iterable[PodState]],
    ) -> None:
        self._registry, self._pods, self._on_node = registry, pods, on_node
        self._reports: dict[str, ZoneReport] = {}
        self._changes: list[str] = []
        self._base = 0

    # --- changes, called by SchedulerState.apply only -------------------------------------

    def put(self, newest: NodeResourceTopology) -> None:
        """Takes a node's object that was just put into the registry. A changed policy or scope
        comes into force at once."""
        report = self._reports.get(newest.name)
        if report is None:
            uncovered = {pod.pod.uid: not pod.bound for pod in self._on_node(newest.name)}
            report = self._reports[newest.name] = ZoneReport(newest, uncovered)
        elif _settings(report.current) != _settings(newest):
            report.current = newest
        report.is_settled = False
        self._settle(newest.name)

    def remove(self, name: str) -> None:
        """Removes the report of a node whose object is deleted."""
        del self._reports[name]
        self._touch(name)

    def move(self, pod_state: PodState, before: str, *, reserved: bool) -> None:
        """Takes a pod that has moved from the node ``before`` ("" for none) to the node of its
        state, or has changed there. ``reserved``: a decision moved it."""
        if not self._reports:
            return
        if before != pod_state.booked_node:
            if before in self._reports:
                self._reports[before].uncovered.pop(pod_state.pod.uid, None)
                self._settle(before)
            if pod_state.booked_node in self._reports:
                self._reports[pod_state.booked_node].uncovered[pod_state.pod.uid] = reserved
        if pod_state.booked_node in self._reports:
            self._settle(pod_state.booked_node)

    def put_back(self, name: str, report: ZoneReport) -> None:
        """Restores a report from a snapshot."""
        self._reports[name] = report
        self._touch(name)

    def _settle(self, name: str) -> None:
        """Puts the newest object in force if it covers the bound pods."""
        self._touch(name)
        report = self._reports[name]
        newest = self._registry.get(NodeResourceTopology, name)
        if report.is_settled or newest is None:
            return
        on_node = list(self._on_node(name))
        if newest.fingerprint and newest.fingerprint != _expected(newest, on_node):
            return
        report.current, report.is_settled = newest, True
        report.uncovered = {pod.pod.uid: True for pod in on_node if not pod.bound}

    def _touch(self, name: str) -> None:
        self._changes.append(name)
        if len(self._changes) > _MOST_CHANGES:
            half = _MOST_CHANGES // 2
            del self._changes[:half]
            self._base += half

    # --- questions ------------------------------------------------------------------------

    @property
    def end(self) -> int:
        """The cursor of a reader that has seen all changes."""
        return self._base + len(self._changes)

    def since(self, cursor: int) -> Sequence[str] | None:
        """The nodes whose report was added, changed or removed after a cursor; None if the log no
        longer reaches back that far."""
        return None if cursor < self._base else self._changes[cursor - self._base :]

    def of(self, name: str) -> ZoneReport | None:
        """A node's report; read only."""
        return self._reports.get(name)

    def newest(self, name: str) -> NodeResourceTopology | None:
        """A node's newest object, even if it does not cover its pods."""
        return self._registry.get(NodeResourceTopology, name)

    def pod(self, uid: str) -> PodState:
        """A pod that a report names."""
        return self._pods[uid]

    def all(self) -> Mapping[str, ZoneReport]:
        """All reports by node."""
        return self._reports


def no_topologies() -> Topologies:
    """The Topologies of a state without any report."""
    return Topologies(Registry(), {}, lambda name: ())


def _settings(topology: NodeResourceTopology) -> tuple[str, str, int]:
    return topology.policy, topology.scope, topology.most_zones


def _expected(topology: NodeResourceTopology, pods: Iterable[PodState]) -> str:
    """The fingerprint of an object that covers the bound pods of ``pods``."""
    names = zone_resources(topology)
    return fingerprint(
        (state.pod.namespace, state.pod.name)
        for state in pods
        if state.bound and (not topology.only_exclusive or is_exclusive(state.pod, names))
    )


def zone_resources(topology: NodeResourceTopology) -> frozenset[str]:
    """The resources that any of a node's zones reports."""
    return frozenset(name for zone in topology.zones for name in zone.available)


def is_native(resource: str) -> bool:
    """Whether Kubernetes itself defines a resource (upstream: v1helper.IsNativeResource)."""
    return "/" not in resource or "kubernetes.io/" in resource


def is_exclusive(pod: Pod, reported: Collection[str]) -> bool:
    """Whether a container or sidecar has resources that no other container can use: devices that
    zones report, and for Guaranteed pods whole CPUs, memory and huge pages (upstream:
    resourcerequests/exclusive.go)."""
    spec = pod.spec
    sidecars = tuple(container for container in spec.init_containers if container.restarts)
    return any(
        _is_exclusive(name, amount, reported, guaranteed=spec.guaranteed)
        for container in (*sidecars, *spec.containers)
        for name, amount in container.requests.items()
    )


def _is_exclusive(name: str, amount: int, reported: Collection[str], *, guaranteed: bool) -> bool:
    if not is_native(name):
        return name in reported
    if not guaranteed or amount <= 0:
        return False
    if name == CPU:
        return amount % 1000 == 0
    return name == MEMORY or name.startswith("hugepages-")


def zone_request(spec: PodSpec) -> Resources:
    """A pod's request of a zone (upstream: pkg/util/resource.go GetPodEffectiveRequest). Computed
    once for each spec."""
    cached: Resources | None = spec.__dict__.get("_zone_request")
    if cached is None:
        # Cut to int64 so that it fits into a column; no zone has that much.
        cached = {name: min(amount, INT64_MAX) for name, amount in of_containers(spec).items()}
        spec.__dict__["_zone_request"] = cached
    return cached
