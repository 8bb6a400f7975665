"""NodeResourcesBalancedAllocation: nodes whose resources the pod would make more evenly used.

Upstream: plugins/noderesources/balanced_allocation.go.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from eventsched.domain.errors import InputError
from eventsched.domain.int64 import from_float, from_floats, quotient, quotients, wrapped
from eventsched.domain.objects import Pod
from eventsched.domain.objects.pod_requests import of as requests_of
from eventsched.scheduling.config.pluginargs import Arguments, outside
from eventsched.scheduling.framework import Cycle, IntColumn, NodeView, Status, signed_by_spec
from eventsched.scheduling.rules.resource_scoring import ResourceSpec, ShapeCache, asked


class NodeResourcesBalancedAllocationArgs(Arguments, frozen=True):
    """The resources to balance; a weight other than 1 is refused, as upstream does."""

    resources: tuple[ResourceSpec, ...] = ()

    def problems(self) -> Iterator[InputError]:
        """The rules of ValidateNodeResourcesBalancedAllocationArgs."""
        names = [each.name for each in self.resources]
        for i, each in enumerate(self.resources):
            if each.name in names[:i]:
                where = f"resources[{i}].name"
                yield InputError(where, f"{each.name} is there twice", "name it once")
            if each.weight:  # 0 stands for 1
                yield from outside(f"resources[{i}].weight", each.weight, 1, 1)


class NodeResourcesBalancedAllocation:
    """Score by the spread of the utilizations before and after."""

    name = "NodeResourcesBalancedAllocation"
    Args = NodeResourcesBalancedAllocationArgs

    def __init__(self, args: NodeResourcesBalancedAllocationArgs | None = None) -> None:
        resources = ResourceSpec.defaulted(args.resources if args else ())
        self._scored = ShapeCache(lambda pod: asked(resources, requests_of(pod.spec).effective))
        self._asks = ShapeCache(lambda pod: bool(self._scored(pod).amounts.any()))

    sign = staticmethod(signed_by_spec)

    def pre_score(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> Status | None:
        """A pod that requests none of the resources is not scored: it would pile up on one node."""
        return None if self._asks(pod) else Status.skip()

    def score(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> IntColumn:
        """75 where the pod changes nothing, up to 100 where it evens out, down to 50 where not."""
        if not self._asks(pod):  # also where PreScore is not enabled
            return np.zeros(len(nodes), dtype=np.int64)
        scored = self._scored(pod)
        if len(scored.names) == 2 and (alone := nodes.alone(scored.names)) is not None:
            allowed, used, _ = alone
            if 0 not in allowed:
                return np.array([_alone(scored.numbers, allowed, used)], dtype=np.int64)
        allocatable, requested, _ = nodes.books(scored.names)
        everywhere = np.count_nonzero(allocatable) == allocatable.size
        fractions = np.empty((2, *allocatable.shape))  # with and without the pod
        fractions[0] = requested + scored.amounts
        fractions[1] = requested
        fractions /= allocatable if everywhere else np.where(allocatable == 0, 1, allocatable)
        np.minimum(fractions, 1.0, out=fractions)
        if everywhere and len(scored.names) == 2:
            deviation = fractions[:, 0] - fractions[:, 1]
            np.abs(deviation, out=deviation)
            deviation /= 2
        else:
            present = allocatable != 0
            deviation = np.stack([_deviation(each, present) for each in fractions])
        evenness = from_floats((1 - deviation) * 100)
        scores: NDArray[np.int64] = evenness[0]
        scores -= evenness[1]
        scores += 50
        scores = quotients(scores, 2)
        scores += 50
        return scores


def _alone(numbers: tuple[int, ...], allocatable: list[int], requested: list[int]) -> int:
    """The score of one node with two resources, by the same operations on the same floats."""
    (one, other), (used_one, used_other) = numbers, requested
    room_one, room_other = map(float, allocatable)
    evenness = _evenness(
        wrapped(used_one + one) / room_one, wrapped(used_other + other) / room_other
    )
    evenness -= _evenness(used_one / room_one, used_other / room_other)
    return 50 + quotient(wrapped(50 + evenness), 2)


def _evenness(first: float, second: float) -> int:
    """100 for two equal fractions of what there is, 50 for one of all and one of nothing."""
    first = first if first < 1.0 else 1.0
    second = second if second < 1.0 else 1.0
    return from_float((1 - abs((first - second) / 2)) * 100)


def _deviation(fractions: NDArray[np.float64], present: NDArray[np.bool_]) -> NDArray[np.float64]:
    """The standard deviation over the resources that a node has, in upstream's order of operations,
    so that no last bit differs; half the distance where there are two, 0 where there are fewer."""
    number = present.sum(axis=0)
    total = np.zeros(fractions.shape[1])
    for index in range(len(fractions)):
        total += np.where(present[index], fractions[index], 0.0)
    mean = total / np.maximum(number, 1)
    squares = np.zeros(fractions.shape[1])
    for index in range(len(fractions)):
        distance = fractions[index] - mean
        squares += np.where(present[index], distance * distance, 0.0)
    deviation = np.sqrt(squares / np.maximum(number, 1))
    highest = np.where(present, fractions, -np.inf).max(axis=0)
    lowest = np.where(present, fractions, np.inf).min(axis=0)
    deviation = np.where(number == 2, (highest - lowest) / 2, deviation)
    return np.where(number < 2, 0.0, deviation)
