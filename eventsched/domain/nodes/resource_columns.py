"""Which column of a node table's books each resource has."""

from collections.abc import Sequence
from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from eventsched.domain.journal import Rows
from eventsched.domain.objects import (
    CPU,
    EPHEMERAL_STORAGE,
    MEMORY,
    PODS,
    PodSpec,
    Resources,
    is_scalar,
)
from eventsched.domain.objects.pod_requests import of as requests_of

Int64s = NDArray[np.int64]
_ALWAYS = (CPU, MEMORY, EPHEMERAL_STORAGE, PODS)
_MAX_SELECTIONS = 4096
"""The most combinations of resources whose selections are cached."""


class PodUsage(NamedTuple):
    """What a pod uses of a node. ``load`` is int64[2, resource], what it adds to the books
    REQUESTED and NONZERO; ``other`` are its requests of resources without a column. Valid while
    ``columns`` is the identity of the columns."""

    columns: object
    load: Int64s
    other: Resources


class ResourceColumns:
    """cpu, memory, ephemeral-storage and pods have the first columns, always. Any other resource
    gets one when a node offers it: the first free one, or a new one."""

    def __init__(self) -> None:
        self.index: dict[str, int] = {name: index for index, name in enumerate(_ALWAYS)}
        """The column of each resource."""
        self.width = len(_ALWAYS)
        """The number of columns, free ones included."""
        self.withdrawn: set[str] = set()
        """Resources that have a column, but that no node offers any longer."""
        self.identity = object()
        """Identifies the columns: replaced when one gets another meaning."""
        self._offering: dict[str, int] = {}
        """How many nodes offer each resource."""
        self._free: list[int] = []
        self._selections: dict[tuple[str, ...], slice | Rows] = {}

    def copied(self) -> "ResourceColumns":
        """Columns of its own. What a pod uses is known for both until either changes."""
        other = ResourceColumns()
        other.index, other.width, other.identity = self.index.copy(), self.width, self.identity
        other.withdrawn, other._offering = self.withdrawn.copy(), self._offering.copy()
        other._free = self._free.copy()
        return other

    @property
    def names(self) -> list[str]:
        """The resource of each column; "" for a free one."""
        names = [""] * self.width
        for name, index in self.index.items():
            names[index] = name
        return names

    def put_back(self, names: Sequence[str]) -> None:
        """Gives the resources of a snapshot the columns that they had. Raises ValueError for names
        that are not ``names`` of any columns."""
        index = {name: index for index, name in enumerate(names) if name}
        if tuple(names[: len(_ALWAYS)]) != _ALWAYS or len(index) + names.count("") != len(names):
            raise ValueError("the resources of the columns contradict each other")
        self.index, self.width = index, len(names)
        self.withdrawn = set(index) - set(_ALWAYS)
        self._free = [number for number, name in enumerate(names) if not name]
        self._change()

    def add(self, name: str) -> int:
        """Gives a resource a column and returns it."""
        if self._free:
            index = heappop(self._free)
        else:
            index, self.width = self.width, self.width + 1
        self.index[name] = index
        self.withdrawn.add(name)
        self._change()
        return index

    def free(self, name: str) -> None:
        """Frees the column of a resource that no node offers."""
        self.withdrawn.remove(name)
        heappush(self._free, self.index.pop(name))
        self._change()

    def offer(self, before: Resources, now: Resources) -> None:
        """Counts what a node offers now instead of before."""
        if before.keys() == now.keys():
            return
        for name in filter(is_scalar, now):
            self._offering[name] = self._offering.get(name, 0) + 1
            self.withdrawn.discard(name)
        for name in filter(is_scalar, before):
            self._offering[name] -= 1
            if not self._offering[name]:
                del self._offering[name]
                self.withdrawn.add(name)

    def selection(self, resources: tuple[str, ...]) -> slice | Rows | None:
        """The index of resources along an axis of the books; None if one has no column."""
        selection = self._selections.get(resources)
        if selection is None and all(name in self.index for name in resources):
            index = [self.index[name] for name in resources]
            if index == list(range(index[0], index[0] + len(index))):
                selection = slice(index[0], index[-1] + 1)
            else:
                selection = np.array(index, dtype=np.intp)
            if len(self._selections) >= _MAX_SELECTIONS:
                self._selections.clear()
            self._selections[resources] = selection
        return selection

    def usage_of(self, spec: PodSpec) -> PodUsage:
        """What a pod uses. Cached on the spec, so that the cache goes with it."""
        usage: PodUsage | None = spec.__dict__.get("_pod_usage")
        if usage is None or usage.columns is not self.identity:
            usage = spec.__dict__["_pod_usage"] = self._computed_usage(spec)
        return usage

    def _computed_usage(self, spec: PodSpec) -> PodUsage:
        requests, known = requests_of(spec), self.index
        load = np.zeros((2, self.width), dtype=np.int64)
        other: Resources = {}
        for name, amount in requests.effective.items():
            if name in known:
                load[:, known[name]] = amount
            elif amount:
                other[name] = amount
        load[1, known[CPU]] = requests.nonzero_cpu
        load[1, known[MEMORY]] = requests.nonzero_memory
        load[:, known[PODS]] = 1
        return PodUsage(self.identity, load, other)

    def _change(self) -> None:
        self.identity = object()
        self._selections.clear()
