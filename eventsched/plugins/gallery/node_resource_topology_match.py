"""NodeResourceTopologyMatch: nodes whose NUMA zones can hold a pod as the kubelet will place it.

The rules are those of sigs.k8s.io/scheduler-plugins, pkg/noderesourcetopology (filter.go, score.go,
plugin.go, cache); arguments and their defaults are those of apis/config/v1, the checks those of
apis/config/validation. The free resources of zones are read from NodeResourceTopology objects; pods
placed since then follow from the log (domain/state/numa_zones.py), so they survive a restart.
"""

from collections.abc import Hashable, Iterator

import msgspec
import numpy as np

from eventsched.domain.errors import InputError
from eventsched.domain.objects import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, Pod, is_scalar
from eventsched.domain.objects.registry import NodeResourceTopology
from eventsched.domain.records.verdicts import MAX_NODE_SCORE
from eventsched.domain.state.numa_zones import is_native, zone_request
from eventsched.scheduling.config.pluginargs import Arguments, not_one_of
from eventsched.scheduling.config.sections import Int64
from eventsched.scheduling.framework import (
    Change,
    ClusterEvent,
    Cycle,
    IntColumn,
    NodeView,
    Status,
)
from eventsched.scheduling.rules.numa.alignment import (
    NO_CONTAINER,
    NO_INIT,
    NO_POD,
    NO_SIDECAR,
    Offers,
    aligned_containers,
    aligned_pod,
)
from eventsched.scheduling.rules.numa.zone_columns import (
    DISCARD,
    OVER_RESERVE,
    PASSTHROUGH,
    Bools,
    Reading,
    ZoneColumns,
    Zones,
)
from eventsched.scheduling.rules.numa.zone_scores import (
    Requests,
    Strategy,
    balanced_allocation,
    fewest_zones,
    least_allocated,
    lowest,
    most_allocated,
)

ALL, NONE, ONLY_EXCLUSIVE = "All", "None", "OnlyExclusiveResources"
LEAST_NUMA = "LeastNUMANodes"
_STRATEGIES: dict[str, Strategy] = {
    "MostAllocated": most_allocated,
    "BalancedAllocation": balanced_allocation,
    "LeastAllocated": least_allocated,
}
_STALE_DATA = NO_POD + 1
_REASONS = {
    NO_INIT: "cannot align init container",
    NO_SIDECAR: "cannot align sidecar container",
    NO_CONTAINER: "cannot align container",
    NO_POD: "cannot align pod",
    _STALE_DATA: "invalid node topology data",
}
"""Code → upstream's message."""
_MAX_WEIGHT_SUM = 2**53
"""Maximum of the sum of weights, so that a weighted score fits into int64."""
_ALWAYS_OFFERED = (CPU, MEMORY, PODS, EPHEMERAL_STORAGE)


class ScoredResource(msgspec.Struct, rename="camel", forbid_unknown_fields=True, frozen=True):
    """A resource and its weight; a weight below 1 counts as 1."""

    name: str = ""
    weight: Int64 = 1


class TopologyScoringStrategy(
    msgspec.Struct, rename="camel", forbid_unknown_fields=True, frozen=True
):
    """The scoring function and the weights of resources; resources not listed have weight 1."""

    type: str = ""
    resources: tuple[ScoredResource, ...] = ()


class TopologyCache(msgspec.Struct, rename="camel", forbid_unknown_fields=True, frozen=True):
    """How the free resources of zones are tracked. ``informer_mode`` has no effect: there is one
    watch."""

    foreign_pods_detect: str = ALL
    resync_method: str = "Autodetect"
    informer_mode: str = "Dedicated"
    resync_scope: str = ALL


