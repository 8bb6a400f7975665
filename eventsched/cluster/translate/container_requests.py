"""What a pod requests beyond what its containers say: at pod level, and while it is being resized.

Upstream: component-helpers resource/helpers.go (PodRequests with UseStatusResources), which counts
a pod on a node with what it asks for and with what it was given, whichever is more.
"""

from eventsched.cluster.translate.fields import Field
from eventsched.domain.objects import CPU, MEMORY, PodSpec, Resources, pod_requests


class Resizes:
    """What a pod and its containers were given according to the pod's status."""

    def __init__(self, status: Field) -> None:
        """Raises InputError for a malformed status."""
        self._infeasible = _is_infeasible(status)
        self._pod = _given(status)
        self._containers = {
            each.get("name").text(): given
            for name in ("containerStatuses", "initContainerStatuses")
            for each in status.get(name).items()
            if (given := _given(each)) is not None
        }

    def container(self, name: str, asked: Resources) -> Resources:
        """What a container or sidecar counts with."""
        return self._effective(self._containers.get(name), asked)

    def pod(self, asked: Resources) -> Resources:
        """What a pod counts with that has requests of its own: these alone, and nothing of those
        that it was not given although its resize is infeasible."""
        counted = self._effective(self._pod, asked)
        return {name: counted.get(name, 0) for name in asked}

    def _effective(self, given: Resources | None, asked: Resources) -> Resources:
        if given is None:
            return asked
        return given if self._infeasible else _larger(given, asked)


def _given(status: Field) -> Resources | None:
    """What was allocated and what is in force, the larger of both; None where the status does not
    tell what is in force."""
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
    """The larger of both amounts, by resource."""
    return {
        name: max(one.get(name, 0), other.get(name, 0)) for name in dict.fromkeys((*one, *other))
    }


def pod_level(
    resources: Field, containers: PodSpec, resizes: Resizes | None, *, defaults: bool
) -> Resources | None:
    """The pod's own requests. With ``defaults`` and a pod-level limit they are completed from what
    the containers ask for together, then from the limit (upstream: defaultPodRequests)."""
    wanted = resources.get("requests").resources()
    limits = resources.get("limits").resources() if defaults else {}
    if limits:
        # Upstream completes hugepages too, with the containers' sum: the same as leaving them out.
        together = pod_requests.of(containers).effective
        for name in (CPU, MEMORY):
            if name in together:
                wanted.setdefault(name, together[name])
        for name, limit in limits.items():
            if name in (CPU, MEMORY) or name.startswith("hugepages-"):
                wanted.setdefault(name, limit)
    if wanted and resizes is not None:
        wanted = resizes.pod(wanted)
    return wanted or None
