"""NodeResourcesFit: a node must have the requested resources free; it scores by what is left.

Upstream: plugins/noderesources/fit.go and its three scorers.
"""

from collections.abc import Callable, Hashable, Iterator, Sequence
from itertools import pairwise

import msgspec
import numpy as np
from numpy.typing import NDArray

from eventsched.domain.errors import InputError
from eventsched.domain.int64 import (
    INT64_MAX,
    percent,
    percents,
    quotient,
    quotients,
    wrapped,
)
from eventsched.domain.objects import (
    CPU,
    EPHEMERAL_STORAGE,
    MEMORY,
    PODS,
    Pod,
    is_extended,
    is_scalar,
)
from eventsched.domain.objects.pod_requests import of as requests_of
from eventsched.scheduling.config.pluginargs import Arguments, ShapePoint, not_one_of, outside
from eventsched.scheduling.framework import (
    Change,
    ClusterEvent,
    Cycle,
    IntColumn,
    NodeView,
    Status,
    signed_by_spec,
)
from eventsched.scheduling.rules.resource_scoring import (
    ResourceSpec,
    ScoredRequests,
    ShapeCache,
    asked,
    not_qualified,
)

Int64s = NDArray[np.int64]
Bools = NDArray[np.bool_]
Strategy = Callable[[Int64s, Int64s], Int64s]
"""(requested with the pod, allocatable, never 0), int64[k, n] each → int64[k, n] of 0..100."""

_TYPES = ("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio")

_MULTIPLIABLE = 2**56
"""Amounts below this can be multiplied by 100 within int64."""
_MAX_BITS = 14
"""The number of resources that fit into a code as bits."""
_BITS = 2 << np.arange(_MAX_BITS, dtype=np.int64)
_MAX_PATTERNS = 4096
"""After this number of different sets of bits that do not fit into a code, their numbering begins
again: pods of new templates bring new ones for as long as the process runs."""


class RatioParameters(msgspec.Struct, rename="camel", forbid_unknown_fields=True, frozen=True):
    """Parameters of RequestedToCapacityRatio."""

    shape: tuple[ShapePoint, ...] = ()


class ScoringStrategy(msgspec.Struct, rename="camel", forbid_unknown_fields=True, frozen=True):
    """The scoring function, and the resources it covers. The type has no default."""

    type: str = ""
    resources: tuple[ResourceSpec, ...] = ()
    requested_to_capacity_ratio: RatioParameters | None = None


class NodeResourcesFitArgs(Arguments, frozen=True):
    """Upstream's NodeResourcesFitArgs; validated as in validation_pluginargs.go."""

    ignored_resources: tuple[str, ...] = ()
    ignored_resource_groups: tuple[str, ...] = ()
    scoring_strategy: ScoringStrategy = ScoringStrategy("LeastAllocated")

    def problems(self) -> Iterator[InputError]:
        """The rules of ValidateNodeResourcesFitArgs."""
        for i, name in enumerate(self.ignored_resources):
            yield from not_qualified(f"ignoredResources[{i}]", name)
        for i, group in enumerate(self.ignored_resource_groups):
            where = f"ignoredResourceGroups[{i}]"
            if "/" in group:
                yield InputError(where, f"{group!r} has a '/'", "name the group alone")
            else:
                yield from not_qualified(where, group)
        yield from _strategy_problems(self.scoring_strategy)


