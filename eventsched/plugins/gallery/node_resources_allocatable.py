"""NodeResourcesAllocatable: prefers the smallest nodes, or the largest.

The rule of sigs.k8s.io/scheduler-plugins, pkg/noderesources/allocatable.go: the weighted mean of
a node's allocatable resources, regardless of usage; negative in mode Least. Arguments and their
defaults are those of apis/config/v1, the checks those of apis/config/validation.
"""

from collections.abc import Hashable, Iterator

import msgspec
import numpy as np

from eventsched.domain.errors import InputError
from eventsched.domain.objects import CPU, EPHEMERAL_STORAGE, MEMORY, Pod, is_scalar
from eventsched.scheduling.config.pluginargs import Arguments, not_one_of, outside
from eventsched.scheduling.config.sections import Int64
from eventsched.scheduling.framework import (
    Cycle,
    DependsOn,
    IntColumn,
    NodeView,
    Normalization,
)

LEAST, MOST = "Least", "Most"
_LARGEST = 2**63 - 1


class WeightedResource(msgspec.Struct, rename="camel", forbid_unknown_fields=True, frozen=True):
    """A resource and the weight of one unit (a millicore, a byte, or one)."""

    name: str = ""
    weight: Int64 = 0


_DEFAULT = (WeightedResource(CPU, 2**20), WeightedResource(MEMORY, 1))
"""One millicore weighs as much as one MiB."""


class NodeResourcesAllocatableArgs(Arguments, frozen=True):
    """Upstream's NodeResourcesAllocatableArgs. An empty list and an empty mode stand for the
    defaults."""

    mode: str = ""
    resources: tuple[WeightedResource, ...] = ()

    def problems(self) -> Iterator[InputError]:
        """The rules of ValidateNodeResourcesAllocatableArgs, and an overflow of the sum of
        weights."""
        for i, resource in enumerate(self.resources):
            yield from outside(f"resources[{i}].weight", resource.weight, 1)
        if self.mode:
            yield from not_one_of("mode", self.mode, (LEAST, MOST))
        if sum(max(resource.weight, 0) for resource in self.resources) > _LARGEST:
            problem = f"the weights add up to more than {_LARGEST}"
            yield InputError("resources", problem, "divide all of them by the same number")


class NodeResourcesAllocatable:
    """Score by the nodes' allocatable resources."""

    name = "NodeResourcesAllocatable"
    depends_on = DependsOn.NODE
    normalization = Normalization.MIN_MAX
    Args = NodeResourcesAllocatableArgs

    def __init__(self, args: NodeResourcesAllocatableArgs | None = None) -> None:
        args = args or NodeResourcesAllocatableArgs()
        # If a resource is listed twice the last weight counts, as upstream (a map).
        weights = {resource.name: resource.weight for resource in args.resources or _DEFAULT}
        scored = {name: weight for name, weight in weights.items() if _is_scored(name)}
        self._names = tuple(scored)
        self._weights = np.array(list(scored.values()), dtype=np.int64)[:, None]
        self._weight = sum(weights.values())
        self._direction = 1 if args.mode == MOST else -1

    def sign(self, pod: Pod) -> Hashable:
        """The same for all pods."""
        return ()

    def score(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> IntColumn:
        """The weighted mean, truncated towards 0. As upstream, the sum wraps at 64 bits."""
        if not self._names:
            return np.zeros(len(nodes), dtype=np.int64)
        offered = nodes.allocatable(self._names)
        total = (self._direction * offered * self._weights).sum(axis=0, dtype=np.int64)
        quotient = total // self._weight
        return np.asarray(quotient + ((total < 0) & (total % self._weight != 0)))


def _is_scored(name: str) -> bool:
    """Whether upstream reads the resource's amount. All others, such as the number of pods, count
    as 0 on every node."""
    return name in (CPU, MEMORY, EPHEMERAL_STORAGE) or is_scalar(name)
