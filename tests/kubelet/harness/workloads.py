"""Pods that do nothing, scheduled by eventsched."""

from tests.cluster.harness import manifests
from tests.cluster.harness.client import Object
from tests.kubelet.harness import images

CONTAINER: Object = {"name": "app", "image": images.PAUSE, "imagePullPolicy": "Never"}
GRACE = 2
"""Seconds that the containers have for their end; they need none."""


def idle(name: str, replicas: int, *, cpu: str = "1m", scheduler: str = "eventsched") -> Object:
    """A Deployment of idle pods, the same number on both nodes."""
    return manifests.deployment(
        name,
        replicas,
        scheduler=scheduler,
        containers=[{**CONTAINER, "resources": {"requests": {"cpu": cpu}}}],
        terminationGracePeriodSeconds=GRACE,
        topologySpreadConstraints=[_spread(name)],
    )


def _spread(name: str) -> Object:
    return {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"app": name}},
    }


def idle_pod(name: str, *, cpu: str = "1m", scheduler: str = "eventsched") -> Object:
    """One idle pod."""
    return manifests.pod(
        name,
        scheduler=scheduler,
        containers=[{**CONTAINER, "resources": {"requests": {"cpu": cpu}}}],
        terminationGracePeriodSeconds=GRACE,
    )


def local_volume(name: str, node: str, size: str = "5Gi", folder: str = "volume") -> Object:
    """A PersistentVolume without a class: a folder of the node."""
    made = manifests.volume(name, "", size, node)
    made["spec"]["local"] = {"path": f"/var/lib/{folder}"}
    return made
