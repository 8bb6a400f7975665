"""NodeResourcesBalancedAllocation: prefers nodes whose utilizations the pod would balance.

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

_ONE, _TWO, _HUNDRED = np.array(1.0), np.array(2.0), np.array(100.0)
_FIFTY = np.array(50)
"""With arrays, numpy takes half the time that it takes with numbers, if there are few rows."""


class NodeResourcesBalancedAllocationArgs(Arguments, frozen=True):
    """The resources to balance; a weight other than 1 is refused, as upstream does."""

    resources: tuple[ResourceSpec, ...] = ()

    def problems(self) -> Iterator[InputError]:
        """The rules of ValidateNodeResourcesBalancedAllocationArgs."""
        names = [resource.name for resource in self.resources]
        for i, resource in enumerate(self.resources):
            if resource.name in names[:i]:
                where = f"resources[{i}].name"
                yield InputError(where, f"{resource.name} is there twice", "name it once")
            if resource.weight:  # 0 stands for 1
                yield from outside(f"resources[{i}].weight", resource.weight, 1, 1)


class NodeResourcesBalancedAllocation:
    """Score by the spread of the resources' utilizations before and after the pod."""

    name = "NodeResourcesBalancedAllocation"
    Args = NodeResourcesBalancedAllocationArgs

    def __init__(self, args: NodeResourcesBalancedAllocationArgs | None = None) -> None:
        resources = ResourceSpec.defaulted(args.resources if args else ())
        self._scored = ShapeCache(lambda pod: asked(resources, requests_of(pod.spec).effective))
        self._requests_any = ShapeCache(lambda pod: bool(self._scored(pod).amounts.any()))

    sign = staticmethod(signed_by_spec)

    def pre_score(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> Status | None:
        """Skips a pod that requests none of the resources; such pods would pile up on one node."""
        return None if self._requests_any(pod) else Status.skip()

    def score(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> IntColumn:
        """75 if the pod does not change the balance; up to 100 if better, down to 50 if worse."""
        if not self._requests_any(pod):  # also if PreScore is not enabled
            return np.zeros(len(nodes), dtype=np.int64)
        scored = self._scored(pod)
        if len(scored.names) == 2 and (single_node := nodes.alone(scored.names)) is not None:
            allowed, used, _ = single_node
            if 0 not in allowed:
                return np.array([_single_node_score(scored.numbers, allowed, used)], dtype=np.int64)
        allocatable, requested, _ = nodes.books(scored.names)
        all_offer = np.count_nonzero(allocatable) == allocatable.size
        fractions = np.empty((2, *allocatable.shape))  # with and without the pod
        fractions[0] = requested + scored.amounts
        fractions[1] = requested
        fractions /= allocatable if all_offer else np.where(allocatable == 0, 1, allocatable)
        np.minimum(fractions, 1.0, out=fractions)
        if all_offer and len(scored.names) == 2:
            deviation = fractions[:, 0] - fractions[:, 1]
            np.abs(deviation, out=deviation)
            deviation /= _TWO
        else:
            offered = allocatable != 0
            deviation = np.stack([_deviation(fraction, offered) for fraction in fractions])
        evenness = from_floats((_ONE - deviation) * _HUNDRED)
        scores: NDArray[np.int64] = evenness[0]
        scores -= evenness[1]
        scores += _FIFTY
        scores = quotients(scores, 2)
        scores += _FIFTY
        return scores


def _single_node_score(
    numbers: tuple[int, ...], allocatable: list[int], requested: list[int]
) -> int:
    """The score of one node with two resources: the same operations on the same floats."""
    (one, other), (used_one, used_other) = numbers, requested
    room_one, room_other = map(float, allocatable)
    evenness = _evenness(
        wrapped(used_one + one) / room_one, wrapped(used_other + other) / room_other
    )
    evenness -= _evenness(used_one / room_one, used_other / room_other)
    return 50 + quotient(wrapped(50 + evenness), 2)


def _evenness(first: float, second: float) -> int:
    """100 for two equal utilizations, 50 for a full and an empty resource."""
    first = first if first < 1.0 else 1.0
    second = second if second < 1.0 else 1.0
    return from_float((1 - abs((first - second) / 2)) * 100)


def _deviation(fractions: NDArray[np.float64], offered: NDArray[np.bool_]) -> NDArray[np.float64]:
    """The standard deviation over the resources that a node has; half the distance for two, 0 for
    fewer. The operations have upstream's order, so that the floats are equal to the last bit."""
    number = offered.sum(axis=0)
    total = np.zeros(fractions.shape[1])
    for index in range(len(fractions)):
        total += np.where(offered[index], fractions[index], 0.0)
    mean = total / np.maximum(number, 1)
    squares = np.zeros(fractions.shape[1])
    for index in range(len(fractions)):
        distance = fractions[index] - mean
        squares += np.where(offered[index], distance * distance, 0.0)
    deviation = np.sqrt(squares / np.maximum(number, 1))
    highest = np.where(offered, fractions, -np.inf).max(axis=0)
    lowest = np.where(offered, fractions, np.inf).min(axis=0)
    deviation = np.where(number == 2, (highest - lowest) / 2, deviation)
    return np.where(number < 2, 0.0, deviation)
