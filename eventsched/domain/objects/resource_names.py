"""Names and amounts of resources: cpu in millicores, memory and ephemeral-storage in bytes, all
else as a count.
"""

CPU = "cpu"
MEMORY = "memory"
EPHEMERAL_STORAGE = "ephemeral-storage"
PODS = "pods"
Resources = dict[str, int]


def is_scalar(name: str) -> bool:
    """Whether a resource is counted apart from cpu, memory, ephemeral-storage and pods (upstream:
    pkg/scheduler/util IsScalarResourceName): extended, hugepages, attachable volumes or any
    kubernetes.io/ resource."""
    return (
        "kubernetes.io/" in name
        or name.startswith(("hugepages-", "attachable-volumes-"))
        or is_extended(name)
    )


def is_extended(name: str) -> bool:
    """Whether a resource is an extended one such as example.com/gpu (upstream:
    pkg/apis/core/v1/helper IsExtendedResourceName)."""
    return "/" in name and "kubernetes.io/" not in name and not name.startswith("requests.")
