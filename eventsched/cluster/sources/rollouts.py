"""Deployments that are rolled while a simulation runs: new templates for their pods."""

from dataclasses import dataclass

import msgspec

from eventsched.cluster.sources.recurrence import Recurrence
from eventsched.domain.objects import Container, Pod, PodSpec

TEMPLATE_HASH = "pod-template-hash"
"""The label that a Deployment gives the pods of each template (Kubernetes, apps/v1)."""


@dataclass(frozen=True)
class Rollouts:
    """When the Deployments of a load are rolled, and their templates: a function of the time.

    A pod's owner names its Deployment. ``indices`` are the Deployments' numbers, by that name.
    """

    indices: dict[str, int]
    recurrence: Recurrence

    def next_end(self, pod: Pod, after: int) -> int | None:
        """When a pod's Deployment is rolled, the first time after a time; None for never."""
        return self.recurrence.next(self._index(pod), after)

    def revision(self, index: int, at: int) -> int:
        """How often a Deployment was rolled up to a time."""
        return self.recurrence.count(index, at)

    def pod(self, pod: Pod, at: int) -> Pod:
        """A pod of the load as the Deployment's template at a time makes it."""
        revision = self.revision(self._index(pod), at)
        if not revision or pod.labels.get(TEMPLATE_HASH) == str(revision):
            return pod
        owner = pod.owner
        assert owner is not None
        name = f"{_deployment(owner.name)}-{revision}"
        return msgspec.structs.replace(
            pod,
            labels={**pod.labels, TEMPLATE_HASH: str(revision)},
            owner=msgspec.structs.replace(owner, name=name, uid=f"replicaset-{name}"),
            spec=_revised(pod.spec, revision),
        )

    def _index(self, pod: Pod) -> int:
        assert pod.owner is not None
        return self.indices[_deployment(pod.owner.name)]


def _deployment(replica_set: str) -> str:
    """``app-7`` of its ReplicaSets ``app-7`` and ``app-7-3``."""
    return "-".join(replica_set.split("-")[:2])


def _revised(spec: PodSpec, revision: int) -> PodSpec:
    """The template with the images of a revision; containers without an image stay as they are."""
    containers = tuple(_container(container, revision) for container in spec.containers)
    return msgspec.structs.replace(spec, containers=containers)


def _container(container: Container, revision: int) -> Container:
    if not container.image:
        return container
    image = f"{container.image.rpartition(':')[0]}:v{revision + 1}"
    return msgspec.structs.replace(container, image=image)
