"""How well a Guaranteed pod fits into the NUMA zones of nodes.

The rules are those of sigs.k8s.io/scheduler-plugins, pkg/noderesourcetopology/score.go,
least_allocated.go, most_allocated.go, balanced_allocation.go and least_numa.go. All functions work
on many nodes at once.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from eventsched.domain.int64 import LARGEST, percents
from eventsched.domain.objects import CPU
from eventsched.domain.records.verdicts import MAX_NODE_SCORE
from eventsched.scheduling.rules.numa.zone_columns import ABSENT, UNKNOWN_COST, Bools, Int64s, Zones

Requests = Mapping[str, int]
Strategy = Callable[[Requests, Zones, Mapping[str, int]], Int64s]
"""Requests, zones and weights → int64[n, z]: each zone's score."""

MOST_ZONES = 8
"""LeastNUMANodes looks at no node with more zones: it tries all their combinations. The kubelet's
topology manager by default supports no more either."""
_VAST = LARGEST // MOST_ZONES
"""More than any zone has: the sum of so many zones fits into int64."""


# --- by zone ------------------------------------------------------------------------------


def least_allocated(requests: Requests, zones: Zones, weights: Mapping[str, int]) -> Int64s:
    """The share that would be left."""

    def share(wanted: int, offered: Int64s, divisor: Int64s) -> Int64s:
        return percents(offered - wanted, divisor)

    return _weighted(requests, zones, weights, share)


def most_allocated(requests: Requests, zones: Zones, weights: Mapping[str, int]) -> Int64s:
    """The share that it takes of what is free."""

    def share(wanted: int, offered: Int64s, divisor: Int64s) -> Int64s:
        return percents(np.full(offered.shape, wanted, dtype=np.int64), divisor)

    return _weighted(requests, zones, weights, share)


def balanced_allocation(requests: Requests, zones: Zones, weights: Mapping[str, int]) -> Int64s:
    """How alike the shares of the resources are; 0 if one is above 1. Weights do not matter. (With
    a single resource upstream computes with a variance that is not a number; here it is 0.)"""
    shape = zones.numbers.shape
    shares = np.ones((len(requests), *shape), dtype=np.float64)
    for place, (name, amount) in enumerate(sorted(requests.items())):
        wanted, offered = _whole(name, amount), _whole_column(name, zones.free(name))
        np.divide(wanted, offered, out=shares[place], where=offered != 0)
    count = len(requests)
    mean = shares.sum(axis=0) / max(count, 1)
    off = shares - mean
    # The second term takes out what rounding of the mean adds.
    spread = (off * off).sum(axis=0) - off.sum(axis=0) ** 2 / max(count, 1)
    variance = spread / max(count - 1, 1)
    scores = ((1 - variance) * MAX_NODE_SCORE).astype(np.int64)
    return np.where((shares > 1).any(axis=0), 0, scores)


def _weighted(
    requests: Requests, zones: Zones, weights: Mapping[str, int],
    share: Callable[[int, Int64s, Int64s], Int64s],
) -> Int64s:  # fmt: skip
    """The weighted mean over the requested resources; one that is not free or not enough counts as
    0. Processors count as whole ones, rounded up."""
    total = np.zeros(zones.numbers.shape, dtype=np.int64)
    weight = 0
    for name, amount in requests.items():
        free = zones.free(name)
        offered = _whole_column(name, free)
        scores = share(_whole(name, amount), offered, np.maximum(offered, 1))
        own = weights.get(name, 1)
        total += np.where((free == 0) | (amount > free), 0, scores) * own
        weight += own
    return total // max(weight, 1)


def lowest(scores: Int64s, zones: Zones) -> Int64s:
    """int64[n]: the lowest score of a node's zones that is not 0; 0 if all are."""
    counted = np.where((zones.numbers != ABSENT) & (scores != 0), scores, LARGEST).min(axis=1)
    return np.where(counted == LARGEST, 0, counted)


