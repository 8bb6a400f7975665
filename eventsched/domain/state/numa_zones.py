"""What is known of the NUMA zones of nodes, and which pods came since that was measured.

Part of SchedulerState. A node's NodeResourceTopology says what is free in each zone; it is written
by an agent on the node some time after a pod has come. Until an object covers a pod, the pod counts
beside it. The rules are those of sigs.k8s.io/scheduler-plugins, pkg/noderesourcetopology/cache
(overreserve.go, store.go, foreign_pods.go): an object with a fingerprint covers the pods on its
node if the fingerprint is theirs; until it is, the last one that was right holds.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from eventsched.domain.int64 import LARGEST
from eventsched.domain.objects import CPU, MEMORY, Pod, PodSpec, Resources
from eventsched.domain.objects.pod_requests import of_containers
from eventsched.domain.objects.registry import NodeResourceTopology, Registry
from eventsched.domain.state.pod_set_fingerprints import fingerprint
from eventsched.domain.state.pod_state import PodState

_LONGEST_LOG = 4096


class ZoneReport:
    """What is known of a node. ``current`` is the object that holds; ``is_settled`` says that it is
    the newest one and covers the pods that were bound when it came to hold. ``uncovered`` are the
    pods that came since, by uid: True for those that were placed here, False for those of
    others."""

    __slots__ = ("current", "is_settled", "uncovered")

    def __init__(
        self, current: NodeResourceTopology, uncovered: dict[str, bool], *, is_settled: bool = False
    ) -> None:
        self.current, self.uncovered, self.is_settled = current, uncovered, is_settled


class Topologies:
    """The reports of all nodes that have an object. ``pods`` are all pods, ``on_node`` gives those
    that are on a node of some name or have it reserved."""

    def __init__(
        self,
        registry: Registry,
        pods: Mapping[str, PodState],
        on_node: Callable[[str], Iterable[PodState]],
    ) -> None:
        self._registry, self._pods, self._on_node = registry, pods, on_node
        self._reports: dict[str, ZoneReport] = {}
        self._log: list[str] = []
        self._base = 0

    # --- changes, called by SchedulerState.apply only -------------------------------------

    def put(self, newest: NodeResourceTopology) -> None:
        """Takes in a node's object that is in the registry now. Another policy or scope holds at
        once."""
        report = self._reports.get(newest.name)
        if report is None:
            uncovered = {each.pod.uid: not each.bound for each in self._on_node(newest.name)}
            report = self._reports[newest.name] = ZoneReport(newest, uncovered)
        elif _settings(report.current) != _settings(newest):
            report.current = newest
        report.is_settled = False
        self._settle(newest.name)

    def remove(self, name: str) -> None:
        """A node's object is gone."""
        del self._reports[name]
        self._touch(name)

    def move(self, state: PodState, before: str, *, reserved: bool) -> None:
        """A pod that was on one node (``before``, "" for none) is where its state says; or it has
        changed there. ``reserved``: it was placed by a decision."""
        if not self._reports:
            return
        if before != state.booked_node:
            if before in self._reports:
                self._reports[before].uncovered.pop(state.pod.uid, None)
                self._settle(before)
            if state.booked_node in self._reports:
                self._reports[state.booked_node].uncovered[state.pod.uid] = reserved
        if state.booked_node in self._reports:
            self._settle(state.booked_node)

    def put_back(self, name: str, report: ZoneReport) -> None:
        """Takes in a report from a snapshot."""
        self._reports[name] = report
        self._touch(name)

    def _settle(self, name: str) -> None:
        """Lets the newest object hold if it covers the pods that are bound."""
        self._touch(name)
        report = self._reports[name]
        newest = self._registry.get(NodeResourceTopology, name)
        if report.is_settled or newest is None:
            return
        on_node = list(self._on_node(name))
        if newest.fingerprint and newest.fingerprint != _expected(newest, on_node):
            return
        report.current, report.is_settled = newest, True
        report.uncovered = {each.pod.uid: True for each in on_node if not each.bound}

    def _touch(self, name: str) -> None:
        self._log.append(name)
        if len(self._log) > _LONGEST_LOG:
            half = _LONGEST_LOG // 2
            del self._log[:half]
            self._base += half

    # --- questions ------------------------------------------------------------------------

    @property
    def end(self) -> int:
        """The cursor of a reader that has seen all changes."""
        return self._base + len(self._log)

    def since(self, cursor: int) -> Sequence[str] | None:
        """The nodes whose report came, changed or went after a cursor; None if that is
        forgotten."""
        return None if cursor < self._base else self._log[cursor - self._base :]

    def of(self, name: str) -> ZoneReport | None:
        """A node's report; not to be written to."""
        return self._reports.get(name)

    def newest(self, name: str) -> NodeResourceTopology | None:
        """A node's newest object, whether it covers its pods or not."""
        return self._registry.get(NodeResourceTopology, name)

    def pod(self, uid: str) -> PodState:
        """A pod that a report names."""
        return self._pods[uid]

    def all(self) -> Mapping[str, ZoneReport]:
        """All reports by node."""
        return self._reports

    def summary(self) -> dict[str, Any]:
        """What the state's digest covers."""
        return {
            name: [report.current, report.is_settled, report.uncovered]
            for name, report in self._reports.items()
        }


def no_topologies() -> Topologies:
    """Those of a state without any."""
    return Topologies(Registry(), {}, lambda name: ())


def _settings(topology: NodeResourceTopology) -> tuple[str, str, int]:
    return topology.policy, topology.scope, topology.most_zones


def _expected(topology: NodeResourceTopology, pods: Iterable[PodState]) -> str:
    """The fingerprint that an object has if it covers the bound ones among some pods."""
    names = zone_resources(topology)
    return fingerprint(
        (each.pod.namespace, each.pod.name)
        for each in pods
        if each.bound and (not topology.only_exclusive or is_exclusive(each.pod, names))
    )


def zone_resources(topology: NodeResourceTopology) -> frozenset[str]:
    """The resources that any of a node's zones reports."""
    return frozenset(name for zone in topology.zones for name in zone.available)


def is_native(resource: str) -> bool:
    """Whether Kubernetes itself defines a resource (upstream: v1helper.IsNativeResource)."""
    return "/" not in resource or "kubernetes.io/" in resource


def is_exclusive(pod: Pod, reported: Collection[str]) -> bool:
    """Whether a container or sidecar holds what no other container can use: devices of zones that
    report them, and for Guaranteed pods whole CPUs, memory and huge pages (upstream:
    resourcerequests/exclusive.go)."""
    spec = pod.spec
    sidecars = tuple(each for each in spec.init_containers if each.restarts)
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
    """What a pod counts with in a zone (upstream: pkg/util/resource.go GetPodEffectiveRequest).
    Computed once for each shape of pod."""
    found: Resources | None = spec.__dict__.get("_zone_request")
    if found is None:
        # No zone has as much as int64 holds; more would not fit into a column.
        found = {name: min(amount, LARGEST) for name, amount in of_containers(spec).items()}
        spec.__dict__["_zone_request"] = found
    return found
