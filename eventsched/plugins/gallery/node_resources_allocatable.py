"""NodeResourcesAllocatable: the smallest nodes first, or the largest.

The rule of sigs.k8s.io/scheduler-plugins, pkg/noderesources/allocatable.go: the weighted mean of
what a node offers, whatever its pods request; negative in mode Least. Arguments and their defaults
are those of apis/config/v1, the checks those of apis/config/validation.
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
    """A resource and what one unit of it (a millicore, a byte, one) weighs."""

    name: str = ""
    weight: Int64 = 0


_DEFAULT = (WeightedResource(CPU, 2**20), WeightedResource(MEMORY, 1))
"""A millicore weighs as much as a MiB."""


class NodeResourcesAllocatableArgs(Arguments, frozen=True):
    """Upstream's NodeResourcesAllocatableArgs. An empty list and an empty mode stand for the
    defaults."""

    mode: str = ""
    resources: tuple[WeightedResource, ...] = ()

    def problems(self) -> Iterator[InputError]:
        """The rules of ValidateNodeResourcesAllocatableArgs, and a sum of weights that int64 does
        not hold."""
        for i, resource in enumerate(self.resources):
            yield from outside(f"resources[{i}].weight", resource.weight, 1)
        if self.mode:
            yield from not_one_of("mode", self.mode, (LEAST, MOST))
        if sum(max(resource.weight, 0) for resource in self.resources) > _LARGEST:
            problem = f"the weights add up to more than {_LARGEST}"
            yield InputError("resources", problem, "divide all of them by the same number")


class NodeResourcesAllocatable:
    """Score by what nodes offer."""

    name = "NodeResourcesAllocatable"
    depends_on = DependsOn.NODE
    normalization = Normalization.MIN_MAX
    Args = NodeResourcesAllocatableArgs

    def __init__(self, args: NodeResourcesAllocatableArgs | None = None) -> None:
        given = args or NodeResourcesAllocatableArgs()
        # Of a resource that is named twice the last weight counts, as upstream (a map).
        weights = {each.name: each.weight for each in given.resources or _DEFAULT}
        known = {name: weight for name, weight in weights.items() if _is_scored(name)}
        self._names = tuple(known)
        self._weights = np.array(list(known.values()), dtype=np.int64)[:, None]
        self._weight = sum(weights.values())
        self._sign = 1 if given.mode == MOST else -1

    def sign(self, pod: Pod) -> Hashable:
        """Nothing of the pod matters."""
        return ()

    def score(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> IntColumn:
        """The weighted mean, cut off towards 0; as upstream, the sum wraps at 64 bits."""
        if not self._names:
            return np.zeros(len(nodes), dtype=np.int64)
        offered = nodes.allocatable(self._names)
        total = (self._sign * offered * self._weights).sum(axis=0, dtype=np.int64)
        quotient = total // self._weight
        return np.asarray(quotient + ((total < 0) & (total % self._weight != 0)))


def _is_scored(name: str) -> bool:
    """Whether upstream finds an amount of it on a node; of all others, such as the number of pods,
    every node has 0."""
    return name in (CPU, MEMORY, EPHEMERAL_STORAGE) or is_scalar(name)
