"""How much of a cluster is requested over time: time-weighted mean and peak for each resource."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from eventsched.domain.columns import NodeTable


class Utilization(NamedTuple):
    """Shares of the allocatable total, 0..1."""

    mean: float
    peak: float


class Meter:
    """Reads a node table each time that virtual time moves on."""

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self._last: int | None = None
        self._held: NDArray[np.float64] = np.zeros(0)
        self._offered: NDArray[np.float64] = np.zeros(0)
        self._peak: NDArray[np.float64] = np.zeros(0)

    def advance(self, now: int) -> None:
        """Counts the time (µs) since the last call with what is requested up to now."""
        elapsed = 0 if self._last is None else now - self._last
        if self._last is not None and not elapsed:
            return
        self._last = now
        self._count(elapsed)

    def _count(self, elapsed: int) -> None:
        requested, allocatable = self._totals()
        self._held = _plus(self._held, requested * elapsed)
        self._offered = _plus(self._offered, allocatable * elapsed)
        shares = np.divide(
            requested, allocatable, out=np.zeros(len(requested)), where=allocatable > 0
        )
        longer = max(len(shares), len(self._peak))
        self._peak = np.maximum(_padded(shares, longer), _padded(self._peak, longer))

    def report(self) -> dict[str, Utilization]:
        """Resource → utilization, of the resources that the cluster offers; where no time has
        passed the mean is the present share."""
        self._count(0)
        requested, allocatable = self._totals()
        found = {}
        for name, index in self._nodes.resource_index.items():
            if allocatable[index] <= 0:
                continue
            held, offered = self._held[index], self._offered[index]
            mean = held / offered if offered else requested[index] / allocatable[index]
            found[name] = Utilization(float(mean), float(self._peak[index]))
        return found

    def _totals(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        allocatable, requested = self._nodes.totals.astype(np.float64)
        return requested, allocatable


def _padded(values: NDArray[np.float64], length: int) -> NDArray[np.float64]:
    if len(values) == length:
        return values
    return np.pad(values, (0, length - len(values)))


def _plus(one: NDArray[np.float64], other: NDArray[np.float64]) -> NDArray[np.float64]:
    longer = max(len(one), len(other))
    return _padded(one, longer) + _padded(other, longer)