class NodeResourceTopologyMatchArgs(Arguments, frozen=True):
    """Upstream's NodeResourceTopologyMatchArgs."""

    scoring_strategy: TopologyScoringStrategy = TopologyScoringStrategy("LeastAllocated")
    cache_resync_period_seconds: Int64 = 0
    discard_reserved_nodes: bool = False
    cache: TopologyCache = TopologyCache()
    preemption_mode: str = "Disabled"

    def problems(self) -> Iterator[InputError]:
        """The rules of ValidateNodeResourceTopologyMatchArgs, and the values that are not
        supported here."""
        strategies = (*_STRATEGIES, LEAST_NUMA)
        yield from not_one_of("scoringStrategy.type", self.scoring_strategy.type, strategies)
        if (
            sum(max(resource.weight, 1) for resource in self.scoring_strategy.resources)
            > _MAX_WEIGHT_SUM
        ):
            problem = f"the weights add up to more than {_MAX_WEIGHT_SUM}"
            remedy = "divide all of them by the same number"
            yield InputError("scoringStrategy.resources", problem, remedy)
        cache = self.cache
        modes = (ALL, NONE, ONLY_EXCLUSIVE)
        yield from not_one_of("cache.foreignPodsDetect", cache.foreign_pods_detect, modes)
        yield from not_one_of("cache.informerMode", cache.informer_mode, ("Shared", "Dedicated"))
        for where, value, only in (
            ("cache.resyncMethod", cache.resync_method, "Autodetect"),
            ("cache.resyncScope", cache.resync_scope, ALL),
            ("preemptionMode", self.preemption_mode, "Disabled"),
        ):
            if value != only:
                yield InputError(where, f"{value!r} is not supported", f"remove it or use {only}")


