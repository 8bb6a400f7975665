"""Requests at pod level, and requests of pods that are being resized.

Upstream: component-helpers resource/helpers.go (PodRequests with UseStatusResources). A pod on a
node counts with the larger of its requested and its allocated resources.
"""

from eventsched.cluster.translate.fields import Field
from eventsched.domain.objects import CPU, MEMORY, PodSpec, Resources, pod_requests


class AllocatedResources:
    """The resources allocated to a pod and its containers, from the pod's status."""

    def __init__(self, status: Field) -> None:
        """Raises InputError for a malformed status."""
        self._infeasible = _is_infeasible(status)
        self._pod = _allocated(status)
        self._containers = {
            container.get("name").text(): allocated
            for name in ("containerStatuses", "initContainerStatuses")
            for container in status.get(name).items()
            if (allocated := _allocated(container)) is not None
        }

    def container(self, name: str, requests: Resources) -> Resources:
        """The effective requests of a container or sidecar."""
        return self._effective(self._containers.get(name), requests)

    def pod(self, requests: Resources) -> Resources:
        """The effective requests of a pod with pod-level requests: only of the resources in
        ``requests``, and 0 of one that an infeasible resize left unallocated."""
        effective = self._effective(self._pod, requests)
        return {name: effective.get(name, 0) for name in requests}

    def _effective(self, allocated: Resources | None, requests: Resources) -> Resources:
        if allocated is None:
            return requests
        return allocated if self._infeasible else _larger(allocated, requests)


def _allocated(status: Field) -> Resources | None:
    """The larger of the allocated and the actual resources; None if the status has no actual
    ones."""
    actual = status.get("resources")
    if actual.value is None:
        return None
    return _larger(actual.get("requests").resources(), status.get("allocatedResources").resources())


def _is_infeasible(status: Field) -> bool:
    for condition in status.get("conditions").items():
        if condition.get("type").text() == "PodResizePending":
            return condition.get("reason").text() == "Infeasible"
    return False


def _larger(one: Resources, other: Resources) -> Resources:
    """The larger amount of each resource."""
    return {
        name: max(one.get(name, 0), other.get(name, 0)) for name in dict.fromkeys((*one, *other))
    }


def pod_level(
    resources: Field, containers: PodSpec, allocated: AllocatedResources | None, *, defaults: bool
) -> Resources | None:
    """The pod-level requests. With ``defaults`` and a pod-level limit, missing requests are set to
    the sum of the containers' requests, or else to the limit (upstream: defaultPodRequests)."""
    wanted = resources.get("requests").resources()
    limits = resources.get("limits").resources() if defaults else {}
    if limits:
        # Upstream also sets hugepages to the containers' sum. Leaving them out has the same effect.
        sums = pod_requests.of(containers).effective
        for name in (CPU, MEMORY):
            if name in sums:
                wanted.setdefault(name, sums[name])
        for name, limit in limits.items():
            if name in (CPU, MEMORY) or name.startswith("hugepages-"):
                wanted.setdefault(name, limit)
    if wanted and allocated is not None:
        wanted = allocated.pod(wanted)
    return wanted or None
