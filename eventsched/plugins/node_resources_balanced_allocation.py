"""NodeResourcesBalancedAllocation: nodes whose resources the pod would make more evenly used.

Upstream: plugins/noderesources/balanced_allocation.go.
"""

from collections.abc import Hashable

import msgspec
import numpy as np
from numpy.typing import NDArray

from eventsched.domain.objects import Pod
from eventsched.domain.requests import PodRequests
from eventsched.domain.requests import of as requests_of
from eventsched.scheduling.framework import Cycle, IntColumn, NodeView, Status
from eventsched.scheduling.utilization import ResourceSpec, scored_columns


class NodeResourcesBalancedAllocationArgs(
    msgspec.Struct, rename="camel", forbid_unknown_fields=True, frozen=True
):
    """The resources to balance; a weight other than 1 is refused, as upstream does."""

    resources: tuple[ResourceSpec, ...] = ()

    def __post_init__(self) -> None:
        names = [each.name for each in self.resources]
        for index, each in enumerate(self.resources):
            if each.name in names[:index]:
                raise ValueError(f"resources: {each.name} stands there twice")
            if each.weight not in (0, 1):
                raise ValueError(f"resources: weight {each.weight} of {each.name} must be 1")


class NodeResourcesBalancedAllocation:
    """Score by the spread of the utilizations before and after."""

    name = "NodeResourcesBalancedAllocation"
    Args = NodeResourcesBalancedAllocationArgs

    def __init__(self, args: NodeResourcesBalancedAllocationArgs | None = None) -> None:
        self._resources = ResourceSpec.defaulted(args.resources if args else ())

    def sign(self, pod: Pod) -> Hashable:
        """The pod's shape."""
        return pod.spec.key

    def pre_score(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> Status | None:
        """A pod that requests none of the resources is not scored: it would pile up on one node."""
        requests = self._requests(pod).effective
        if any(requests.get(each.name, 0) for each in self._resources):
            return None
        return Status.skip()

    def score(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> IntColumn:
        """75 where the pod changes nothing, towards 100 where it evens out, towards 50 where not."""
        columns = scored_columns(
            self._resources, self._requests(pod).effective, nodes, nodes.requested
        )
        if columns is None:
            return np.full(len(nodes), 75, dtype=np.int64)
        capacity = np.where(columns.present, columns.allocatable, 1).astype(np.float64)
        after = _evenness(columns.with_pod / capacity, columns.present)
        before = _evenness(columns.without_pod / capacity, columns.present)
        return 50 + (50 + after - before) // 2

    def _requests(self, pod: Pod) -> PodRequests:
        return requests_of(pod.spec)


def _evenness(fractions: NDArray[np.float64], present: NDArray[np.bool_]) -> NDArray[np.int64]:
    """(1 - standard deviation) * 100, truncated, over the resources that a node has. Computed in
    upstream's order of operations, so that no last bit differs."""
    fractions = np.minimum(fractions, 1.0)
    if len(fractions) == 2 and present.all():
        return ((1 - np.abs((fractions[0] - fractions[1]) / 2)) * 100).astype(np.int64)
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
    highest = np.where(present, fractions, -1.0).max(axis=0)
    lowest = np.where(present, fractions, 2.0).min(axis=0)
    deviation = np.where(number == 2, (highest - lowest) / 2, deviation)
    deviation = np.where(number < 2, 0.0, deviation)
    return ((1 - deviation) * 100).astype(np.int64)
