"""NodeResourcesFit: what a pod requests must be free, and how much stays free scores.

Upstream: plugins/noderesources/fit.go and its three scorers.
"""

from collections.abc import Callable, Hashable, Iterator, Sequence
from itertools import pairwise

import msgspec
import numpy as np
from numpy.typing import NDArray

from eventsched.domain.errors import InputError
from eventsched.domain.int64 import (
    LARGEST,
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

_LARGE = 2**56
"""Amounts below can be multiplied by 100 and stay within int64."""
_BITS = 14
"""Resources that have a bit of their own in a code."""


class RatioParameters(msgspec.Struct, rename="camel", forbid_unknown_fields=True, frozen=True):
    """Parameters of RequestedToCapacityRatio."""

    shape: tuple[ShapePoint, ...] = ()


class ScoringStrategy(msgspec.Struct, rename="camel", forbid_unknown_fields=True, frozen=True):
    """How free or full nodes score, over which resources. Whoever gives one names its type."""

    type: str = ""
    resources: tuple[ResourceSpec, ...] = ()
    requested_to_capacity_ratio: RatioParameters | None = None


class NodeResourcesFitArgs(Arguments, frozen=True):
    """Typed args; checked as upstream's validation_pluginargs.go does."""

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
    """Filter by free resources (a code is a set of bits), Score by strategy."""

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
        self._wanted = ShapeCache(self._compared)
        self._strategy = _strategies(strategy)
        self._patterns: list[int] = []
        self._numbers: dict[int, int] = {}
        self._counts_zero = strategy.type != "RequestedToCapacityRatio"

    sign = staticmethod(signed_by_spec)

    def filter(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> IntColumn | None:
        """Bit 0: some request is larger than the whole node; then one bit for each of what is
        compared (see ``_compared``), set where it does not fit."""
        wanted = self._wanted(pod)
        if (alone := nodes.alone(wanted.names)) is not None:
            code = _short_alone(wanted.numbers, alone)
            if not code:
                return None
            if len(wanted.names) <= _BITS:
                return np.array([code], dtype=np.int64)
        places = nodes.offered(wanted.names)
        if len(places) < len(wanted.names):
            return self._refused(wanted, places, nodes)
        allocatable, requested, _ = nodes.books(wanted.names)
        short = wanted.amounts > allocatable - requested
        if not np.count_nonzero(short):
            return None
        codes = _bits(short, wanted.amounts, allocatable, places)
        return codes if len(short) <= _BITS else self._numbered(codes, places)

    def explain(self, cycle: Cycle, pod: Pod, code: int) -> Status:
        """All that does not fit, in upstream's order and words."""
        names = self._wanted(pod).names
        if len(names) > _BITS:
            code = self._patterns[code - 1]
        bits = f"{code >> 1:b}"[::-1]
        short = [name for name, bit in zip(names, bits, strict=False) if bit == "1"]
        reasons = ["Too many pods" if name == PODS else f"Insufficient {name}" for name in short]
        return Status.unresolvable(*reasons) if code & 1 else Status.unschedulable(*reasons)

    def score(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> IntColumn:
        """The weighted mean of the strategy's scores over the resources that a node has."""
        scored = self._scored(pod)
        if not scored.names:
            return np.zeros(len(nodes), dtype=np.int64)
        if self._strategy is _least and (alone := nodes.alone(scored.names)) is not None:
            allowed, _, used = alone
            if 0 not in allowed:
                return np.array([_least_alone(scored, allowed, used)], dtype=np.int64)
        allocatable, _, held = nodes.books(scored.names)
        requested = held + scored.amounts
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
        """A node where the pod fits now, or would after preemption. (Upstream wakes it for every
        pod deleted anywhere.)"""
        if change.event is ClusterEvent.POD_UPDATE:
            return True
        if change.nodes.table.selection(self._wanted(pod).names) is None:
            return False  # it wants what no node has offered
        codes = self.filter(cycle, pod, change.nodes)
        if codes is None or not codes.all():
            return True
        if change.event is ClusterEvent.ASSIGNED_POD_UPDATE:
            return False  # mostly a pod that begins to leave: its end is what counts
        codes = self.filter(cycle, pod, change.nodes.without_lesser(pod))
        return codes is None or not codes.all()

    @staticmethod
    def hint_sign(pod: Pod) -> Hashable:
        """All that ``hint`` reads of a pod."""
        return pod.spec.key, pod.priority, pod.preemption_policy

    def _refused(self, wanted: ScoredRequests, places: Sequence[int], nodes: NodeView) -> IntColumn:
        """The codes of a pod that wants what no node has offered: only what stands at ``places``
        needs a look at the nodes. A pod may name thousands of resources."""
        amounts = wanted.amounts[list(places)]
        allocatable, requested, _ = nodes.books(tuple(wanted.names[place] for place in places))
        short = amounts > allocatable - requested
        known = set(places)
        unknown = "".join("0" if n in known else "1" for n in range(len(wanted.names)))
        always = int(unknown[::-1], 2) << 1 | 1
        if len(wanted.names) > _BITS:
            codes = _bits(short, amounts, allocatable, range(len(places)))
            return self._numbered(codes, places, always)
        return _bits(short, amounts, allocatable, places) | always

    def _numbered(self, codes: Int64s, places: Sequence[int], always: int = 0) -> Int64s:
        """A number for each set of bits: of a pod with many resources the bits are too many. Each
        of the codes' bits stands for one of ``places``; ``always`` are bits that all have."""
        distinct, where = np.unique(codes, return_inverse=True)
        numbers = np.zeros(len(distinct), dtype=np.int64)
        for index, code in enumerate(distinct.tolist()):
            bits = sum(2 << place for n, place in enumerate(places) if code >> (1 + n) & 1)
            pattern = code & 1 | bits | always
            if pattern and pattern not in self._numbers:
                self._patterns.append(pattern)
                self._numbers[pattern] = len(self._patterns)
            numbers[index] = self._numbers.get(pattern, 0)
        return numbers[where]

    def _compared(self, pod: Pod) -> ScoredRequests:
        """What Filter compares: the number of pods, cpu, memory, ephemeral-storage, then scalars
        by name; neither zeros nor ignored ones."""
        effective = requests_of(pod.spec).effective
        scalars = sorted(name for name in effective if is_scalar(name) and not self._skips(name))
        names = [n for n in (CPU, MEMORY, EPHEMERAL_STORAGE) if effective.get(n, 0) > 0]
        names += [name for name in scalars if effective[name]]
        resources = tuple(ResourceSpec(name, 1) for name in (PODS, *names))
        return asked(resources, {**effective, PODS: 1})

    def _skips(self, name: str) -> bool:
        return is_extended(name) and (
            name in self._ignored or name.split("/")[0] in self._ignored_groups
        )


def _bits(short: Bools, amounts: Int64s, allocatable: Int64s, places: Sequence[int]) -> Int64s:
    """One bit for each resource that a node is short of, at 1 + its place; bit 0 where the node is
    too small for one of them (upstream does not look at the number of pods so)."""
    codes = np.zeros(short.shape[1], dtype=np.int64)
    codes |= (short[1:] & (amounts[1:] > allocatable[1:])).any(axis=0)
    for place, each in zip(places, short, strict=True):
        codes |= each.astype(np.int64) << min(1 + place, 62)
    return codes


def _short_alone(numbers: tuple[int, ...], books: list[list[int]]) -> int:
    """The code of one node (see ``filter``), 0 where all fits."""
    allocatable, requested, _ = books
    code = 0
    for index, (number, room, used) in enumerate(zip(numbers, allocatable, requested, strict=True)):
        free = room - used
        if number <= free <= LARGEST:
            continue
        if number > wrapped(free):
            code |= 2 << index
            if index and number > room:
                code |= 1
    return code


def _least_alone(scored: ScoredRequests, allocatable: list[int], held: list[int]) -> int:
    """LeastAllocated of one node; no room is 0."""
    total = 0
    for number, weight, room, used in zip(
        scored.numbers, scored.weights, allocatable, held, strict=True
    ):
        free = room - used - number
        if 0 <= free <= room < _LARGE:
            total += free * 100 // room * weight
        elif (requested := wrapped(used + number)) <= room:
            total += percent(wrapped(room - requested), room) * weight
    return quotient(wrapped(total), scored.weight)


def _strategies(strategy: ScoringStrategy) -> Strategy:
    if strategy.type == "LeastAllocated":
        return _least
    if strategy.type == "MostAllocated":
        return _most
    assert strategy.requested_to_capacity_ratio is not None
    return _ratio(strategy.requested_to_capacity_ratio.shape)


def _weighted_sum(scores: Int64s, weights: tuple[int, ...]) -> Int64s:
    total: Int64s = scores[0] * weights[0]
    for index in range(1, len(weights)):
        total += scores[index] if weights[index] == 1 else scores[index] * weights[index]
    return total


def _least(requested: Int64s, allocatable: Int64s) -> Int64s:
    """100 for an empty node, 0 for a full one (upstream: least_allocated.go)."""
    scores = allocatable - requested
    np.putmask(scores, requested > allocatable, 0)
    return percents(scores, allocatable)


def _most(requested: Int64s, allocatable: Int64s) -> Int64s:
    """0 for an empty node, 100 for a full one (upstream: most_allocated.go)."""
    return percents(np.minimum(requested, allocatable), allocatable)


def _ratio(shape: tuple[ShapePoint, ...]) -> Strategy:
    """The broken line at the utilization in whole percent; beyond capacity counts as 100 (upstream:
    requested_to_capacity_ratio.go, helper/shape_score.go). Integer division truncates there."""
    line = np.array([_on_line(shape, percent) for percent in range(101)], dtype=np.int64)

    def scores(requested: Int64s, allocatable: Int64s) -> Int64s:
        # Beyond its ends the line is level.
        used = np.clip(percents(requested.copy(), allocatable), 0, 100)
        return np.asarray(line[np.where(requested > allocatable, 100, used)])

    return scores


def _on_line(shape: tuple[ShapePoint, ...], percent: int) -> int:
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
