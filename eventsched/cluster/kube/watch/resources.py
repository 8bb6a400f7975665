"""The resources of an API server that are watched: nodes, pods, and every type of the registry.

Priority classes are not among them: admission writes a class's number into each pod before a
scheduler sees it.
"""

from collections.abc import Collection
from dataclasses import dataclass

from eventsched.cluster.kube.http.api import path

NODE, POD = "Node", "Pod"


@dataclass(frozen=True, slots=True)
class Resource:
    """A resource. ``type`` is the domain type of its objects, which is also their kind; ``group``
    is "" for the core; ``selector`` a field selector of the objects that count. An ``optional`` one
    is watched for the plugins that read it, and its CustomResourceDefinition may be missing."""

    type: str
    group: str
    plural: str
    version: str = "v1"
    selector: str = ""
    optional: bool = False

    @property
    def definition(self) -> str:
        """The name that its CustomResourceDefinition has."""
        return f"{self.plural}.{self.group}"

    @property
    def path(self) -> str:
        """Where all of its objects are listed and watched."""
        if self.group:
            return path("apis", self.group, self.version, self.plural)
        return path("api", self.version, self.plural)


RESOURCES = (
    Resource(NODE, "", "nodes"),
    # Finished pods need no room. Upstream selects the same (pkg/scheduler NewInformerFactory); the
    # watch tells of a pod that finishes as of one that is deleted.
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
"""Those of every scheduler, in the order in which ``Listed`` has them."""
OPTIONAL = (
    Resource(
        "ElasticQuota", "scheduling.x-k8s.io", "elasticquotas", version="v1alpha1", optional=True
    ),
    Resource(
        "NodeResourceTopology", "topology.node.k8s.io", "noderesourcetopologies",
        version="v1alpha2", optional=True,
    ),
)  # fmt: skip
"""Those that plugins ask for (``reads_objects``)."""


def watched(types: Collection[str]) -> tuple[Resource, ...]:
    """The resources of a scheduler whose plugins read objects of these types as well."""
    return (*RESOURCES, *(each for each in OPTIONAL if each.type in types))
