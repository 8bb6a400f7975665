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
    """A resource to score and its weight; a weight of 0 means the default, 1."""

    name: str = ""
    weight: int = 0

    @staticmethod
    def defaulted(resources: tuple["ResourceSpec", ...]) -> tuple["ResourceSpec", ...]:
        """CPU and memory if no resource is named; weight 1 if none is set. The number of pods is
        never scored, even if it is named (upstream finds no such scalar resource)."""
        named = resources or (ResourceSpec(CPU), ResourceSpec(MEMORY))
        return tuple(ResourceSpec(r.name, r.weight or 1) for r in named if r.name != PODS)


class ScoredRequests(NamedTuple):
    """Resources and how much of each a pod requests: ``amounts`` is int64[k, 1], ``numbers`` the
    same as a tuple, then the k weights and their sum."""

    names: tuple[str, ...]
    amounts: Int64s
    numbers: tuple[int, ...]
    weights: tuple[int, ...]
    weight: int


def asked(resources: tuple[ResourceSpec, ...], requests: Resources) -> ScoredRequests:
    """The resources to score for a pod, in the order of the args. Scalar resources that the pod
    does not request are left out."""
    scored = [r for r in resources if requests.get(r.name, 0) or not is_scalar(r.name)]
    amounts = [requests.get(resource.name, 0) for resource in scored]
    return ScoredRequests(
        names=tuple(resource.name for resource in scored),
        amounts=np.array(amounts, dtype=np.int64)[:, None],
        numbers=tuple(amounts),
        weights=tuple(resource.weight for resource in scored),
        weight=sum(resource.weight for resource in scored),
    )


class ShapeCache(Generic[T]):
    """A cache of what a plugin computes once for each pod spec. It is bounded by the number of
    specs and by the bytes of their keys, because a spec may be large."""

    def __init__(
        self, compute: Callable[[Pod], T], limit: int = 512, limit_bytes: int = 32 * 2**20
    ) -> None:
        self._compute = compute
        self._limit, self._limit_bytes = limit, limit_bytes
        self._known: dict[bytes, T] = {}
        self._bytes = 0

    def __call__(self, pod: Pod) -> T:
        """The value for the pod's spec."""
        value = self._known.get(pod.spec.key)
        if value is None:
            self._bytes += len(pod.spec.key)
            if len(self._known) >= self._limit or self._bytes > self._limit_bytes:
                self._known.clear()
                self._bytes = len(pod.spec.key)
            value = self._known[pod.spec.key] = self._compute(pod)
        return value


def not_qualified(where: str, name: str) -> Iterator[InputError]:
    """Yields an error if a name is not qualified (upstream: ValidateLabelName)."""
    if not labels.is_key(name):
        yield InputError(where, f"{name!r} is not a qualified name", "write example.com/gpu or gpu")
