"""Requested against allocatable, over the resources that a plugin scores.

Shared by NodeResourcesFit and NodeResourcesBalancedAllocation; upstream:
plugins/noderesources/resource_allocation.go.
"""

import re
from collections.abc import Callable
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from eventsched.domain.columns import NodeView
from eventsched.domain.objects import CPU, MEMORY, Resources, is_scalar

Int64s = NDArray[np.int64]

_LABEL_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_PREFIX = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


class ResourceSpec(msgspec.Struct, rename="camel", forbid_unknown_fields=True, frozen=True):
    """A resource to score, and its weight; 0 stands for the default, 1."""

    name: str
    weight: int = 0

    @staticmethod
    def defaulted(resources: tuple["ResourceSpec", ...]) -> tuple["ResourceSpec", ...]:
        """cpu and memory where none are named; weight 1 where none is given."""
        named = resources or (ResourceSpec(CPU), ResourceSpec(MEMORY))
        return tuple(ResourceSpec(each.name, each.weight or 1) for each in named)


class ScoredColumns(NamedTuple):
    """int64[k, n] columns of the resources that count for a pod, in the order of the args.
    ``present`` says where a node has the resource at all; elsewhere the other columns are 0."""

    weights: Int64s
    allocatable: Int64s
    without_pod: Int64s
    with_pod: Int64s
    present: NDArray[np.bool_]


def scored_columns(
    resources: tuple[ResourceSpec, ...],
    requests: Resources,
    nodes: NodeView,
    requested: Callable[[tuple[str, ...]], Int64s],
) -> ScoredColumns | None:
    """The columns to score, None where there are none: a scalar resource that the pod does not
    request is passed over. ``requested`` is which of a view's books to read."""
    used = [r for r in resources if requests.get(r.name, 0) or not is_scalar(r.name)]
    if not used:
        return None
    names = tuple(each.name for each in used)
    allocatable = nodes.allocatable(names)
    present = allocatable != 0
    without_pod = np.where(present, requested(names), 0)
    amounts = np.array([requests.get(name, 0) for name in names], dtype=np.int64)[:, None]
    return ScoredColumns(
        weights=np.array([each.weight for each in used], dtype=np.int64),
        allocatable=allocatable,
        without_pod=without_pod,
        with_pod=np.where(present, without_pod + amounts, 0),
        present=present,
    )


def checked_label(where: str, name: str) -> None:
    """Raises ValueError for what is no qualified name (upstream: ValidateLabelName)."""
    prefix, slash, rest = name.rpartition("/")
    if not _LABEL_NAME.fullmatch(rest) or (slash and not _PREFIX.fullmatch(prefix)):
        raise ValueError(f"{where}: {name!r} is not a qualified name such as example.com/gpu")
