"""Requested against allocatable, over the resources that a plugin scores.

Shared by NodeResourcesFit and NodeResourcesBalancedAllocation; upstream:
plugins/noderesources/resource_allocation.go.
"""

from collections.abc import Callable, Iterator
from typing import Generic, NamedTuple, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from eventsched.domain.errors import InputError
from eventsched.domain.objects import CPU, MEMORY, PODS, Pod, Resources, is_scalar, labels

Int64s = NDArray[np.int64]
T = TypeVar("T")


class ResourceSpec(msgspec.Struct, rename="camel", forbid_unknown_fields=True, frozen=True):
    """A resource to score, and its weight; 0 stands for the default, 1."""

    name: str = ""
    weight: int = 0

    @staticmethod
    def defaulted(resources: tuple["ResourceSpec", ...]) -> tuple["ResourceSpec", ...]:
        """cpu and memory where none are named; weight 1 where none is given. The number of pods is
        never scored, also where it is named (upstream finds no such scalar resource)."""
        named = resources or (ResourceSpec(CPU), ResourceSpec(MEMORY))
        return tuple(ResourceSpec(r.name, r.weight or 1) for r in named if r.name != PODS)


class ScoredRequests(NamedTuple):
    """Resources and what a pod asks of each: ``amounts`` int64[k, 1], the same as ``numbers``, the
    k weights and their sum."""

    names: tuple[str, ...]
    amounts: Int64s
    numbers: tuple[int, ...]
    weights: tuple[int, ...]
    weight: int


def asked(resources: tuple[ResourceSpec, ...], requests: Resources) -> ScoredRequests:
    """The resources to score for a pod, in the order of the args: a scalar one that the pod does
    not request is passed over."""
    used = [r for r in resources if requests.get(r.name, 0) or not is_scalar(r.name)]
    amounts = [requests.get(each.name, 0) for each in used]
    return ScoredRequests(
        names=tuple(each.name for each in used),
        amounts=np.array(amounts, dtype=np.int64)[:, None],
        numbers=tuple(amounts),
        weights=tuple(each.weight for each in used),
        weight=sum(each.weight for each in used),
    )


class ShapeCache(Generic[T]):
    """What a plugin works out once for each shape of pod; a cache of so many shapes, and of so many
    bytes that these are written in: a pod may be long."""

    def __init__(
        self, work_out: Callable[[Pod], T], limit: int = 4096, limit_bytes: int = 32 * 2**20
    ) -> None:
        self._work_out = work_out
        self._limit, self._limit_bytes = limit, limit_bytes
        self._known: dict[bytes, T] = {}
        self._bytes = 0

    def __call__(self, pod: Pod) -> T:
        """The pod's."""
        found = self._known.get(pod.spec.key)
        if found is None:
            self._bytes += len(pod.spec.key)
            if len(self._known) >= self._limit or self._bytes > self._limit_bytes:
                self._known.clear()
                self._bytes = len(pod.spec.key)
            found = self._known[pod.spec.key] = self._work_out(pod)
        return found


def not_qualified(where: str, name: str) -> Iterator[InputError]:
    """A problem where a name is no qualified one (upstream: ValidateLabelName)."""
    if not labels.is_key(name):
        yield InputError(where, f"{name!r} is not a qualified name", "write example.com/gpu or gpu")