class NodeResourcesFit:
    """Filter by free resources (a code is a set of bits), Score by a strategy."""

    name = "NodeResourcesFit"
    wakes_on = (
        ClusterEvent.ASSIGNED_POD_DELETE,
        ClusterEvent.ASSIGNED_POD_UPDATE,
        ClusterEvent.NODE_ADD,
        ClusterEvent.NODE_UPDATE_ALLOCATABLE,
        ClusterEvent.POD_UPDATE,
    )
    Args = NodeResourcesFitArgs

    def __init__(self, args: NodeResourcesFitArgs | None = None) -> None:
        args = args or NodeResourcesFitArgs()
        self._ignored = frozenset(args.ignored_resources)
        self._ignored_groups = frozenset(args.ignored_resource_groups)
        strategy = args.scoring_strategy
        resources = ResourceSpec.defaulted(strategy.resources)
        self._scored = ShapeCache(lambda pod: asked(resources, requests_of(pod.spec).scored))
        self._requests = ShapeCache(self._filtered_requests)
        self._strategy = _strategy_function(strategy)
        self._pattern_bits: list[int] = []
        self._pattern_codes: dict[int, int] = {}
        self._counts_zero = strategy.type != "RequestedToCapacityRatio"

    sign = staticmethod(signed_by_spec)

    def filter(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> IntColumn | None:
        """Codes are sets of bits. Bit 0: a request is larger than the whole node. Bit 1 + i:
        request i of ``_filtered_requests`` does not fit. None if all nodes pass."""
        requests = self._requests(pod)
        if (single_node := nodes.alone(requests.names)) is not None:
            code = _single_node_code(requests.numbers, single_node)
            if not code:
                return None
            if len(requests.names) <= _MAX_BITS:
                return np.array([code], dtype=np.int64)
        places = nodes.offered(requests.names)
        if len(places) < len(requests.names):
            return self._codes_of_unoffered(requests, places, nodes)
        allocatable, requested, _ = nodes.books(requests.names)
        lacking = requests.amounts > allocatable - requested
        if not np.count_nonzero(lacking):
            return None
        codes = _bits(lacking, requests.amounts, allocatable, places)
        return codes if len(lacking) <= _MAX_BITS else self._pattern_numbers(codes, places)

    def explain(self, cycle: Cycle, pod: Pod, code: int) -> Status:
        """All resources that do not fit, in upstream's order and words."""
        names = self._requests(pod).names
        if len(names) > _MAX_BITS:
            code = self._pattern_bits[code - 1]
        bits = f"{code >> 1:b}"[::-1]
        lacking = [name for name, bit in zip(names, bits, strict=False) if bit == "1"]
        reasons = ["Too many pods" if name == PODS else f"Insufficient {name}" for name in lacking]
        return Status.unresolvable(*reasons) if code & 1 else Status.unschedulable(*reasons)

    def score(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> IntColumn:
        """The weighted mean of the strategy's scores over the resources that the node has."""
        scored = self._scored(pod)
        if not scored.names:
            return np.zeros(len(nodes), dtype=np.int64)
        if (
            self._strategy is _least_allocated
            and (single_node := nodes.alone(scored.names)) is not None
        ):
            allowed, _, used = single_node
            if 0 not in allowed:
                return np.array([_least_allocated_single(scored, allowed, used)], dtype=np.int64)
        allocatable, _, nonzero_requested = nodes.books(scored.names)
        requested = nonzero_requested + scored.amounts
        everywhere = np.count_nonzero(allocatable) == allocatable.size
        scores = self._strategy(
            requested, allocatable if everywhere else np.where(allocatable == 0, 1, allocatable)
        )
        weight: Int64s | int
        if everywhere and (self._counts_zero or np.count_nonzero(scores) == scores.size):
            total, weight = _weighted_sum(scores, scored.weights), scored.weight
        else:
            counted = allocatable != 0
            if not self._counts_zero:
                counted &= scores > 0
            weights = np.where(counted, np.array(scored.weights)[:, None], 0)
            total, weight = (scores * weights).sum(axis=0), np.maximum(weights.sum(axis=0), 1)
        if self._counts_zero:
            return quotients(total, weight)
        # math.Round: halves away from zero, on the float quotient.
        return np.floor(total / weight + 0.5).astype(np.int64)

    def hint(self, cycle: Cycle, pod: Pod, change: Change) -> bool:
        """True if the pod fits on a changed node, or would after preemption. (Upstream wakes it for
        every deleted pod.)"""
        if change.event is ClusterEvent.POD_UPDATE:
            return True
        if change.nodes.table.selection(self._requests(pod).names) is None:
            return False  # no node offers one of the resources
        if self._fits_on_one(pod, change.nodes):
            return True
        if change.event is ClusterEvent.ASSIGNED_POD_UPDATE:
            return False  # usually a pod whose deletion begins: only its end frees resources
        return self._fits_on_one(pod, change.nodes.without_lesser(pod))

    @staticmethod
    def hint_sign(pod: Pod) -> Hashable:
        """All that ``hint`` reads of a pod."""
        return pod.spec.key, pod.priority, pod.preemption_policy

    def drop_codes(self) -> bool:
        """Begins the numbering of sets of bits again once there are too many."""
        if len(self._pattern_bits) <= _MAX_PATTERNS:
            return False
        self._pattern_bits, self._pattern_codes = [], {}
        return True

    def _fits_on_one(self, pod: Pod, nodes: NodeView) -> bool:
        """Whether ``filter`` lets one of the nodes pass, or there are none. All resources have been
        offered."""
        requests = self._requests(pod)
        if (single_node := nodes.alone(requests.names)) is not None:
            return not _single_node_code(requests.numbers, single_node)
        allocatable, requested, _ = nodes.books(requests.names)
        lacking = np.any(requests.amounts > allocatable - requested, axis=0)
        return not lacking.size or not lacking.all()

    def _codes_of_unoffered(
        self, requests: ScoredRequests, places: Sequence[int], nodes: NodeView
    ) -> IntColumn:
        """The codes of a pod that requests resources without a column. Only those at
        ``places`` need the nodes. A pod may name thousands of resources."""
        amounts = requests.amounts[list(places)]
        allocatable, requested, _ = nodes.books(tuple(requests.names[place] for place in places))
        lacking = amounts > allocatable - requested
        offered_places = set(places)
        unoffered = "".join("0" if n in offered_places else "1" for n in range(len(requests.names)))
        always = int(unoffered[::-1], 2) << 1 | 1
        if len(requests.names) > _MAX_BITS:
            codes = _bits(lacking, amounts, allocatable, range(len(places)))
            return self._pattern_numbers(codes, places, always)
        return _bits(lacking, amounts, allocatable, places) | always

    def _pattern_numbers(self, codes: Int64s, places: Sequence[int], always: int = 0) -> Int64s:
        """A number for each set of bits, for pods with more resources than bits. Bit 1 + i of a
        code stands for ``places[i]``; ``always`` are bits that every row has."""
        distinct, where = np.unique(codes, return_inverse=True)
        numbers = np.zeros(len(distinct), dtype=np.int64)
        for index, code in enumerate(distinct.tolist()):
            bits = sum(2 << place for n, place in enumerate(places) if code >> (1 + n) & 1)
            pattern = code & 1 | bits | always
            if pattern and pattern not in self._pattern_codes:
                self._pattern_bits.append(pattern)
                self._pattern_codes[pattern] = len(self._pattern_bits)
            numbers[index] = self._pattern_codes.get(pattern, 0)
        return numbers[where]

    def _filtered_requests(self, pod: Pod) -> ScoredRequests:
        """The requests that Filter compares: the number of pods, cpu, memory, ephemeral-storage,
        then scalars by name; without zeros and ignored resources."""
        effective = requests_of(pod.spec).effective
        scalars = sorted(
            name for name in effective if is_scalar(name) and not self._is_ignored(name)
        )
        names = [n for n in (CPU, MEMORY, EPHEMERAL_STORAGE) if effective.get(n, 0) > 0]
        names += [name for name in scalars if effective[name]]
        resources = tuple(ResourceSpec(name, 1) for name in (PODS, *names))
        return asked(resources, {**effective, PODS: 1})

    def _is_ignored(self, name: str) -> bool:
        return is_extended(name) and (
            name in self._ignored or name.split("/")[0] in self._ignored_groups
        )


def _bits(lacking: Bools, amounts: Int64s, allocatable: Int64s, places: Sequence[int]) -> Int64s:
    """One bit for each resource that a node lacks, at 1 + its place; bit 0 if a request is larger
    than the whole node (as upstream, not for the number of pods)."""
    if len(lacking) <= _MAX_BITS:
        codes: Int64s = _BITS[list(places)] @ lacking  # a sum of different bits
    else:
        shifts = np.array([min(1 + place, 62) for place in places])[:, None]
        codes = np.bitwise_or.reduce(lacking.astype(np.int64) << shifts)
    if np.count_nonzero(larger := amounts[1:] > allocatable[1:]):
        codes |= (lacking[1:] & larger).any(axis=0)
    return codes


def _single_node_code(numbers: tuple[int, ...], books: list[list[int]]) -> int:
    """The code of one node (see ``filter``), 0 if everything fits."""
    allocatable, requested, _ = books
    code = 0
    for index, (number, room, used) in enumerate(zip(numbers, allocatable, requested, strict=True)):
        free = room - used
        if number <= free <= INT64_MAX:
            continue
        if number > wrapped(free):
            code |= 2 << index
            if index and number > room:
                code |= 1
    return code


def _least_allocated_single(
    scored: ScoredRequests, allocatable: list[int], nonzero_requested: list[int]
) -> int:
    """The LeastAllocated score of one node; a resource without room scores 0."""
    total = 0
    for number, weight, room, used in zip(
        scored.numbers, scored.weights, allocatable, nonzero_requested, strict=True
    ):
        free = room - used - number
        if 0 <= free <= room < _MULTIPLIABLE:
            total += free * 100 // room * weight
        elif (requested := wrapped(used + number)) <= room:
            total += percent(wrapped(room - requested), room) * weight
    return quotient(wrapped(total), scored.weight)


def _strategy_function(strategy: ScoringStrategy) -> Strategy:
    if strategy.type == "LeastAllocated":
        return _least_allocated
    if strategy.type == "MostAllocated":
        return _most_allocated
    assert strategy.requested_to_capacity_ratio is not None
    return _capacity_ratio(strategy.requested_to_capacity_ratio.shape)


def _weighted_sum(scores: Int64s, weights: tuple[int, ...]) -> Int64s:
    total: Int64s = scores[0] if weights[0] == 1 else scores[0] * weights[0]
    for index in range(1, len(weights)):
        total += scores[index] if weights[index] == 1 else scores[index] * weights[index]
    return total


def _least_allocated(requested: Int64s, allocatable: Int64s) -> Int64s:
    """100 for an empty node, 0 for a full one (upstream: least_allocated.go)."""
    scores = allocatable - requested
    np.putmask(scores, requested > allocatable, 0)
    return percents(scores, allocatable)


def _most_allocated(requested: Int64s, allocatable: Int64s) -> Int64s:
    """0 for an empty node, 100 for a full one (upstream: most_allocated.go)."""
    return percents(np.minimum(requested, allocatable), allocatable)


def _capacity_ratio(shape: tuple[ShapePoint, ...]) -> Strategy:
    """The shape's piecewise linear function of the utilization in whole percent; above capacity
    counts as 100 (upstream: requested_to_capacity_ratio.go, helper/shape_score.go). As there,
    integer division truncates."""
    line = np.array([_interpolated(shape, percent) for percent in range(101)], dtype=np.int64)

    def scores(requested: Int64s, allocatable: Int64s) -> Int64s:
        # Beyond its ends the function is constant.
        used = np.clip(percents(requested.copy(), allocatable), 0, 100)
        return np.asarray(line[np.where(requested > allocatable, 100, used)])

    return scores


def _interpolated(shape: tuple[ShapePoint, ...], percent: int) -> int:
    if percent <= shape[0].utilization:
        return shape[0].score * 10
    for low, high in pairwise(shape):
        if percent <= high.utilization:
            rise = (high.score - low.score) * 10 * (percent - low.utilization)
            run = high.utilization - low.utilization
            return low.score * 10 + (abs(rise) // run) * (1 if rise > 0 else -1)
    return shape[-1].score * 10


def _strategy_problems(strategy: ScoringStrategy) -> Iterator[InputError]:
    where = "scoringStrategy"
    yield from not_one_of(f"{where}.type", strategy.type, _TYPES)
    for i, resource in enumerate(strategy.resources):
        if resource.weight:  # 0 stands for 1
            yield from outside(f"{where}.resources[{i}].weight", resource.weight, 1, 100)
    ratio = strategy.requested_to_capacity_ratio
    where = f"{where}.requestedToCapacityRatio"
    if strategy.type != _TYPES[2]:
        if ratio is not None:
            yield InputError(where, f"only {_TYPES[2]} takes it", "remove it, or change the type")
    elif ratio is None:
        yield InputError(where, f"{_TYPES[2]} needs it", "add its shape")
    else:
        yield from _shape_problems(f"{where}.shape", ratio.shape)


def _shape_problems(where: str, shape: tuple[ShapePoint, ...]) -> Iterator[InputError]:
    if not shape:
        yield InputError(where, "there is no point", "add one, such as {utilization: 0, score: 0}")
    for i, point in enumerate(shape):
        yield from outside(f"{where}[{i}].utilization", point.utilization, 0, 100)
        yield from outside(f"{where}[{i}].score", point.score, 0, 10)
    for i, (low, high) in enumerate(pairwise(shape), 1):
        if low.utilization >= high.utilization:
            yield InputError(
                f"{where}[{i}].utilization",
                f"{high.utilization} is not above {low.utilization}",
                "sort the points by utilization",
            )
