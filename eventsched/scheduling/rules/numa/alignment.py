"""Whether a pod's requests fit into one NUMA zone of a node.

The rules are those of sigs.k8s.io/scheduler-plugins, pkg/noderesourcetopology/filter.go and
numaresources.go. All functions work on many nodes at once.
"""

from collections.abc import Callable, Mapping

import numpy as np

from eventsched.domain.objects import CPU, EPHEMERAL_STORAGE, MEMORY, PodSpec
from eventsched.domain.state.numa_zones import is_native, zone_request
from eventsched.scheduling.rules.numa.zone_columns import Bools, Int64s, Zones

ALIGNS, NO_INIT, NO_SIDECAR, NO_CONTAINER, NO_POD = range(5)
"""Outcomes: everything can be aligned; an init container, sidecar, container or the whole pod
cannot."""

Offers = Callable[[str], Bools]
"""Resource → bool[n]: whether the nodes offer it at all."""


def is_affine(resource: str) -> bool:
    """Whether every zone is expected to report the resource. Only Guaranteed pods get it from
    a single zone."""
    return resource in (CPU, MEMORY) or resource.startswith("hugepages-")


def is_of_host(resource: str) -> bool:
    """Whether a node may have the resource outside all zones."""
    return resource in (EPHEMERAL_STORAGE, "storage") or not is_native(resource)


def aligned_pod(spec: PodSpec, zones: Zones, offers: Offers) -> Int64s:
    """int64[n]: whether all of a pod can come from one zone."""
    passes, _ = _aligned(zone_request(spec), zones, offers, guaranteed=spec.guaranteed)
    return np.where(passes, ALIGNS, NO_POD)


def aligned_containers(spec: PodSpec, zones: Zones, offers: Offers) -> Int64s:
    """int64[n]: whether each container can come from one zone. Init containers and sidecars run one
    after the other and take nothing from those that follow. Writes to ``zones.available``."""
    codes = np.zeros(len(zones.numbers), dtype=np.int64)
    for container in spec.init_containers:
        passes, _ = _aligned(container.requests, zones, offers, guaranteed=spec.guaranteed)
        codes[(codes == ALIGNS) & ~passes] = NO_SIDECAR if container.restarts else NO_INIT
    for container in spec.containers:
        requests = container.requests
        passes, chosen = _aligned(requests, zones, offers, guaranteed=spec.guaranteed)
        codes[(codes == ALIGNS) & ~passes] = NO_CONTAINER
        rows = np.flatnonzero(codes == ALIGNS)
        at = chosen[rows]
        for name, amount in requests.items():
            counts = amount and name in zones.places and (spec.guaranteed or not is_affine(name))
            if counts:
                place = zones.places[name]
                taken = np.where(zones.reported[rows, at, place], amount, 0)
                zones.available[rows, at, place] -= taken
    return codes


def _aligned(
    requests: Mapping[str, int], zones: Zones, offers: Offers, *, guaranteed: bool
) -> tuple[Bools, Int64s]:
    """bool[n]: whether one zone has everything; int64[n]: the position of the first such zone, the
    one that the kubelet chooses."""
    passes = np.ones(len(zones.numbers), dtype=bool)
    fits = np.ones(zones.numbers.shape, dtype=bool)
    for name, amount in requests.items():
        if not amount:
            continue
        passes &= offers(name)
        reported = zones.reports(name)
        enough = reported
        if guaranteed or not is_affine(name):
            enough = reported & (zones.free(name) >= amount)
        if is_of_host(name):
            enough = enough | ~np.any(reported, axis=1, keepdims=True)
        fits &= enough
    return passes & fits.any(axis=1), fits.argmax(axis=1)