class NodeResourceTopologyMatch:
    """Filter and Score by NUMA zones. Reservations follow from the log, so Reserve does nothing."""

    name = "NodeResourceTopologyMatch"
    reads_objects = (NodeResourceTopology,)
    wakes_on = (
        ClusterEvent.ASSIGNED_POD_ADD,
        ClusterEvent.ASSIGNED_POD_UPDATE,
        ClusterEvent.ASSIGNED_POD_DELETE,
        ClusterEvent.NODE_ADD,
        ClusterEvent.NODE_UPDATE_ALLOCATABLE,
        ClusterEvent.POD_UPDATE,
    )
    wakes_on_objects = (NodeResourceTopology,)
    Args = NodeResourceTopologyMatchArgs

    def __init__(self, args: NodeResourceTopologyMatchArgs | None = None) -> None:
        self._args = args or NodeResourceTopologyMatchArgs()
        strategy = self._args.scoring_strategy
        self._strategy = _STRATEGIES.get(strategy.type)
        # If a resource is listed twice the last weight counts, as upstream (a map).
        self._weights = {resource.name: max(resource.weight, 1) for resource in strategy.resources}
        self._columns: ZoneColumns | None = None

    def sign(self, pod: Pod) -> Hashable:
        """The same for all pods to which zones do not matter. None for others: their zones change
        without a change of the node."""
        return None if _is_concerned(pod) else ()

    def pre_filter(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> Status | None:
        """Skips pods to which zones do not matter."""
        return None if _is_concerned(pod) else Status.skip()

    def filter(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> IntColumn:
        """The keys of _REASONS. Nodes without an object or without policy single-numa-node pass. As
        upstream, victims of a preemption trial still count."""
        columns = self._current_columns(cycle, nodes)
        codes = np.where(columns.stale[nodes.rows], _STALE_DATA, 0)
        relevant_rows = (codes == 0) & columns.single[nodes.rows]
        for by_pod, align in ((True, aligned_pod), (False, aligned_containers)):
            positions = np.flatnonzero(relevant_rows & (columns.by_pod[nodes.rows] == by_pod))
            if len(positions):
                zones = columns.zones(nodes.rows[positions])
                codes[positions] = align(pod.spec, zones, _offered_resources(nodes, positions))
        return codes

    def explain(self, cycle: Cycle, pod: Pod, code: int) -> Status:
        """The reason, in upstream's words."""
        return Status.unschedulable(_REASONS[code])

    def score(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> IntColumn:
        """0..100. All nodes score 100 for pods that are not Guaranteed; for others, nodes without
        known zones score 0."""
        if not pod.spec.guaranteed:
            return np.full(len(nodes), MAX_NODE_SCORE, dtype=np.int64)
        columns = self._current_columns(cycle, nodes)
        rows = nodes.rows
        scores = np.zeros(len(nodes), dtype=np.int64)
        relevant_rows = columns.known[rows] & ~columns.stale[rows]
        if self._strategy is not None:
            relevant_rows &= columns.single[rows]
        spec = pod.spec
        containers = tuple(c.requests for c in (*spec.init_containers, *spec.containers))
        for by_pod, parts in ((True, (zone_request(spec),)), (False, containers)):
            positions = np.flatnonzero(relevant_rows & (columns.by_pod[rows] == by_pod))
            if len(positions):
                zones = columns.zones(rows[positions])
                if self._strategy is None:
                    most = columns.most[rows[positions]]
                    scores[positions] = fewest_zones(parts, zones, most)
                else:
                    scores[positions] = self._mean_score(self._strategy, parts, zones)
        return scores

    def reserve(self, cycle: Cycle, pod: Pod, node: str) -> None:
        """Does nothing: reservations follow from the log."""

    def post_bind(self, cycle: Cycle, pod: Pod, node: str) -> None:
        """Does nothing: reservations follow from the log."""

    def hint(self, cycle: Cycle, pod: Pod, change: Change) -> bool:
        """Whether the pod now passes on the changed node. (Upstream wakes it for every deleted pod
        and every object.)"""
        if change.event is ClusterEvent.POD_UPDATE:
            return change.old_pod is None or change.old_pod.spec.key != pod.spec.key
        nodes = change.nodes
        if changed := change.new_object or change.old_object:
            row = nodes.table.rows.get(changed.name)
            if row is None:
                return False
            nodes = NodeView(nodes.table, np.array([row], dtype=np.intp))
        if not len(nodes):
            return True
        return not self.filter(cycle, pod, nodes).all()

    def hint_sign(self, pod: Pod) -> Hashable:
        """All that ``hint`` reads of a pod."""
        return pod.spec.key

    def _mean_score(
        self, strategy: Strategy, parts: tuple[Requests, ...], zones: Zones
    ) -> IntColumn:
        """The mean of the parts' scores, truncated."""
        total = np.zeros(len(zones.numbers), dtype=np.int64)
        for requests in parts:
            total += lowest(strategy(requests, zones, self._weights), zones)
        return np.asarray(total // max(len(parts), 1))

    def _current_columns(self, cycle: Cycle, nodes: NodeView) -> ZoneColumns:
        columns = self._columns
        topologies, table = cycle.topologies, nodes.table
        if columns is None or columns.table is not table or columns.topologies is not topologies:
            columns = self._columns = ZoneColumns(table, topologies, self._zone_reading(cycle))
        columns.refresh()
        return columns

    def _zone_reading(self, cycle: Cycle) -> Reading:
        """How the arguments interpret the zones' data."""
        if self._args.discard_reserved_nodes:
            return Reading(DISCARD)
        if self._args.cache_resync_period_seconds <= 0:
            return Reading(PASSTHROUGH)
        mode = self._args.cache.foreign_pods_detect
        ours = frozenset(cycle.schedulers)

        def is_foreign(scheduler: str) -> bool:
            return mode != NONE and scheduler not in ours

        return Reading(OVER_RESERVE, is_foreign, only_exclusive=mode == ONLY_EXCLUSIVE)


def _is_concerned(pod: Pod) -> bool:
    """Whether zones matter to the pod: not to a BestEffort pod without devices."""
    spec = pod.spec
    if spec.guaranteed:
        return True
    parts = [c.requests for c in (*spec.init_containers, *spec.containers)]
    requests_any = any(
        part.get(name) for part in (*parts, spec.requests or {}) for name in (CPU, MEMORY)
    )
    return requests_any or any(not is_native(name) for part in parts for name in part)


def _offered_resources(nodes: NodeView, positions: IntColumn) -> Offers:
    """Resource name → bool[positions]: whether a node offers the resource."""

    def offers(name: str) -> Bools:
        if name in _ALWAYS_OFFERED:
            return np.ones(len(positions), dtype=bool)
        if not is_scalar(name):
            return np.zeros(len(positions), dtype=bool)
        return nodes.offering(name)[positions]

    return offers
