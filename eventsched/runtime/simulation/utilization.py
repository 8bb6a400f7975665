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
    """Reads a node table each time that virtual time moves on. What nodes offer changes seldom: it
    is summed up, and shares are taken, only when it has."""

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self._last: int | None = None
        self._seen = -1
        self._elapsed = 0
        """Microseconds since what nodes offer last changed."""
        self._offer: Floats = np.zeros(0)
        self._most: Floats = np.zeros(0)
        """The largest sums of requests in that time."""
        self._held: Floats = np.zeros(0)
        self._offered: Floats = np.zeros(0)
        self._peak: Floats = np.zeros(0)

    def advance(self, now: int) -> None:
        """Counts the time (µs) since the last call with what is requested up to now."""
        elapsed = 0 if self._last is None else now - self._last
        if self._last is not None and not elapsed:
            return
        self._last = now
        self._count(elapsed)

    def _count(self, elapsed: int) -> None:
        totals = self._nodes.totals
        if self._seen != self._nodes.node_journal.end or totals.shape[1] != len(self._held):
            self._offer_changed(totals)
        requested = totals[REQUESTED]
        np.maximum(self._most, requested, out=self._most)
        self._held += requested * float(elapsed)
        self._elapsed += elapsed

    def _offer_changed(self, totals: NDArray[np.int64]) -> None:
        self._sum_up()
        length = totals.shape[1]
        self._held, self._offered, self._peak = (
            _padded(each, length) for each in (self._held, self._offered, self._peak)
        )
        self._seen = self._nodes.node_journal.end
        self._offer = totals[ALLOCATABLE].astype(np.float64)
        self._most = np.zeros(length)

    def _sum_up(self) -> None:
        self._offered += self._offer * float(self._elapsed)
        shares = np.divide(
            self._most, self._offer, out=np.zeros(len(self._offer)), where=self._offer > 0
        )
        np.maximum(self._peak, shares, out=self._peak)
        self._elapsed = 0

    def snapshot(self) -> list[Any]:
        """What was counted, as JSON values, for ``restore``."""
        self._sum_up()
        arrays = (self._held, self._offered, self._peak)
        return [self._last, *(array.tolist() for array in arrays)]

    def restore(self, kept: list[Any]) -> None:
        """Goes on counting from a snapshot."""
        self._last = kept[0]
        self._held, self._offered, self._peak = (np.array(each, dtype=float) for each in kept[1:])
        self._offer = self._most = np.zeros(len(self._held))

    def report(self) -> dict[str, Utilization]:
        """Resource → utilization, of the resources that the cluster offers; where no time has
        passed the mean is the present share."""
        self._count(0)
        self._sum_up()
        requested, allocatable = self._nodes.totals[REQUESTED], self._offer
        found = {}
        for name, index in self._nodes.resource_index.items():
            if allocatable[index] <= 0:
                continue
            held, offered = self._held[index], self._offered[index]
            mean = held / offered if offered else requested[index] / allocatable[index]
            found[name] = Utilization(float(mean), float(self._peak[index]))
        return found


def _padded(values: Floats, length: int) -> Floats:
    return np.pad(values, (0, length - len(values)))