def _whole(name: str, amount: int) -> int:
    return -(-amount // 1000) if name == CPU else amount


def _whole_column(name: str, amounts: Int64s) -> Int64s:
    return -(-amounts // 1000) if name == CPU else amounts


# --- LeastNUMANodes -----------------------------------------------------------------------


def fewest_zones(parts: Sequence[Requests], zones: Zones, most: Int64s) -> Int64s:
    """int64[n]: the fewer zones the largest part needs, the higher; more if the distances between
    them are as short as on this node they can be. ``parts`` are the containers, in the order in
    which they are placed, or the pod as a whole; ``most`` (int64[n]) is how many zones the node's
    topology manager combines. 0 if a part fits nowhere, and for nodes with more than MOST_ZONES
    zones. Writes to ``zones.available``."""
    count = (zones.numbers != ABSENT).sum(axis=1)
    fits = count <= MOST_ZONES
    needed = np.zeros(len(count), dtype=np.int64)
    is_short = np.ones(len(count), dtype=bool)
    for requests in parts:
        concerned = np.zeros(len(count), dtype=bool)
        for name in requests:
            concerned |= zones.reports(name).any(axis=1)
        rows = np.flatnonzero(concerned & fits)
        chosen, short = _combined(requests, zones.picked(rows))
        own = chosen.sum(axis=1)
        fits[rows[own == 0]] = False
        needed[rows] = np.maximum(needed[rows], own)
        is_short[rows] &= short
        _take(requests, zones, rows, chosen)
    step = MAX_NODE_SCORE // most
    scores = MAX_NODE_SCORE - needed * step + np.where(is_short, step // 2, 0)
    scores[needed == 0] = MAX_NODE_SCORE
    return np.where(fits, np.maximum(scores, 0), 0)


def _combined(requests: Requests, zones: Zones) -> tuple[Bools, Bools]:
    """bool[n, z]: the fewest zones that together have everything, of several such sets the one with
    the shortest distances; none if there is none. bool[n]: whether no other set of that size has
    shorter ones."""
    size, width = zones.numbers.shape
    chosen, short = np.zeros((size, width), dtype=bool), np.zeros(size, dtype=bool)
    open_rows = np.arange(size)
    present = zones.numbers != ABSENT
    for length in range(1, min(width, MOST_ZONES) + 1):
        if not len(open_rows):
            break
        sets = [list(each) for each in combinations(range(width), length)]
        sets = [each for each in sets if present[open_rows][:, each].all(axis=1).any()]
        if not sets:
            break
        rows = zones.picked(open_rows)
        exists = np.array([present[open_rows][:, each].all(axis=1) for each in sets])
        sums = np.array([rows.costs[:, each][:, :, each].sum(axis=(1, 2)) for each in sets])
        enough = exists & np.array([_have(requests, rows, each) for each in sets])
        limit = UNKNOWN_COST * length * length
        least = np.minimum(np.where(exists, sums, limit).min(axis=0), limit)
        # Sums from 256 for each pair on are no candidates at all.
        beyond = (UNKNOWN_COST + 1) * length * length
        candidates = np.where(enough, np.minimum(sums, beyond), beyond)
        best = candidates.argmin(axis=0)
        found = candidates.min(axis=0) < beyond
        members = np.zeros((len(sets), width), dtype=bool)
        for place, each in enumerate(sets):
            members[place, each] = True
        chosen[open_rows[found]] = members[best[found]]
        short[open_rows[found]] = (candidates.min(axis=0) == least)[found]
        open_rows = open_rows[~found]
    return chosen, short


def _have(requests: Requests, zones: Zones, members: list[int]) -> NDArray[np.bool_]:
    """bool[n]: whether a set of zones has everything, each of them reporting all of it."""
    found = np.ones(len(zones.numbers), dtype=bool)
    for name, amount in requests.items():
        found &= zones.reports(name)[:, members].all(axis=1)
        if amount:
            found &= np.minimum(zones.free(name), _VAST)[:, members].sum(axis=1) >= amount
    return found


def _take(requests: Requests, zones: Zones, rows: NDArray[np.intp], chosen: Bools) -> None:
    """Takes the requests out of the chosen zones, the first ones first."""
    for name, amount in requests.items():
        place = zones.places.get(name)
        if place is None:
            continue
        left = np.full(len(rows), amount, dtype=np.int64)
        for position in range(zones.numbers.shape[1]):
            free = zones.available[rows, position, place]
            taken = np.where(chosen[:, position], np.minimum(left, free), 0)
            zones.available[rows, position, place] = free - taken
            left -= taken
