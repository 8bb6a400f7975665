"""The resources of an API server that are watched: nodes, pods, and every type of the registry.

Priority classes are not among them, because admission writes a class's number into each pod.
"""

from collections.abc import Collection
from dataclasses import dataclass

from eventsched.cluster.kube.http.api import path

NODE, POD = "Node", "Pod"


@dataclass(frozen=True, slots=True)
class Resource:
    """A resource. ``type`` is the domain type of its objects, which is also their kind; ``group``
    is "" for the core; ``selector`` is a field selector that limits the watch. An ``optional``
    resource is watched only for plugins that read it, and its CustomResourceDefinition may be
    missing."""

    type: str
    group: str
    plural: str
    version: str = "v1"
    selector: str = ""
    optional: bool = False

    @property
    def definition(self) -> str:
        """The name of its CustomResourceDefinition."""
        return f"{self.plural}.{self.group}"

    @property
    def path(self) -> str:
        """The URL path at which all of its objects are listed and watched."""
        if self.group:
            return path("apis", self.group, self.version, self.plural)
        return path("api", self.version, self.plural)


RESOURCES = (
    Resource(NODE, "", "nodes"),
    # Finished pods use no resources. Upstream has the same selector (pkg/scheduler
    # NewInformerFactory). The watch reports a pod that finishes as deleted.
    Resource(POD, "", "pods", selector="status.phase!=Succeeded,status.phase!=Failed"),
    Resource("Namespace", "", "namespaces"),
    Resource("Service", "", "services"),
    Resource("ReplicationController", "", "replicationcontrollers"),
    Resource("ReplicaSet", "apps", "replicasets"),
    Resource("StatefulSet", "apps", "statefulsets"),
    Resource("PersistentVolumeClaim", "", "persistentvolumeclaims"),
    Resource("PersistentVolume", "", "persistentvolumes"),
    Resource("StorageClass", "storage.k8s.io", "storageclasses"),
    Resource("CSINode", "storage.k8s.io", "csinodes"),
    Resource("CSIDriver", "storage.k8s.io", "csidrivers"),
    Resource("CSIStorageCapacity", "storage.k8s.io", "csistoragecapacities"),
    Resource("VolumeAttachment", "storage.k8s.io", "volumeattachments"),
    Resource("PodDisruptionBudget", "policy", "poddisruptionbudgets"),
)
"""The resources that every scheduler watches, in the order of ``Listed``."""
OPTIONAL = (
    Resource(
        "ElasticQuota", "scheduling.x-k8s.io", "elasticquotas", version="v1alpha1", optional=True
    ),
    Resource(
        "NodeResourceTopology", "topology.node.k8s.io", "noderesourcetopologies",
        version="v1alpha2", optional=True,
    ),
)  # fmt: skip
"""The resources that are watched if a plugin reads them (``reads_objects``)."""


def watched(types: Collection[str]) -> tuple[Resource, ...]:
    """The resources of a scheduler whose plugins also read objects of these types."""
    return (*RESOURCES, *(resource for resource in OPTIONAL if resource.type in types))
