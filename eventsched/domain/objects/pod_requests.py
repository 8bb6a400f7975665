"""How much a pod requests of a node, in the four sums that scheduling uses.

The sums follow component-helpers' resource/helpers.go (PodRequests). Containers and sidecars add
up; an init container needs its own request and those of the sidecars before it; the larger of the
two counts. Pod-level requests replace the sum for cpu, memory and hugepages. Overhead is added. A
sum beyond int64 wraps around, as upstream's Quantity.Value() does.
"""

from typing import NamedTuple

from eventsched.domain.int64 import wrapped
from eventsched.domain.objects.pod_spec import Container, PodSpec
from eventsched.domain.objects.resource_names import (
    CPU,
    EPHEMERAL_STORAGE,
    MEMORY,
    Resources,
    is_scalar,
)

DEFAULT_MILLI_CPU = 100
"""Assumed for scoring if a container requests no cpu (upstream: util.DefaultMilliCPURequest)."""
DEFAULT_MEMORY = 200 * 1024 * 1024
"""Assumed for scoring if a container requests no memory (upstream: util.DefaultMemoryRequest)."""
_ASSUMED: Resources = {CPU: DEFAULT_MILLI_CPU, MEMORY: DEFAULT_MEMORY}


class PodRequests(NamedTuple):
    """``effective`` is what Filter compares and what a node's books add up. ``nonzero_cpu``
    (millicores) and ``nonzero_memory`` (bytes) are the same with defaults for containers that
    request none, for scoring. ``scored`` is what NodeResourcesFit scores: with defaults, without
    pod-level requests."""

    effective: Resources
    nonzero_cpu: int
    nonzero_memory: int
    scored: Resources


def of(spec: PodSpec) -> PodRequests:
    """The requests of a pod, computed once for each spec."""
    cached: PodRequests | None = spec.__dict__.get("_requests")
    if cached is None:
        cached = spec.__dict__["_requests"] = _compute(spec)
    return cached


def _compute(spec: PodSpec) -> PodRequests:
    total = _sum(spec, assumed={}, pod_level=True)
    missing = _ASSUMED
    if _has_pod_level(spec):
        missing = {name: value for name, value in _ASSUMED.items() if name not in total}
    nonzero = _sum(spec, assumed=missing, pod_level=True) if missing else total
    counted = {
        name: value
        for name, value in total.items()
        if name in (CPU, MEMORY, EPHEMERAL_STORAGE) or is_scalar(name)
    }
    return PodRequests(
        effective=_wrapped(counted),
        nonzero_cpu=wrapped(nonzero.get(CPU, 0)),
        nonzero_memory=wrapped(nonzero.get(MEMORY, 0)),
        scored=_wrapped(_sum(spec, assumed=_ASSUMED, pod_level=False)),
    )


def _wrapped(amounts: Resources) -> Resources:
    return {name: wrapped(amount) for name, amount in amounts.items()}


def _supports_pod_level(name: str) -> bool:
    return name in (CPU, MEMORY) or name.startswith("hugepages-")


def _has_pod_level(spec: PodSpec) -> bool:
    return any(_supports_pod_level(name) for name in spec.requests or {})


def _sum(spec: PodSpec, *, assumed: Resources, pod_level: bool) -> Resources:
    total: Resources = {}
    for container in spec.containers:
        _add(total, _requested(container, assumed))
    sidecars: Resources = {}
    peak: Resources = {}
    for container in spec.init_containers:
        requests = _requested(container, assumed)
        if container.restarts:
            _add(total, requests)
            _add(sidecars, requests)
            _raise_to(peak, sidecars)
        else:
            _raise_to(peak, _plus(requests, sidecars))
    _raise_to(total, peak)
    if pod_level:
        for name, value in (spec.requests or {}).items():
            if _supports_pod_level(name):
                total[name] = value
    _add(total, spec.overhead)
    return total


def _requested(container: Container, assumed: Resources) -> Resources:
    return {**assumed, **container.requests} if assumed else container.requests


def _plus(first: Resources, second: Resources) -> Resources:
    total = dict(first)
    _add(total, second)
    return total


def _add(total: Resources, more: Resources) -> None:
    for name, value in more.items():
        total[name] = total.get(name, 0) + value


def _raise_to(total: Resources, floor: Resources) -> None:
    for name, value in floor.items():
        if name not in total or total[name] < value:
            total[name] = value


def of_containers(spec: PodSpec) -> Resources:
    """The sum that plugins of sigs.k8s.io/scheduler-plugins use: all containers or the largest init
    container, whichever is more, plus the overhead. Sidecars count as other init containers, and
    pod-level requests do not count. Not limited to int64."""
    total: Resources = {}
    for container in spec.containers:
        for name, amount in container.requests.items():
            total[name] = total.get(name, 0) + amount
    for container in spec.init_containers:
        for name, amount in container.requests.items():
            total[name] = max(total.get(name, 0), amount)
    for name, amount in spec.overhead.items():
        total[name] = total.get(name, 0) + amount
    return total
