"""How much of a cluster is requested over time: time-weighted mean and peak for each resource."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from eventsched.domain.nodes.node_table import ALLOCATABLE, REQUESTED, NodeTable

Floats = NDArray[np.float64]


class Utilization(NamedTuple):
    """Shares of the allocatable total, 0..1."""

    mean: float
    peak: float


class Meter:
    """Reads a node table each time that virtual time moves on. Allocatable totals change seldom, so
    shares of them are computed only when they do."""

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self._last: int | None = None
        self._journal_end = -1
        self._elapsed = 0
        """Microseconds since the allocatable totals last changed."""
        self._allocatable: Floats = np.zeros(0)
        self._peak_requested: Floats = np.zeros(0)
        """The largest total requests in that time."""
        self._requested_time: Floats = np.zeros(0)
        """Total requests times µs."""
        self._allocatable_time: Floats = np.zeros(0)
        """Allocatable totals times µs."""
        self._peak: Floats = np.zeros(0)
        self._resources = nodes.columns.names
        """The resource that each column had last, when the totals last changed."""

    def advance(self, now: int) -> None:
        """Adds the time (µs) since the last call, with the requests up to now."""
        elapsed = 0 if self._last is None else now - self._last
        if self._last is not None and not elapsed:
            return
        self._last = now
        self._count(elapsed)

    def _count(self, elapsed: int) -> None:
        totals = self._nodes.totals
        if self._journal_end != self._nodes.node_journal.end or totals.shape[1] != len(
            self._requested_time
        ):
            self._allocatable_changed(totals)
        requested = totals[REQUESTED].astype(np.float64)  # once: each mixed operation would do it
        np.maximum(self._peak_requested, requested, out=self._peak_requested)
        requested *= float(elapsed)
        self._requested_time += requested
        self._elapsed += elapsed

    def _allocatable_changed(self, totals: NDArray[np.int64]) -> None:
        self._sum_up()
        length = totals.shape[1]
        self._requested_time, self._allocatable_time, self._peak = (
            _padded(values, length)
            for values in (self._requested_time, self._allocatable_time, self._peak)
        )
        self._begin_resources()
        self._journal_end = self._nodes.node_journal.end
        self._allocatable = totals[ALLOCATABLE].astype(np.float64)
        self._peak_requested = np.zeros(length)

    def _begin_resources(self) -> None:
        """The sums of a column that has become another resource's begin at zero."""
        names = self._nodes.columns.names
        for index, name in enumerate(self._resources):
            if names[index] and name and names[index] != name:
                for sums in (self._requested_time, self._allocatable_time, self._peak):
                    sums[index] = 0
            names[index] = names[index] or name
        self._resources = names

    def _sum_up(self) -> None:
        self._allocatable_time += self._allocatable * float(self._elapsed)
        shares = np.divide(
            self._peak_requested,
            self._allocatable,
            out=np.zeros(len(self._allocatable)),
            where=self._allocatable > 0,
        )
        np.maximum(self._peak, shares, out=self._peak)
        self._elapsed = 0

    def snapshot(self) -> list[Any]:
        """The sums as JSON values, for ``restore``."""
        self._sum_up()
        arrays = (self._requested_time, self._allocatable_time, self._peak)
        return [self._last, *(array.tolist() for array in arrays)]

    def restore(self, snapshot: list[Any]) -> None:
        """Loads a snapshot."""
        self._last = snapshot[0]
        self._requested_time, self._allocatable_time, self._peak = (
            np.array(values, dtype=float) for values in snapshot[1:]
        )
        self._allocatable = self._peak_requested = np.zeros(len(self._requested_time))
        self._resources = self._nodes.columns.names

    def report(self) -> dict[str, Utilization]:
        """Resource → utilization, for the resources that nodes offer. If no time has passed, the
        mean is the current share."""
        self._count(0)
        self._sum_up()
        requested, allocatable = self._nodes.totals[REQUESTED], self._allocatable
        shares = {}
        for name, index in self._nodes.resource_index.items():
            if allocatable[index] <= 0:
                continue
            used, offered = self._requested_time[index], self._allocatable_time[index]
            mean = used / offered if offered else requested[index] / allocatable[index]
            shares[name] = Utilization(float(mean), float(self._peak[index]))
        return shares


def _padded(values: Floats, length: int) -> Floats:
    # Called with each change of a node, while new resources are rare.
    return np.pad(values, (0, length - len(values))) if len(values) < length else values
