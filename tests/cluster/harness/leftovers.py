"""Deletes a test's leftovers from a cluster, so that the next test starts with an empty one."""

from collections.abc import Iterable
from contextlib import suppress

from tests.cluster.harness.client import MERGE, ApiError, Client, Object, wait_for

_OWNERS = ("StatefulSet", "Deployment", "ReplicaSet", "DaemonSet", "Job", "ReplicationController")
_OTHERS = ("PersistentVolumeClaim", "PodDisruptionBudget", "Service", "ResourceQuota", "Event")
_STORAGE = (
    "VolumeAttachment",
    "CSIStorageCapacity",
    "CSINode",
    "CSIDriver",
    "PersistentVolume",
    "StorageClass",
)
_KINDS = (*_OWNERS, "Pod", *_OTHERS, *_STORAGE, "Lease", "Node")
"""Owners first, so that nothing comes back."""


def remove(client: Client, namespaces: Iterable[str]) -> None:
    """Removes nodes, volumes, classes, whatever is in any namespace, and these namespaces as far as
    a controller manager is there to do it. Raises TimeoutError when pods or volumes stay."""
    for kind in _KINDS:
        _remove(client, kind)
    for each in client.list("PriorityClass"):
        if not each["metadata"]["name"].startswith("system-"):
            client.delete("PriorityClass", each["metadata"]["name"])
    with suppress(ApiError):  # that of schedulers which were given no other name
        client.delete("Lease", "kube-scheduler", "kube-system")
    for name in namespaces:
        with suppress(ApiError):
            client.delete("Namespace", name)
    wait_for(lambda: _are_gone(client), "all pods and volumes are gone")


def _are_gone(client: Client) -> bool:
    # A controller may have made one more pod, or given a volume its finalizer again.
    for kind in ("Pod", "PersistentVolume"):
        _remove(client, kind)
    return not client.list("Pod") + client.list("PersistentVolume")


def _remove(client: Client, kind: str) -> None:
    found = [each for each in client.list(kind) if not _is_system(each)]
    for each in found:
        if each["metadata"].get("finalizers"):
            _release(client, kind, each)
    for namespace in dict.fromkeys(each["metadata"].get("namespace") for each in found):
        client.delete_all(kind, namespace)


def _is_system(found: Object) -> bool:
    metadata = found["metadata"]
    namespace = str(metadata.get("namespace", ""))
    return metadata["name"] == "kubernetes" or namespace.startswith("kube-")


def _release(client: Client, kind: str, found: Object) -> None:
    """Takes the finalizers off: there may be no controller that does."""
    metadata = found["metadata"]
    nothing = {"metadata": {"finalizers": None}}
    with suppress(ApiError):
        namespace = metadata.get("namespace")
        client.patch(kind, metadata["name"], nothing, namespace, content_type=MERGE)
