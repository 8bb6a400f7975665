"""How well a Guaranteed pod fits into the NUMA zones of nodes.

The rules are those of sigs.k8s.io/scheduler-plugins, pkg/noderesourcetopology/score.go,
least_allocated.go, most_allocated.go, balanced_allocation.go and least_numa.go. All functions work
on many nodes at once.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from eventsched.domain.int64 import INT64_MAX, percents
from eventsched.domain.objects import CPU
from eventsched.domain.records.verdicts import MAX_NODE_SCORE
from eventsched.scheduling.rules.numa.zone_columns import ABSENT, UNKNOWN_COST, Bools, Int64s, Zones

Requests = Mapping[str, int]
Strategy = Callable[[Requests, Zones, Mapping[str, int]], Int64s]
"""Requests, zones and weights → int64[n, z]: each zone's score."""

MOST_ZONES = 8
"""LeastNUMANodes skips nodes with more zones, because it tries all combinations. The kubelet's
topology manager supports no more by default either."""
_VAST = INT64_MAX // MOST_ZONES
"""More than any zone has; the sum over MOST_ZONES zones fits into int64."""


# --- by zone ------------------------------------------------------------------------------


def least_allocated(requests: Requests, zones: Zones, weights: Mapping[str, int]) -> Int64s:
    """The share that would be left free."""

    def share(wanted: int, offered: Int64s, divisor: Int64s) -> Int64s:
        return percents(offered - wanted, divisor)

    return _weighted(requests, zones, weights, share)


def most_allocated(requests: Requests, zones: Zones, weights: Mapping[str, int]) -> Int64s:
    """The share of the free amount that the pod takes."""

    def share(wanted: int, offered: Int64s, divisor: Int64s) -> Int64s:
        return percents(np.full(offered.shape, wanted, dtype=np.int64), divisor)

    return _weighted(requests, zones, weights, share)


def balanced_allocation(requests: Requests, zones: Zones, weights: Mapping[str, int]) -> Int64s:
    """How similar the shares of the resources are; 0 if one is above 1. Weights are ignored. (With
    a single resource upstream computes with a variance that is not a number; here it is 0.)"""
    shape = zones.numbers.shape
    shares = np.ones((len(requests), *shape), dtype=np.float64)
    for place, (name, amount) in enumerate(sorted(requests.items())):
        wanted, offered = _whole(name, amount), _whole_column(name, zones.free(name))
        np.divide(wanted, offered, out=shares[place], where=offered != 0)
    count = len(requests)
    mean = shares.sum(axis=0) / max(count, 1)
    off = shares - mean
    # The second term corrects the rounding error of the mean.
    spread = (off * off).sum(axis=0) - off.sum(axis=0) ** 2 / max(count, 1)
    variance = spread / max(count - 1, 1)
    scores = ((1 - variance) * MAX_NODE_SCORE).astype(np.int64)
    return np.where((shares > 1).any(axis=0), 0, scores)


def _weighted(
    requests: Requests, zones: Zones, weights: Mapping[str, int],
    share: Callable[[int, Int64s, Int64s], Int64s],
) -> Int64s:  # fmt: skip
    """The weighted mean over the requested resources; a resource of which too little or none
    is free counts as 0. CPUs are rounded up to whole ones."""
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
    counted = np.where((zones.numbers != ABSENT) & (scores != 0), scores, INT64_MAX).min(axis=1)
    return np.where(counted == INT64_MAX, 0, counted)


def _whole(name: str, amount: int) -> int:
    return -(-amount // 1000) if name == CPU else amount


def _whole_column(name: str, amounts: Int64s) -> Int64s:
    return -(-amounts // 1000) if name == CPU else amounts


# --- LeastNUMANodes -----------------------------------------------------------------------


def fewest_zones(parts: Sequence[Requests], zones: Zones, most: Int64s) -> Int64s:
    """int64[n]: the fewer zones the largest part needs, the higher; with a bonus if the distances
    between them are the shortest possible on this node. ``parts`` are the containers, in order of
    placement, or the pod as a whole; ``most`` (int64[n]) is how many zones the node's
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
        sets = [list(zone_set) for zone_set in combinations(range(width), length)]
        sets = [zone_set for zone_set in sets if present[open_rows][:, zone_set].all(axis=1).any()]
        if not sets:
            break
        rows = zones.picked(open_rows)
        exists = np.array([present[open_rows][:, zone_set].all(axis=1) for zone_set in sets])
        sums = np.array(
            [rows.costs[:, zone_set][:, :, zone_set].sum(axis=(1, 2)) for zone_set in sets]
        )
        enough = exists & np.array([_have(requests, rows, zone_set) for zone_set in sets])
        limit = UNKNOWN_COST * length * length
        least = np.minimum(np.where(exists, sums, limit).min(axis=0), limit)
        # A set whose costs average 256 or more per pair is not a candidate.
        beyond = (UNKNOWN_COST + 1) * length * length
        candidates = np.where(enough, np.minimum(sums, beyond), beyond)
        best = candidates.argmin(axis=0)
        has_set = candidates.min(axis=0) < beyond
        members = np.zeros((len(sets), width), dtype=bool)
        for place, zone_set in enumerate(sets):
            members[place, zone_set] = True
        chosen[open_rows[has_set]] = members[best[has_set]]
        short[open_rows[has_set]] = (candidates.min(axis=0) == least)[has_set]
        open_rows = open_rows[~has_set]
    return chosen, short


def _have(requests: Requests, zones: Zones, members: list[int]) -> NDArray[np.bool_]:
    """bool[n]: whether a set of zones has everything, each of them reporting all of it."""
    enough = np.ones(len(zones.numbers), dtype=bool)
    for name, amount in requests.items():
        enough &= zones.reports(name)[:, members].all(axis=1)
        if amount:
            enough &= np.minimum(zones.free(name), _VAST)[:, members].sum(axis=1) >= amount
    return enough


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
